/** People: who labels here, how far they agree, and verdicts where they do not. */
import { get, patch, post } from "../core/api.js";
import { on } from "../core/bus.js";
import { count, dialog, figure, h } from "../core/dom.js";
import { settled } from "../core/drafts.js";
import { note, say, told } from "../core/live.js";
import { project, refresh, typeOf } from "../core/project.js";
import { callMe, who } from "../core/who.js";
import { paint } from "../text/paint.js";
import { tab } from "./tabs.js";

const panel = tab("people", "People");
const name = h("input", { id: "my-name", required: true, maxlength: 60, autocomplete: "name" });
const mine = h(
  "form",
  { class: "line" },
  h("label", { for: "my-name" }, "Your name"),
  name,
  h("button", {}, "Use"),
);
const list = h("ul", { class: "plain" });
const alone = h("input", { id: "alone", type: "checkbox" });
const differences = h("p", {});
const verdict = h("div", { class: "verdict" });
const agreed = h("div", {});
panel.append(
  mine,
  list,
  h(
    "label",
    { class: "check" },
    alone,
    " Each reads alone: nobody sees the labels of others, and differences are decided here",
  ),
  differences,
  verdict,
  agreed,
);

/** Everything on the page is seen by someone else's eyes from now on. */
async function startAnew() {
  if (!(await settled())) throw new Error("Some labels are not saved yet; try again when they are.");
  location.reload();
}

const become = (given) =>
  told(async () => {
    if (!(await settled())) throw new Error("Some labels are not saved yet; change it when they are.");
    // At home, who has no name yet is the project's first; elsewhere names tell people apart.
    if (who() || project.asks_name || !(await renamed(given))) callMe(given);
    location.reload();
  })();

async function renamed(given) {
  try {
    await patch("/api/people/1", { name: given });
    return true;
  } catch (error) {
    if (error.status !== 409) throw error;
    return false;
  }
}

mine.addEventListener("submit", (event) => {
  event.preventDefault();
  if (name.value.trim() && name.value.trim() !== project.me) become(name.value.trim());
});

alone.addEventListener(
  "change",
  told(async () => {
    changing = alone.checked;
    try {
      if (!(await settled())) throw new Error("Some labels are not saved yet; try when they are.");
      await patch("/api/people", { alone: changing });
    } catch (error) {
      alone.checked = project.status.alone;
      throw error;
    } finally {
      changing = null;
    }
    await refresh();
  }),
);

let again = 0;
let changing = null; // what "alone" is being set to; an answer on its way says what it was before

async function show() {
  const asked = (again += 1);
  const found = await get("/api/people");
  if (asked !== again) return;
  list.replaceChildren(...found.people.filter((one) => one.last).map((one) => person(one, found)));
  alone.checked = changing ?? found.alone;
  agreed.replaceChildren(...found.agreement.flatMap(table));
  differences.replaceChildren(...left(found));
}

const person = ({ name: called, sentences, mentions, last }, { me }) =>
  h(
    "li",
    {},
    h("strong", {}, called),
    called === me ? " (you)" : "",
    h(
      "span",
      { class: "quiet context" },
      `${count(sentences, "sentence")}, ${count(mentions, "mention")}; last ${new Date(last).toLocaleString()}`,
    ),
  );

function left({ differences: open, agreement }) {
  if (!open) return agreement.length ? ["No difference is left to decide."] : [];
  const decide = h("button", { class: "main", on: { click: told(next) } }, "Decide");
  return [`${count(open, "difference")} to decide. `, decide];
}

/** F1 and kappa of two annotators, type by type. */
const table = ({ one, other, sentences, types, ...all }) => [
  h("h3", {}, `${one} and ${other}`),
  h("p", { class: "quiet" }, `${count(sentences, "sentence")} that both have read to the end`),
  h(
    "table",
    { class: "agreement" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["Type", "Same", "Differ", "F1", "Kappa"].map((t) => h("th", { scope: "col" }, t)),
      ),
    ),
    h(
      "tbody",
      {},
      [...types.map((t) => [typeOf(t.type)?.name ?? "", t]), ["All", all]].map(([title, t]) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, title),
          [t.both, t.differ, figure(t.f1), figure(t.kappa)].map((cell) => h("td", {}, String(cell))),
        ),
      ),
    ),
  ),
];

