/** What can be done to the picked words, each by one key. */
import { get, post, remove } from "../core/api.js";
import { emit } from "../core/bus.js";
import { byId, count } from "../core/dom.js";
import { draft, edit, know, settled } from "../core/drafts.js";
import { note, say, told } from "../core/live.js";
import { project, refresh, typeOf } from "../core/project.js";
import {
  accept,
  answered,
  erase,
  keyOf,
  label,
  overlap,
  reject,
  stateOf,
  toggleNone,
} from "../core/spans.js";
import { labelEverywhere } from "../review/many.js";
import { move, pick, picked } from "./cursor.js";
import { writeNote } from "./notes.js";
import {
  doubtsOf,
  looseOf,
  opened,
  openDocument,
  pickedText,
  suggestionsOf,
} from "./reader.js";

/** Labels after an answer; whether more is asked says whether the sentence is done. */
function answer(known, after) {
  const then = { ...known, labels: after };
  edit(known.id, answered(known.labels, after, [...suggestionsOf(then), ...doubtsOf(then)]));
}

/** What the model asks about there: its suggestions, else what it is unsure of. */
function asked(known, at) {
  const guesses = touching(suggestionsOf(known), at);
  return guesses.length ? guesses : touching(doubtsOf(known), at).filter((doubt) => doubt.type);
}

const touching = (spans, at) => spans.filter((span) => overlap(span, at));

/** Runs an action on the picked sentence. */
const onPicked = (action) => () => {
  const at = picked();
  if (at) action(at, draft(at.id));
};

export const labelAs = (type) =>
  onPicked((at, known) => {
    const span = { start: at.start, end: at.end, type: type.id };
    const guesses = known.sentence.predicted ?? [];
    const after = label(known.labels, span, guesses);
    edit(at.id, after);
    const off =
      after.spans.length < known.labels.spans.length &&
      !after.spans.some((s) => keyOf(s) === keyOf(span));
    say(`${pickedText()}: ${off ? "no longer " : ""}${type.name}`);
  })();

export const acceptPicked = onPicked((at, known) => {
  const guesses = asked(known, at);
  if (!guesses.length) return toSuggestion(1);
  answer(known, accept(known.labels, [guesses[0]]));
  say(`Accepted ${typeOf(guesses[0].type)?.name}`);
  return guesses.length === 1 && toSuggestion(1, true);
});

export const acceptAll = onPicked((at, known) => {
  const guesses = suggestionsOf(known);
  answer(known, accept(known.labels, guesses));
  say(`Accepted ${count(guesses.length, "suggestion")}`);
});

/** Takes off the labels there; where there is none, rejects the suggestions. */
export const rejectPicked = onPicked((at, known) => {
  const spans = touching(known.labels.spans, at);
  const guesses = asked(known, at);
  const [loose] = touching(looseOf(known.sentence), at);
  if (spans.length) edit(at.id, erase(known.labels, spans, known.sentence.predicted));
  else if (guesses.length) answer(known, reject(known.labels, guesses));
  else if (loose) return removeLoose(loose);
  return say(
    spans.length ? "Label removed" : guesses.length ? "Rejected" : "Nothing to reject here",
  );
});

const removeLoose = told(async (loose) => {
  await remove(`/api/loose/${loose.id}`);
  note("Removed a mention that fits no words. Undo brings it back.");
  await refresh();
  emit("documents");
});

/** Labels the words of a picked label wherever they stand. */
export const everywhere = onPicked((at, known) => {
  const [span] = touching(known.labels.spans, at);
  if (!span) return note("Label the words first; then * labels them everywhere.");
  pick(at.id, span.start, span.end);
  return labelEverywhere(at.id, span, pickedText());
});

export const noteOnPicked = onPicked((at) =>
  writeNote({ id: at.id, start: at.start, end: at.end }, pickedText()),
);

export const noEntity = onPicked((at, known) => {
  const after = toggleNone(known.labels);
  edit(at.id, after);
  say(after.none ? "Sentence without entity" : "Sentence open again");
});

export const partlyDone = onPicked((at, known) => {
  if (!known.labels.spans.length) return say("Label a mention first");
  edit(at.id, { ...known.labels, partial: !known.labels.partial });
  return say(stateOf(draft(at.id).labels) === "partial" ? "Partly reviewed" : "Sentence done");
});

/** Picks the next or previous suggestion of the document; `quiet` if there may be none. */
export const toSuggestion = (by, quiet = false) =>
  onPicked((at) => {
    const ids = opened().ids;
    const here = ids.indexOf(at.id);
    const places = ids.flatMap((id, row) =>
      suggestionsOf(draft(id)).map((g) => ({ ...g, id, row })),
    );
    const after = (g) => Math.sign(g.row - here || g.start - at.start || g.end - at.end);
    const next = by > 0 ? places.find((g) => after(g) > 0) : places.findLast((g) => after(g) < 0);
    if (next) pick(next.id, next.start, next.end);
    else if (!quiet) say("No more suggestions in this document");
  })();

/** Undoes or redoes the newest change of the project, whichever tab made it. */
const turn = (name) =>
  told(async () => {
    if (!(await settled()))
      throw new Error(`Some changes are not saved yet; ${name} when they are.`);
    const event = (await get("/api/status"))[name];
    if (!event) return say(`Nothing to ${name}`);
    const done = await post(`/api/${name}`, { event: event.id });
    note(`${name === "undo" ? "Undone" : "Done again"}: ${event.what}`);
    refresh();
    if (!done.sentence) return emit("documents");
    know([done.sentence]);
    if (!byId("review").hidden) return emit("stepped", done);
    if (opened()?.ids.includes(done.sentence.id)) return pick(done.sentence.id, 0, 1);
    return openDocument(done.sentence.document, done.sentence);
  });

export const undo = turn("undo");
export const redo = turn("redo");

const COMMANDS = {
  Enter: acceptPicked,
  "+": acceptAll,
  "=": acceptAll,
  Backspace: rejectPicked,
  Delete: rejectPicked,
  "-": noEntity,
  " ": partlyDone,
  ".": () => toSuggestion(1),
  ",": () => toSuggestion(-1),
  "*": everywhere,
  ";": noteOnPicked,
  ":": () => byId("toolbar").querySelector(".find-type").focus(),
};

/** The keys of the text; they act only while it has the focus. */
export function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    if (move(event)) event.preventDefault();
    return;
  }
  const type = project.types.find((t) => t.key && t.key === event.key.toLowerCase());
  if (move(event)) event.preventDefault();
  else if (Object.hasOwn(COMMANDS, event.key)) {
    event.preventDefault();
    COMMANDS[event.key]();
  } else if (type && !event.shiftKey) {
    event.preventDefault();
    labelAs(type);
  } else if (/^[a-z0-9]$/.test(event.key)) {
    say(`No type has the key ${event.key}`);
    note(`No type has the key “${event.key}”. See Types.`);
  }
}
