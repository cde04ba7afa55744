/** Which words are picked: by keyboard, mouse, or by a part of the page that leads there. */
import { emit } from "../core/bus.js";
import { byId } from "../core/dom.js";
import { draft } from "../core/drafts.js";
import { fill, idOf, neighbour, rowOf } from "./rows.js";

/** `anchor` stays and `focus` moves while a selection is extended; both are word indices. */
const cursor = { id: null, anchor: 0, focus: 0 };

const text = () => byId("text");

const wordAt = (id, index) => rowOf(id)?.querySelector(`.word[data-at="${index}"]`);

/** `{id, start, end}`, or null where nothing is open. */
export function picked() {
  if (cursor.id === null || !draft(cursor.id)?.sentence) return null;
  const { id, anchor, focus } = cursor;
  return { id, start: Math.min(anchor, focus), end: Math.max(anchor, focus) + 1 };
}

export function pick(id, start, end, scroll = true) {
  Object.assign(cursor, { id, anchor: start, focus: end - 1 });
  show(scroll);
}

export function unpick() {
  cursor.id = null;
}

let marked = [];

/** Marks the picked words; called again when a sentence was drawn anew. */
export function show(scroll = false) {
  const now = picked();
  const row = now && rowOf(now.id);
  for (const old of marked) old.classList.remove("picked", "current", "head");
  marked = [];
  if (!row) return;
  row.classList.add("current");
  fill(row);
  for (const part of row.querySelectorAll("[data-at]")) {
    const at = Number(part.dataset.at);
    const last = part.classList.contains("gap") ? now.end - 1 : now.end;
    if (at < now.start || at >= last) continue;
    part.classList.add("picked");
    marked.push(part);
  }
  const head = wordAt(now.id, cursor.focus);
  head?.classList.add("head");
  marked.push(row, ...(head ? [head] : []));
  if (scroll) head?.scrollIntoView({ block: "nearest" });
  emit("cursor", now);
}

function to(id, at, extend) {
  if (extend && id !== cursor.id) return;
  Object.assign(cursor, { id, focus: at, anchor: extend ? cursor.anchor : at });
  show(true);
}

const lengthOf = (row) => draft(idOf(row)).sentence.tokens.length;

/** One word on, into the next sentence where one ends. */
function step(by, extend) {
  const row = rowOf(cursor.id);
  const at = cursor.focus + by;
  if (at >= 0 && at < lengthOf(row)) return to(cursor.id, at, extend);
  const next = neighbour(row, by);
  if (!next || extend) return undefined;
  return to(idOf(next), by > 0 ? 0 : lengthOf(next) - 1, false);
}

/** To the nearest word one line up or down. */
function line(by, extend) {
  const middle = (box) => (box.left + box.right) / 2;
  const from = wordAt(cursor.id, cursor.focus);
  const here = from.getBoundingClientRect();
  let best = null,
    top = null;
  for (const word of wordsFrom(from, by)) {
    const box = word.getBoundingClientRect();
    if (Math.abs(box.top - here.top) < here.height / 2) continue;
    top ??= box.top;
    if (Math.abs(box.top - top) > here.height / 2) break;
    const away = Math.abs(middle(box) - middle(here));
    if (!best || away < best.away) best = { word, away };
  }
  if (best) to(idOf(best.word.closest(".sentence")), Number(best.word.dataset.at), extend);
}

/** The words before or behind one, from sentence to sentence. */
function* wordsFrom(word, by) {
  let row = word.closest(".sentence");
  let all = [...row.querySelectorAll(".word")];
  let at = all.indexOf(word) + by;
  while (true) {
    for (; at >= 0 && at < all.length; at += by) yield all[at];
    row = neighbour(row, by);
    if (!row) return;
    all = [...row.querySelectorAll(".word")];
    at = by > 0 ? 0 : all.length - 1;
  }
}

function edge(last, everywhere, extend) {
  const ends = `.sentence${last ? ":nth-last-child(-n + 2)" : ":nth-child(-n + 2)"}`;
  const found = everywhere ? [...text().querySelectorAll(`:scope > ${ends}`)] : [];
  const row = found.at(last ? -1 : 0) ?? rowOf(cursor.id);
  to(idOf(row), last ? lengthOf(row) - 1 : 0, extend);
}

/** Where text runs from right to left, the next word is on the left. */
const onward = () => {
  const row = rowOf(cursor.id).querySelector(".words");
  return getComputedStyle(row).direction === "rtl" ? -1 : 1;
};

const MOVES = {
  ArrowRight: (e) => step(onward(), e.shiftKey),
  ArrowLeft: (e) => step(-onward(), e.shiftKey),
  ArrowDown: (e) => line(1, e.shiftKey),
  ArrowUp: (e) => line(-1, e.shiftKey),
  Home: (e) => edge(false, e.ctrlKey, e.shiftKey),
  End: (e) => edge(true, e.ctrlKey, e.shiftKey),
  Escape: () => to(cursor.id, cursor.focus, false),
};

/** Whether the key moved the cursor. */
export function move(event) {
  if (!Object.hasOwn(MOVES, event.key) || event.altKey || !picked()) return false;
  MOVES[event.key](event);
  return true;
}

function under(event) {
  const hit = document.elementFromPoint(event.clientX, event.clientY);
  const part = hit?.closest(".word, .gap, .tag");
  return part && text().contains(part) ? part : null;
}

/** Drag picks words, a click on a label's name picks its words, Shift and a click extends. */
export function follow() {
  let dragging = false;
  text().addEventListener("pointerdown", (event) => {
    const part = under(event);
    if (!part || event.button) return;
    const id = Number(part.closest(".sentence").dataset.id);
    if (part.classList.contains("tag"))
      return pick(id, Number(part.dataset.start), Number(part.dataset.end));
    const at = Number(part.dataset.at);
    // A finger scrolls, unless it begins at picked words: these it extends, from their other end.
    dragging = event.pointerType === "mouse" || part.classList.contains("picked");
    if (!dragging || event.pointerType === "mouse") return to(id, at, event.shiftKey);
    const { start, end } = picked();
    return Object.assign(cursor, at - start < end - 1 - at ? { anchor: end - 1 } : { anchor: start });
  });
  text().addEventListener("pointermove", (event) => {
    if (!dragging || !(event.buttons & 1)) return;
    const part = under(event);
    const inside = part && Number(part.closest(".sentence").dataset.id) === cursor.id;
    if (inside && part.dataset.at !== undefined) to(cursor.id, Number(part.dataset.at), true);
  });
  for (const over of ["pointerup", "pointercancel"])
    addEventListener(over, () => (dragging = false));
}
