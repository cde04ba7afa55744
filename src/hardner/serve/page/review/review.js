/** Review: one candidate at a time, each answered by one key. */
import { emit, on } from "../core/bus.js";
import { byId, h } from "../core/dom.js";
import { draft, edit } from "../core/drafts.js";
import { note, say } from "../core/live.js";
import { project } from "../core/project.js";
import { erase, isDone, keyOf, label, reject, stateOf } from "../core/spans.js";
import { words } from "../text/paint.js";
import { picker } from "../text/picker.js";
import { asked, card, drawCard, drawEmpty, followPointer, showView } from "./card.js";
import { acceptMany, labelEverywhere } from "./many.js";
import { countAnswer, ended, farAlong, measureNext, started } from "./pace.js";
import { questionForm } from "./question.js";
import { Queue } from "./queue.js";

const view = byId("review");
const title = h("h2", { id: "review-title" }, "Review");
const { form, question } = questionForm(() => begin());
const correct = picker("It is a", (type) => answer(type.id), () => card.focus());
const far = farAlong();

/** The span of the current candidate, as it is corrected so far. */
let span = null;

const queue = new Queue(
  () => view.hidden || span || show(),
  (error) => note(error.message, "bad"),
);

const back = (action) => () => {
  action();
  card.focus();
};
const button = (text, key, action) =>
  h("button", { on: { click: back(action) } }, text, " ", h("kbd", {}, key));

const ANSWERS = [
  ["Accept", "↵", ["Enter"], () => answer()],
  ["Reject", "⌫", ["Backspace", "Delete"], () => refuse()],
  ["Skip", "␣", [" "], () => span && forward(true)],
  ["Back", ",", [","], () => before()],
  ["Everywhere", "*", ["*"], () => everywhere()],
  ["Sentence done", ".", ["."], () => close(false)],
  ["No entity in it", "−", ["-"], () => close(true)],
];
const buttons = ANSWERS.map(([text, key, , action]) => button(text, key, action));

const content = [
  h(
    "div",
    { class: "title" },
    title,
    far.element,
    h("button", { on: { click: () => acceptMany(question()) } }, "Accept many…"),
    h("button", { on: { click: () => leave() } }, "Leave ", h("kbd", {}, "Esc")),
  ),
  far.bar,
  form,
  card,
  correct.element,
  h("div", { class: "actions", role: "group", "aria-label": "Answers" }, buttons),
  h(
    "p",
    { id: "review-hint", class: "quiet" },
    "A type's key says that it is of that type. ← → move its end, with Shift its start. " +
      "Answers leave the sentence partly reviewed until you say that it is done.",
  ),
];

/** Opens the view, with the question that the form asks. */
export function review() {
  view.replaceChildren(...content);
  showView(true);
  begin();
  card.focus();
}

function begin() {
  queue.restart(question());
  span = null;
  draw();
}

function again() {
  if (view.hidden) return;
  queue.again();
  span = null;
  draw();
}

function leave() {
  showView(false);
  view.replaceChildren();
  byId(byId("text").hidden ? "review-open" : "text").focus();
}

const known = () => draft(queue.current.sentence);

/** Shows the first of the queue. */
function show() {
  const now = queue.current;
  span = now && { start: now.start, end: now.end, type: now.type };
  draw();
  if (!now) return;
  started();
  emit("asked", now.type);
  say(`${title.textContent} ${words(known().sentence, 0, Infinity)}`);
}

function draw() {
  far.draw(queue.total === null ? null : queue.left);
  for (const one of buttons) one.disabled = !span;
  title.textContent = span ? asked(queue.current, span, known().sentence) : "Review";
  if (span) drawCard(queue.current, span, known(), queue.around[queue.current.sentence]);
  else drawEmpty(nothing());
}

function nothing() {
  if (queue.asking || queue.total === null) return "Looking for candidates…";
  if (queue.seen.length) return "That was all. Ask about something else above, or leave.";
  return (
    "There is nothing to ask about. Choose something else above, label a few sentences, or let " +
    "Adapt make a model."
  );
}

