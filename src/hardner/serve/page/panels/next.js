/** Next: the sentences the model finds hardest, and why. */
import { post } from "../core/api.js";
import { emit, on } from "../core/bus.js";
import { byId, h } from "../core/dom.js";
import { note, say, told } from "../core/live.js";
import { project } from "../core/project.js";
import { isDone } from "../core/spans.js";
import { paint } from "../text/paint.js";
import { openDocument, opened } from "../text/reader.js";
import { draft } from "../core/drafts.js";
import { tab } from "./tabs.js";

const MANY = 10;

const panel = tab("next", "Next");
const go = h(
  "button",
  { class: "main", on: { click: told(() => next()) } },
  "Label the hardest ",
  h("kbd", {}, "Ctrl ↵"),
);
const hint = h("p", { class: "quiet" });
const list = h("ol", { class: "cards" });
panel.append(go, hint, list);

let queue = [];
const seen = new Set();

async function fill() {
  const { suggestions } = await post("/api/suggest", { n: MANY, skip: [...seen].slice(-500) });
  queue = suggestions;
  draw();
}

/** Opens the hardest sentence not yet looked at. */
export const next = told(async () => {
  queue = queue.filter(({ sentence }) => !isDone(draft(sentence.id)?.sentence.state));
  if (!queue.length) await fill();
  if (!queue.length) return note("Nothing is left to ask: every sentence has been looked at.");
  return visit(queue[0]);
});

async function visit(chosen) {
  const { sentence, reason, uncertain } = chosen;
  seen.add(sentence.id);
  queue = queue.filter((other) => other !== chosen);
  draw(chosen);
  await openDocument(sentence.document, { ...sentence, uncertain });
  byId("text").focus();
  say(reason);
}

function draw(now = null) {
  const cards = [...(now ? [card(now, true)] : []), ...queue.map((s) => card(s, false))];
  list.replaceChildren(...cards);
  hint.textContent = cards.length
    ? "Hardest first, but no mention twice in a row; dotted: what the model is not sure of."
    : "The model looks through the sentences without labels and asks for those it learns most from.";
}

function card(suggestion, current) {
  const { sentence, hardness, reason, uncertain } = suggestion;
  const marks = uncertain.map((u) => ({ ...u, kind: "doubt" }));
  return h(
    "li",
    { class: current ? "card current" : "card", "aria-current": current && "true" },
    h("p", { class: "reason" }, reason),
    h("p", { class: "excerpt", dir: "auto" }, paint(sentence, marks)),
    h(
      "p",
      { class: "quiet" },
      `hardness ${hardness.toFixed(2)} `,
      !current &&
        h("button", { class: "link", on: { click: told(() => visit(suggestion)) } }, "Label this"),
    ),
  );
}

function drawState() {
  const none = !project.status.model;
  go.disabled = none || !project.status.counts.open;
  if (none) hint.textContent = "There is no model yet that could say what is hard.";
  else if (!project.status.counts.open)
    hint.textContent = "No open sentences. Add documents first.";
  else if (!list.children.length) draw();
}

on("model", () => {
  queue = [];
  seen.clear();
  draw();
});
on("status", drawState);
on("types", () => draw());