/** One difference at a time, each with a way to take it and a key. */
async function next() {
  draw(await get("/api/differences"));
}

let shown = null;

function draw({ total, difference }) {
  if (!difference) {
    shown?.close();
    note("Every difference is decided.");
    return;
  }
  const { sentence, marks, readings } = difference;
  const choices = options(marks, readings);
  const take = told(async (wanted) => {
    const body = { marks: marks.map(bare), wanted: wanted.map(bare) };
    draw(await post(`/api/differences/${sentence.id}`, body));
    refresh();
  });
  const content = h(
    "div",
    { class: "difference" },
    h("p", { class: "quiet" }, count(total, "difference")),
    readings.map(({ annotator, spans }) => side(annotator, sentence, marks, spans)),
    h(
      "p",
      { class: "line" },
      choices.map(({ text, key, wanted }) =>
        h("button", { data: { key }, on: { click: () => take(wanted) } }, text, " ", h("kbd", {}, key)),
      ),
    ),
  );
  if (shown) shown.lastChild.replaceWith(content);
  else {
    shown = dialog("What annotators differ on", content);
    shown.addEventListener("keydown", (event) => {
      const pressed = shown?.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
      if (pressed && !event.ctrlKey && !event.altKey && !event.metaKey) pressed.click();
    });
    shown.addEventListener("close", () => {
      shown = null;
      show().catch(() => {});
    });
  }
  shown.querySelector("[data-key]").focus();
  say(`${readings.map((r) => `${r.annotator}: ${said(r.spans, sentence)}`).join("; ")}`);
}

const bare = ({ start, end, type }) => ({ start, end, type });

const same = (a, b) => JSON.stringify(a.map(bare)) === JSON.stringify(b.map(bare));

const said = (spans, { tokens }) =>
  spans
    .map((s) => `${tokens.slice(s.start, s.end).join(" ")} ${typeOf(s.type)?.name}`)
    .join(", ") || "nothing";

/** What each says, all of it together, none of it; what comes to the same is one choice. */
function options(marks, readings) {
  const found = [];
  const offer = (text, key, wanted) => {
    const twin = found.find((one) => same(one.wanted, wanted));
    if (twin) twin.text += text.startsWith("Take") ? `, ${text.slice(5)}` : "";
    else found.push({ text, key, wanted });
  };
  readings.forEach(({ annotator, spans }, i) => offer(`Take ${annotator}’s`, String(i + 1), spans));
  const clash = marks.some((a, i) =>
    marks.slice(i + 1).some((b) => a.type === b.type && a.start < b.end && b.start < a.end),
  );
  if (!clash) offer(readings.length > 2 ? "All" : "Both", "b", marks);
  offer("Neither", "n", []);
  return found;
}

const side = (annotator, sentence, marks, spans) =>
  h(
    "section",
    { class: "side", "aria-label": annotator },
    h("h3", {}, annotator),
    h(
      "p",
      { class: "excerpt", dir: "auto" },
      paint(sentence, [
        ...spans.map((s) => ({ ...s, kind: "label" })),
        ...sentence.spans
          .filter((s) => !marks.some((m) => m.start < s.end && s.start < m.end))
          .map((s) => ({ ...s, kind: "label" })),
      ]),
    ),
    h("p", { class: "quiet" }, said(spans, sentence)),
  );

/** At the door of a workbench that others can reach, everyone says who they are. */
function door() {
  const given = h("input", { id: "door-name", required: true, maxlength: 60, autocomplete: "name" });
  const form = h(
    "form",
    {},
    h("label", { for: "door-name" }, "Your name, which stands beside what you label"),
    given,
    h("button", { class: "main" }, "Begin"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (given.value.trim()) become(given.value.trim());
  });
  dialog("Who is labelling?", form);
}

let before = null;
let event = null;
on("status", () => {
  const { status, me, asks_name: asks } = project;
  if (before === null) {
    if (document.activeElement !== name) name.value = me;
    if (asks && !who()) door();
  } else if (before !== status.alone) told(startAnew)();
  before = status.alone;
  if (event !== status.event && !panel.hidden) show().catch(() => {});
  event = panel.hidden ? null : status.event;
});
on("tab", (name) => name === "people" && show().catch(() => {}));