function forward(skips) {
  queue.next(skips);
  show();
}

/** Sets the labels that an answer leads to; a sentence that was not done stays partly reviewed. */
function give(change) {
  const { id, labels } = known();
  const after = change(labels);
  edit(id, isDone(stateOf(labels)) ? after : { ...after, partial: after.spans.length > 0 });
  ended();
  countAnswer(1);
  forward(false);
}

/** Accepts the candidate as it stands, or as of another type. */
function answer(type) {
  if (!span) return;
  const now = queue.current;
  const said = { ...span, type: type ?? span.type };
  const same = keyOf(said) === keyOf(now);
  if (same && now.kind === "extra") {
    ended();
    countAnswer(1);
    forward(true); // the label stays as it is
    return;
  }
  give((labels) => {
    const rest = now.kind === "extra" ? erase(labels, [now], [now]) : labels;
    const there = rest.spans.some((other) => keyOf(other) === keyOf(said));
    const after = there ? rest : label(rest, said, []);
    return same ? after : reject(after, [now]);
  });
}

function refuse() {
  if (!span) return;
  const now = queue.current;
  give((labels) => (now.kind === "extra" ? erase(labels, [now], [now]) : reject(labels, [now])));
}

function before() {
  if (queue.back()) show();
  else say("Nothing before this one");
}

/** Says of the whole sentence that it is read to its end. */
function close(none) {
  if (!span) return;
  const { id, labels } = known();
  if (!none && !labels.spans.length) {
    note("Nothing is labelled in it yet; “No entity in it” says that it holds nothing.");
    return;
  }
  edit(id, none ? { ...labels, spans: [], none, partial: false } : { ...labels, partial: false });
  ended();
  forward(queue.current.kind === "extra");
}

function everywhere() {
  if (!span) return;
  const { id, sentence } = known();
  labelEverywhere(id, span, words(sentence, span.start, span.end));
}

/** Sets the span; it keeps one word at least. */
function stretch(start, end) {
  if (!span || start < 0 || start >= end || end > known().sentence.tokens.length) return;
  span = { ...span, start, end };
  draw();
  say(words(known().sentence, start, end));
}

const KEYS = {
  ...Object.fromEntries(ANSWERS.flatMap(([, , keys, action]) => keys.map((key) => [key, action]))),
  ":": () => correct.search(),
  Escape: leave,
  ArrowRight: (shift) => span && stretch(span.start + shift, span.end + !shift),
  ArrowLeft: (shift) => span && stretch(span.start - shift, span.end - !shift),
};

/** What a key does; keys act while the candidate has the focus. */
function actionOf({ key, shiftKey }) {
  if (Object.hasOwn(KEYS, key)) return () => KEYS[key](shiftKey);
  const type = project.types.find((one) => one.key && one.key === key.toLowerCase());
  return type && !shiftKey ? () => answer(type.id) : null;
}

card.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const action = actionOf(event);
  if (!action) return;
  event.preventDefault();
  const asking = queue.current;
  action();
  if (queue.current !== asking) measureNext(event.timeStamp);
});
view.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.defaultPrevented) card.focus();
});
followPointer(() => span?.start ?? 0, stretch);

/** What was answered by the way, here or in another tab, is no question any more. */
function tidy() {
  const asking = queue.current;
  queue.tidy();
  if (queue.current !== asking) show();
}

/** An answer that is undone is asked again, at once. */
on("stepped", ({ sentence, event }) => {
  if (event.kind === "undo" && queue.back((one) => one.sentence === sentence.id)) countAnswer(-1);
  queue.tidy();
  show();
});
on("sentence", (id) => {
  if (view.hidden || !span || queue.current.sentence !== id) return;
  if (["saved", "clean"].includes(draft(id)?.save)) tidy();
});
for (const name of ["types", "searched"]) on(name, () => view.hidden || draw());
for (const name of ["documents", "model", "refused"]) on(name, again);
byId("review-open").addEventListener("click", review);
