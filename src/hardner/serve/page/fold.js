/**
 * The parts beside the text fold away, so that it has the room.
 *
 * In a wide window that lasts; in a narrow one they are drawers over the text, shut at first and
 * after a document was chosen.
 */
import { emit, on } from "./core/bus.js";
import { byId } from "./core/dom.js";
import { recall, remember } from "./core/settings.js";

const PARTS = ["documents", "panels"];
const narrow = matchMedia("(max-width: 62rem)");
const folded = new Set();

function draw() {
  for (const part of PARTS) {
    byId(part).hidden = folded.has(part);
    byId(`fold-${part}`).setAttribute("aria-expanded", String(!folded.has(part)));
  }
  document.querySelector("main").dataset.folded = [...folded].sort().join(" ");
}

export function fold(part, away = true) {
  if (away) folded.add(part);
  else folded.delete(part);
  if (narrow.matches && !away) PARTS.filter((other) => other !== part).forEach((p) => folded.add(p));
  if (!narrow.matches) remember("folded", [...folded]);
  draw();
  emit("folded");
}

function begin() {
  folded.clear();
  for (const part of narrow.matches ? PARTS : recall("folded", [])) folded.add(part);
  draw();
}

for (const part of PARTS) {
  byId(`fold-${part}`).addEventListener("click", () => fold(part, !folded.has(part)));
  byId(part).addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !narrow.matches) return;
    fold(part);
    byId(`fold-${part}`).focus();
  });
}
narrow.addEventListener("change", begin);
on("opened", () => narrow.matches && PARTS.forEach((part) => fold(part)));
on("unfold", (part) => fold(part, false));
begin();
