/**
 * The sentences on the page and their way to the server.
 *
 * An edit shows at once, and is "saved" only when the server has said so. Until then it is also in
 * the tab's storage, so that neither a reload nor a server that is gone loses it.
 */
import { get, put, reachable, Refused } from "./api.js";
import { emit, on } from "./bus.js";
import { note } from "./live.js";
import { equal, labelsOf } from "./spans.js";

const STORAGE = "hardner.unsaved";
const RETRY = 1000;
const UNSAVED = new Set(["waiting", "saving", "conflict"]);

/** id -> {sentence (the server's; null until it is known), labels, version, save, theirs, why} */
const drafts = new Map();

export const draft = (id) => drafts.get(id);

export const unsaved = () => [...drafts.values()].filter((d) => UNSAVED.has(d.save));

export const conflicts = () => unsaved().filter((d) => d.save === "conflict");

/** Takes in what the server shows, except where this tab has something newer. */
export function know(sentences) {
  for (const sentence of sentences) {
    const known = drafts.get(sentence.id);
    if (!known || !UNSAVED.has(known.save)) settle(sentence.id, sentence, known?.save ?? "clean");
    else known.sentence ??= sentence;
  }
}

/** Lets go of all sentences but these and the unsaved ones. */
export function forget(except) {
  const keep = new Set(except);
  for (const [id, known] of drafts)
    if (!keep.has(id) && !UNSAVED.has(known.save)) drafts.delete(id);
}

function settle(id, sentence, save) {
  const known = drafts.get(id);
  if (known?.sentence && known.sentence.version > sentence.version) return;
  if (known?.sentence) count(known.sentence, sentence);
  const labels = labelsOf(sentence);
  drafts.set(id, { id, sentence, labels, version: sentence.version, save, theirs: null });
  emit("sentence", id);
}

/** Tells those who count, if there is a difference to them. */
function count(before, after) {
  const moved = ["version", "suggested", "disagrees"].some(
    (name) => before?.[name] !== after[name],
  );
  if (before && moved) emit("counted", { before, after });
}

export function edit(id, labels) {
  const known = drafts.get(id);
  if (equal(known.labels, labels)) return;
  known.labels = labelsOf(labels);
  if (known.save !== "saving" && known.save !== "conflict") known.save = "waiting";
  keep();
  emit("sentence", id);
  push(known);
}

async function push(known) {
  if (known.save !== "waiting") return;
  const sent = known.labels;
  known.save = "saving";
  emit("sentence", known.id);
  try {
    accepted(
      known,
      sent,
      await put(`/api/sentences/${known.id}`, { version: known.version, ...sent }),
    );
  } catch (error) {
    failed(known, error);
  }
  keep();
  emit("sentence", known.id);
}

function accepted(known, sent, sentence) {
  if (equal(known.labels, sent)) {
    settle(known.id, sentence, "saved");
    return;
  }
  count(known.sentence, sentence);
  Object.assign(known, { sentence, version: sentence.version, save: "waiting", why: null });
  push(known);
}

function failed(known, error) {
  if (!(error instanceof Refused) || error.passing) {
    Object.assign(known, { save: "waiting", why: error.message });
    if (reachable()) setTimeout(() => push(known), RETRY);
  } else if (error.status === 409) {
    clash(known, error.data.sentence);
  } else {
    note(`Not saved: ${error.message}`, "bad");
    drafts.delete(known.id);
    emit("refused", known.id);
  }
}

/** Someone else was first. If they did the same, as a save whose answer was lost, all is well. */
function clash(known, theirs) {
  if (equal(known.labels, theirs)) {
    settle(known.id, theirs, "saved");
    return;
  }
  Object.assign(known, { save: "conflict", theirs, sentence: theirs });
  emit("conflict", known.id);
}

export function keepMine(id) {
  const known = drafts.get(id);
  Object.assign(known, { save: "waiting", version: known.theirs.version, theirs: null });
  push(known);
}

export function takeTheirs(id) {
  settle(id, drafts.get(id).theirs, "clean");
  keep();
}

/** Resolves when nothing is on its way any more; whether all of it arrived. */
export async function settled() {
  while (reachable() && unsaved().some((d) => d.save !== "conflict")) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return unsaved().length === 0;
}

function keep() {
  const rows = unsaved().map(({ id, version, labels }) => ({ id, version, labels }));
  try {
    if (rows.length) sessionStorage.setItem(STORAGE, JSON.stringify(rows));
    else sessionStorage.removeItem(STORAGE);
  } catch {
    // Without storage the page itself still holds them.
  }
}

/** Sends what an earlier life of this tab could not. */
export function resume() {
  let rows = [];
  try {
    rows = JSON.parse(sessionStorage.getItem(STORAGE)) ?? [];
  } catch {
    return;
  }
  for (const row of rows) {
    const known = { ...row, sentence: null, save: "waiting", theirs: null };
    drafts.set(row.id, known);
    push(known);
  }
}

async function reload(ids) {
  const stale = ids.filter((id) => drafts.has(id) && !UNSAVED.has(drafts.get(id).save));
  for (let at = 0; at < stale.length; at += 200) {
    const { sentences } = await get(`/api/sentences?ids=${stale.slice(at, at + 200)}`);
    know(sentences);
  }
}

on("changed", (ids) => reload(ids).catch(() => {}));
on("connection", (up) => {
  if (up) unsaved().forEach(push);
});
addEventListener("beforeunload", (event) => {
  if (unsaved().length) event.preventDefault();
});
