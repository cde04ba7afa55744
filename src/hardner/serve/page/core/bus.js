/**
 * How the parts hear of each other: names with a detail.
 *
 * status, types, documents, model, changed (sentence ids), sentence (id), opened (document),
 * connection (bool), locked, threshold, cursor, searched, asked (type), stepped (what an undo did),
 * tab (name), unfold (part), folded.
 */
const target = new EventTarget();

export const emit = (name, detail) => target.dispatchEvent(new CustomEvent(name, { detail }));

export const on = (name, listener) =>
  target.addEventListener(name, (event) => listener(event.detail));
