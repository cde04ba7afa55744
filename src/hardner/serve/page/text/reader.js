/** The open document: its sentences, drawn once and drawn again when they change. */
import { get, patch, remove } from "../core/api.js";
import { emit, on } from "../core/bus.js";
import { byId, count, h } from "../core/dom.js";
import { draft, forget, know } from "../core/drafts.js";
import { note, told } from "../core/live.js";
import { project } from "../core/project.js";
import { shownFrom } from "../core/settings.js";
import { isDone, overlap, pending, stateOf } from "../core/spans.js";
import { searchedFor } from "./hits.js";
import { paint, words } from "./paint.js";
import { pick, picked, show, unpick } from "./cursor.js";
import { drawRowsWith, forgetRows, idOf, isFull, rowOf, rowsInView, watch } from "./rows.js";

const PAGE = 200;
const MOST = 1000; // sentences in one answer

/** `{id, name, held_out, total, start, ids}`: the part of a document that is on the page. */
let open = null;
let wanted = 0;
let doubts = new Map();

export const opened = () => open;

export const suggestionsOf = (known) =>
  pending(known.sentence.predicted, known.labels, shownFrom());

const STATES = {
  open: "open",
  partial: "partly reviewed",
  labelled: "labelled",
  none: "no entity",
};
const SYMBOLS = { open: "○", partial: "◐", labelled: "●", none: "∅" };
const SAVES = {
  clean: "",
  waiting: "not saved",
  saving: "saving",
  saved: "saved",
  conflict: "conflict",
};

/** Opens a document, at a sentence if one is named: `{id, position, uncertain}`. */
export async function openDocument(id, sentence = null) {
  const start = sentence ? Math.max(0, sentence.position - PAGE / 4) : 0;
  const mine = (wanted += 1);
  const found = await get(`/api/documents/${id}?start=${start}&limit=${PAGE}`);
  if (mine !== wanted) return;
  const ids = found.sentences.map((s) => s.id);
  open = { ...found, start, ids };
  doubts = new Map(sentence?.uncertain ? [[sentence.id, sentence.uncertain]] : []);
  forget(ids);
  know(found.sentences);
  unpick();
  draw();
  const first = sentence ? draft(sentence.id) : draft(ids[0]);
  if (first) lead(first, sentence?.uncertain);
  emit("opened", open);
}

function lead(known, uncertain) {
  const span = uncertain?.[0] ?? suggestionsOf(known)[0] ?? { start: 0, end: 1 };
  pick(known.id, span.start, span.end);
}

function draw() {
  const none = !open;
  for (const id of ["toolbar", "text", "held-out-label", "remove"]) byId(id).hidden = none;
  byId("text-empty").hidden = !none;
  byId("document-title").textContent = open?.name ?? "No document open";
  if (none) return emptyText();
  byId("held-out").checked = open.held_out;
  const text = byId("text");
  text.setAttribute("aria-label", `Text of ${open.name}`);
  forgetRows();
  const made = [...more(-1), ...open.ids.map(row), ...more(1)];
  text.replaceChildren(...made);
  text.scrollTop = 0;
  watch(made);
  return show();
}

function emptyText() {
  const { counts } = project.status ?? { counts: { documents: 0 } };
  const hint = counts.documents
    ? "Choose a document on the left, or press Next to start with the hardest sentence."
    : "Start by adding documents: paste an abstract, or drop a file of any format here. " +
      "Then make a type, pick words and press the type's key.";
  byId("text-empty").replaceChildren(h("p", {}, hint));
}

function row(id) {
  const made = h("div", { class: "sentence", data: { id, full: "no" } });
  redraw(made);
  return made;
}

const looks = new WeakMap();

/** Draws a sentence, unless it would look the same. */
function redraw(element) {
  const known = draft(idOf(element));
  if (!known?.sentence) return;
  const { sentence, labels, save } = known;
  const said = stateOf(labels);
  const state = said === "none" && sentence.loose.length ? "labelled" : said;
  if (!isFull(element)) return redrawPiece(element, sentence, state, save);
  const guesses = suggestionsOf(known);
  const marks = [
    ...labels.spans.map((s) => ({ ...s, kind: "label" })),
    ...guesses.map((s) => ({ ...s, kind: "guess" })),
    ...(isDone(state) ? [] : doubtsOf(known)),
    ...sentence.notes.map((n) => ({ ...n, kind: "note" })),
    ...looseOf(sentence),
  ];
  const own = [sentence.disagrees, sentence.readers, project.types, searchedFor()];
  const look = JSON.stringify([marks, state, save, ...own]);
  if (looks.get(element) === look) return;
  looks.set(element, look);
  Object.assign(element.dataset, { state, save });
  const text = h("span", { class: "words", dir: "auto" }, paint(sentence, marks));
  element.replaceChildren(gutter(sentence, state, save), text);
}

/** A sentence far from the view: its text in one piece. */
function redrawPiece(element, sentence, state, save) {
  const look = JSON.stringify([state, save, sentence.disagrees, sentence.readers]);
  if (looks.get(element) === look) return;
  looks.set(element, look);
  Object.assign(element.dataset, { state, save });
  const all = words(sentence, 0, sentence.tokens.length);
  const text = h("span", { class: "words", dir: "auto" }, all);
  element.replaceChildren(gutter(sentence, state, save), text);
}

drawRowsWith(redraw);

