/** Above the text: the types, the actions on what is picked, and the score threshold. */
import { emit, on } from "../core/bus.js";
import { byId, count, h } from "../core/dom.js";
import { draft } from "../core/drafts.js";
import { say } from "../core/live.js";
import { project, typeOf } from "../core/project.js";
import { showFrom, shownFrom } from "../core/settings.js";
import { overlap } from "../core/spans.js";
import {
  acceptAll,
  acceptPicked,
  everywhere,
  labelAs,
  noEntity,
  noteOnPicked,
  partlyDone,
  rejectPicked,
  toSuggestion,
} from "./actions.js";
import { picked } from "./cursor.js";
import { overflow } from "./overflow.js";
import { picker } from "./picker.js";
import { opened, pickedText, suggestionsOf } from "./reader.js";
import { showTab } from "../panels/tabs.js";

const keepsPick = { mousedown: (event) => event.preventDefault() };

const button = (text, key, action) =>
  h("button", { on: { click: action, ...keepsPick } }, text, " ", h("kbd", {}, key));

const first = h(
  "button",
  { class: "link", on: { click: () => showTab("types", true) } },
  "Make your first type",
);
const types = picker(
  "Label the picked words as",
  (type) => labelAs(type),
  () => byId("text").focus(),
  ["No types yet. ", first],
);
const here = h("p", { class: "here quiet" });
const slider = h("input", {
  id: "threshold",
  type: "range",
  min: 0,
  max: 1,
  step: 0.05,
  value: shownFrom(),
});
const shown = h("output", { for: "threshold", class: "quiet" });
const actions = h(
  "div",
  { class: "actions", role: "group", "aria-label": "Suggestions and sentence" },
  button("Accept", "↵", acceptPicked),
  button("Reject", "⌫", rejectPicked),
  button("No entity", "−", noEntity),
);
const rest = h(
  "div",
  { class: "actions", role: "group", "aria-label": "More" },
  button("Accept all", "+", acceptAll),
  button("Partly done", "␣", partlyDone),
  button("Next suggestion", ".", () => toSuggestion(1)),
  button("Everywhere", "*", everywhere),
  button("Note", ";", noteOnPicked),
);
const threshold = h(
  "div",
  { class: "threshold" },
  h("label", { for: "threshold" }, "Suggestions from score"),
  slider,
  shown,
);

function drawThreshold() {
  const known = (opened()?.ids ?? []).map(draft).filter((d) => d?.sentence);
  const visible = known.reduce((sum, d) => sum + suggestionsOf(d).length, 0);
  shown.textContent = `${shownFrom().toFixed(2)} · ${count(visible, "suggestion")} here`;
  threshold.hidden = !project.status?.model;
}

/** What is picked and what it is called so far: shown, and read out. */
function tell(at) {
  const known = draft(at.id);
  const names = [
    ...known.labels.spans.filter((s) => overlap(s, at)).map((s) => typeOf(s.type)?.name),
    ...suggestionsOf(known)
      .filter((s) => overlap(s, at))
      .map((s) => `suggested ${typeOf(s.type)?.name}, score ${s.score.toFixed(2)}`),
  ];
  const what = [`“${pickedText()}”`, ...names].join(" · ");
  if (here.textContent === what) return;
  here.textContent = what;
  if (document.activeElement === byId("text")) say(what);
}

slider.addEventListener("input", () => {
  showFrom(Number(slider.value));
  emit("threshold");
});
for (const name of ["threshold", "opened", "sentence", "status"]) on(name, drawThreshold);
on("cursor", tell);
on("sentence", (id) => {
  const at = picked();
  if (at?.id === id) tell(at);
});

byId("toolbar").append(types.element, actions, overflow(rest, threshold), here);
