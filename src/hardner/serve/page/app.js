/** The workbench: brings the parts together, and what belongs to none of them. */
import { Unreachable, reachable } from "./core/api.js";
import { on } from "./core/bus.js";
import { byId, count } from "./core/dom.js";
import { resume, unsaved } from "./core/drafts.js";
import { project, start } from "./core/project.js";
import { recall, remember } from "./core/settings.js";
import { openDocument, opened } from "./text/reader.js";
import { onKey, redo, undo } from "./text/actions.js";
import { follow } from "./text/cursor.js";
import "./text/toolbar.js";
import { listDocuments, openNeighbour } from "./list/documents.js";
import "./panels/types.js";
import "./panels/guide.js";
import "./panels/adapt.js";
import { next } from "./panels/next.js";
import "./panels/models.js";
import "./panels/people.js";
import "./panels/export.js";
import "./review/review.js";
import { showFirst } from "./panels/tabs.js";
import "./conflict.js";
import "./door.js";
import "./fold.js";
import { showHelp, singleKeys } from "./help.js";

function drawTop() {
  const { counts, undo: before, redo: after } = project.status;
  document.title = `${project.name} · hardner`;
  byId("project").textContent = project.name;
  byId("counts").textContent =
    `${count(counts.labelled + counts.none, "labelled sentence")} of ${counts.sentences.toLocaleString("en")}`;
  for (const [id, event] of [
    ["undo", before],
    ["redo", after],
  ]) {
    byId(id).disabled = !event;
    byId(id).title = event?.what ?? "";
  }
}

let everSaved = false;

/** "Saved" only where the server has said so for everything. */
function drawSaving() {
  const left = unsaved();
  const sending = left.every((d) => d.save === "saving");
  if (left.length) everSaved = true;
  const text = left.length
    ? sending
      ? "Saving…"
      : `${count(left.length, "change")} not saved`
    : everSaved
      ? "All saved"
      : "";
  const saving = byId("saving");
  saving.dataset.save = left.length ? (sending ? "saving" : "waiting") : "saved";
  if (saving.textContent !== text) saving.textContent = text;
}

function drawBanner() {
  const left = unsaved().length;
  const banner = byId("banner");
  const why = reachable() && unsaved().find((d) => d.why)?.why;
  banner.hidden = reachable() && !why;
  const kept = left
    ? `${count(left, "change")} not saved yet: kept here, and sent as soon as it is back.`
    : "Nothing is lost.";
  const text = reachable()
    ? `${why || ""}. ${kept}`
    : `The workbench does not answer. ${kept} If it was stopped, start it again with the same address.`;
  if (banner.textContent !== text) banner.textContent = text;
}

const THEMES = { system: "System", light: "Light", dark: "Dark" };

function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem("hardner.theme", name);
  } catch {
    // It lasts as long as the page.
  }
  byId("theme").textContent = `Theme: ${THEMES[name]}`;
}

function turnTheme() {
  const names = Object.keys(THEMES);
  const now = document.documentElement.dataset.theme ?? "system";
  setTheme(names[(names.indexOf(now) + 1) % names.length]);
}

const typing = (target) =>
  target.closest?.(
    "input:not([type=radio]):not([type=checkbox]):not([type=range]), textarea, select",
  );

function globalKey(event) {
  if (event.target.closest?.("dialog")) return undefined;
  const control = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  const does = (action) => {
    event.preventDefault();
    action();
  };
  if (control && key === "enter") return does(next);
  if (typing(event.target)) return undefined;
  if (control && key === "z") return does(event.shiftKey ? redo : undo);
  if (control && key === "y") return does(redo);
  if (event.altKey && key === "arrowdown") return does(() => openNeighbour(1));
  if (event.altKey && key === "arrowup") return does(() => openNeighbour(-1));
  if (control || event.altKey || !(singleKeys() || event.target === byId("text"))) return undefined;
  if (key === "?") return does(showHelp);
  if (key === "/") return does(() => byId("search").focus());
  return undefined;
}

byId("text").addEventListener("keydown", onKey);
addEventListener("keydown", globalKey);
follow();
byId("undo").addEventListener("click", undo);
byId("redo").addEventListener("click", redo);
byId("theme").addEventListener("click", turnTheme);
byId("help").addEventListener("click", showHelp);
on("status", drawTop);
for (const name of ["sentence", "connection", "status"]) {
  on(name, drawSaving);
  on(name, drawBanner);
}
on("opened", ({ id }) => remember("document", id));
on("refused", () => (everSaved = false));
addEventListener("unhandledrejection", (event) => {
  if (event.reason instanceof Unreachable) event.preventDefault(); // the banner says so
});

setTheme(document.documentElement.dataset.theme ?? "system");
showFirst();
listDocuments();
resume();
await start();
const last = recall("document", null);
if (last !== null && !opened() && project.status.counts.documents)
  await openDocument(last).catch(() => {});