/** The mentions that fit no words, from their first word to their last. */
export const looseOf = (sentence) =>
  sentence.loose.map((m) => {
    const places = m.letters.map(([at]) => at);
    return { ...m, start: Math.min(...places), end: Math.max(...places) + 1, kind: "loose" };
  });

/** What the model was unsure of, where it neither suggests anything nor was answered. */
export const doubtsOf = (known) => {
  const { spans, rejected } = known.labels;
  const said = [...spans, ...rejected, ...suggestionsOf(known)];
  return (doubts.get(known.id) ?? [])
    .filter((d) => !said.some((span) => overlap(span, d)))
    .map((d) => ({ ...d, kind: "doubt" }));
};

function gutter(sentence, state, save) {
  const disagrees = save !== "waiting" && save !== "saving" && sentence.disagrees;
  return h(
    "span",
    { class: "gutter" },
    h("span", { class: "state", title: STATES[state] }, SYMBOLS[state]),
    h("span", { class: "hidden" }, `${STATES[state]}: `),
    disagrees && h("span", { class: "disagrees", title: "The model sees it differently" }, "≠"),
    others(sentence.readers).map((name) => h("span", { class: "reader" }, name)),
    h("span", { class: "save" }, SAVES[save]),
  );
}

/** Who else has read a sentence to its end. */
const others = (readers = []) => readers.filter((name) => name !== project.me);

/** A way to the sentences before or behind those on the page. */
function more(side) {
  const left = side < 0 ? open.start : open.total - open.start - open.ids.length;
  if (left <= 0) return [];
  const text = `${count(left, "sentence")} ${side < 0 ? "before" : "behind"}: show more`;
  const button = { class: "more", data: { side }, on: { click: told(() => extend(side)) } };
  return [h("button", button, text)];
}

let extending = null;

function extend(side) {
  extending ??= fetchMore(side).finally(() => (extending = null));
  return extending;
}

async function fetchMore(side) {
  const asked = open;
  const start = side < 0 ? Math.max(0, open.start - PAGE) : open.start + open.ids.length;
  const limit = side < 0 ? open.start - start : PAGE;
  const found = await get(`/api/documents/${open.id}?start=${start}&limit=${limit}`);
  if (open !== asked) return;
  const ids = found.sentences.map((s) => s.id);
  know(found.sentences);
  open.ids = side < 0 ? [...ids, ...open.ids] : [...open.ids, ...ids];
  if (side < 0) open.start = start;
  const made = ids.map(row);
  const button = byId("text").querySelector(`:scope > .more[data-side="${side}"]`);
  made.splice(side < 0 ? 0 : made.length, 0, ...more(side));
  const text = byId("text");
  const below = text.scrollHeight - text.scrollTop;
  button.replaceWith(...made);
  if (side < 0) text.scrollTop = text.scrollHeight - below; // what was in view stays there
  watch(made);
  emit("threshold");
}

export function closeDocument() {
  open = null;
  unpick();
  draw();
}

/** Looks again at what is open, as after a new model; the cursor stays. */
async function again() {
  if (!open) return;
  // What is in view is asked for last, as the server tags first what was looked at last.
  const { start, ids } = open;
  for (let at = 0; open && at < Math.max(ids.length, 1); at += MOST)
    await look(start + at, Math.min(MOST, Math.max(ids.length - at, 1)));
  if (open && ids.length > MOST) await lookHere();
}

async function lookHere() {
  const places = rowsInView().map((row) => draft(idOf(row)).sentence.position);
  if (places.length) await look(places[0], Math.min(MOST, places.at(-1) - places[0] + 1));
}

async function look(start, limit) {
  const asked = open;
  try {
    const found = await get(`/api/documents/${asked.id}?start=${start}&limit=${limit}`);
    if (open !== asked) return;
    know(found.sentences.filter((sentence) => draft(sentence.id)));
    byId("document-title").textContent = asked.name = found.name;
    byId("held-out").checked = found.held_out;
  } catch (error) {
    if (error.status === 404 && open === asked) closeDocument();
  }
}

/** What is picked, as text. */
export function pickedText() {
  const at = picked();
  return at ? words(draft(at.id).sentence, at.start, at.end) : "";
}

on("sentence", (id) => {
  const element = rowOf(id);
  if (!element || !draft(id)?.sentence) return;
  redraw(element);
  if (picked()?.id === id) show();
});
on("refused", () => open && openDocument(open.id).catch(() => closeDocument()));
on("model", again);
on("swept", () => {
  const waits = (row) => draft(idOf(row)).sentence?.predicted === null;
  if (open && rowsInView().some(waits)) lookHere();
});
on("documents", again);
on("connection", (up) => up && again());
const redrawAll = () => {
  for (const element of byId("text").querySelectorAll(".sentence")) redraw(element);
  show();
};
on("threshold", redrawAll);
on("searched", redrawAll);
on("types", redrawAll);
on("status", () => open || emptyText());

byId("held-out").addEventListener(
  "change",
  told(async ({ target }) => {
    try {
      await patch(`/api/documents/${open.id}`, { held_out: target.checked });
    } catch (error) {
      target.checked = !target.checked;
      throw error;
    }
    emit("documents");
  }),
);
byId("remove").addEventListener(
  "click",
  told(async () => {
    const { id, name } = open;
    await remove(`/api/documents/${id}`);
    closeDocument();
    note(`Removed ${name}. Undo brings it back.`);
    emit("documents");
  }),
);
byId("text").addEventListener("copy", (event) => {
  event.clipboardData.setData("text/plain", pickedText());
  event.preventDefault();
});
