/** What is told besides what is drawn: to screen readers, and in passing notes. */
import { byId, h } from "./dom.js";

const LASTS = 4000;

/** Read out at once by a screen reader, not shown. */
export function say(text) {
  const region = byId("live");
  region.textContent = region.textContent === text ? `${text}\u00a0` : text;
}

/** A note that goes by itself; `kind` is "good" or "bad". Bad ones stay until closed. */
export function note(text, kind = "good") {
  const close = h("button", { "aria-label": "Close" }, "×");
  const shown = h("div", { class: `toast ${kind}` }, h("span", {}, text), close);
  close.addEventListener("click", () => shown.remove());
  byId("toasts").append(shown);
  while (byId("toasts").children.length > 4) byId("toasts").firstChild.remove();
  if (kind === "good") setTimeout(() => shown.remove(), LASTS);
}

/** Runs what a click asked for, and tells what went wrong, if anything did. */
export const told = (action) => async (...given) => {
  try {
    return await action(...given);
  } catch (error) {
    note(error.message, "bad");
    return undefined;
  }
};
