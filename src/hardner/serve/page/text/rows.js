/**
 * The sentences of the open document as elements, of which only those near the view have a part for
 * each word.
 *
 * The others hold their text as one piece: it can be found, is read out in its order and keeps the
 * height it was measured to have, but costs next to nothing however long the document is.
 */
import { byId } from "../core/dom.js";

const MARGIN = "100%";

const rows = new Map();
let draw = () => {};

const watching = new IntersectionObserver(
  (seen) => {
    for (const { target, isIntersecting } of seen)
      if (target.matches(".more")) isIntersecting && target.dataset.side > 0 && target.click();
      else if (isIntersecting) fill(target);
      else empty(target);
  },
  { root: byId("text"), rootMargin: `${MARGIN} 0px` },
);

/** Args: `drawRow(row, full)` draws a sentence, with all its words or as one piece. */
export const drawRowsWith = (drawRow) => (draw = drawRow);

export const rowOf = (id) => rows.get(id) ?? null;

export const idOf = (row) => Number(row.dataset.id);

export const isFull = (row) => row.dataset.full === "yes";

/** The sentences that have all their words, in order. */
export const rowsInView = () => [...rows.values()].filter(isFull).sort((a, b) => idOf(a) - idOf(b));

/** The sentence as far away as `by` says, with all its words; undefined behind the last. */
export function neighbour(row, by) {
  const next = by > 0 ? row.nextElementSibling : row.previousElementSibling;
  return next?.matches(".sentence") ? fill(next) : undefined;
}

/** Gives a sentence an element for each word. */
export function fill(row) {
  if (!isFull(row)) {
    row.dataset.full = "yes";
    draw(row, true);
  }
  return row;
}

function empty(row) {
  if (!isFull(row) || row.matches(".current")) return;
  row.dataset.full = "no";
  draw(row, false);
}

/** Watches elements that came onto the page: sentences, and ways to more of them. */
export function watch(elements) {
  for (const element of elements) {
    if (element.matches(".sentence")) rows.set(idOf(element), element);
    watching.observe(element);
  }
}

export function forgetRows() {
  watching.disconnect();
  rows.clear();
}
