/** Two tabs changed one sentence: both states are shown, and the reader chooses. */
import { on } from "./core/bus.js";
import { byId, count, dialog, h } from "./core/dom.js";
import { conflicts, draft, keepMine, takeTheirs } from "./core/drafts.js";
import { paint } from "./text/paint.js";

let shown = null;

const marks = (labels) => labels.spans.map((span) => ({ ...span, kind: "label" }));

const side = (title, sentence, labels, button) =>
  h(
    "section",
    { class: "side", "aria-label": title },
    h("h3", {}, title),
    h("p", { class: "excerpt", dir: "auto" }, paint(sentence, marks(labels))),
    h(
      "p",
      { class: "quiet" },
      (labels.none ?? labels.state === "none")
        ? "marked as without entity"
        : count(labels.spans.length, "label"),
    ),
    button,
  );

export function resolve() {
  const [first] = conflicts();
  if (!first || shown) return;
  const { id, labels, theirs } = draft(first.id);
  const choose = (text, action) =>
    h(
      "button",
      {
        class: "main",
        on: {
          click: () => {
            action(id);
            shown.close();
          },
        },
      },
      text,
    );
  shown = dialog(
    "This sentence was changed elsewhere",
    h(
      "div",
      { class: "conflict" },
      side("Yours, not saved", theirs, labels, choose("Keep mine", keepMine)),
      side("In the project", theirs, theirs, choose("Take theirs", takeTheirs)),
    ),
  );
  shown.addEventListener("close", () => {
    shown = null;
    byId("text").focus();
    draw();
  });
}

function draw() {
  const open = conflicts().length;
  byId("conflicts").hidden = !open;
  byId("conflicts").textContent = `${count(open, "conflict")}: decide`;
}

on("conflict", resolve);
on("sentence", draw);
byId("conflicts").addEventListener("click", resolve);
