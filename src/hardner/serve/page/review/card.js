/** A candidate in its sentence, large, between the sentences beside it. */
import { byId, h } from "../core/dom.js";
import { keyOf, stateOf } from "../core/spans.js";
import { typeOf } from "../core/project.js";
import { paint, words } from "../text/paint.js";

const STATES = {
  open: "open",
  partial: "partly reviewed",
  labelled: "done",
  none: "done, no entity",
};

export const card = h("div", {
  id: "candidate",
  class: "candidate",
  role: "application",
  tabindex: 0,
  "aria-roledescription": "candidate",
  "aria-label": "Candidate",
  "aria-describedby": "review-hint",
});

/** What is asked, in one line. */
export function asked({ kind, score }, span, sentence) {
  const text = words(sentence, span.start, span.end);
  const what = typeOf(span.type)?.name ?? "mention";
  if (kind === "extra") return `“${text}” labelled ${what}: right?`;
  return `“${text}”: ${what}?${score === null ? "" : ` ${score.toFixed(2)}`}`;
}

export const drawEmpty = (text) => card.replaceChildren(h("p", { class: "empty" }, text));

/** Draws a candidate with its span as it is corrected so far. */
export function drawCard({ kind, score }, span, { sentence, labels }, { name, before, after }) {
  const others = labels.spans.filter((label) => keyOf(label) !== keyOf(span));
  const shown = h(
    "p",
    { class: "large words" },
    paint(sentence, [
      ...others.map((label) => ({ ...label, kind: "label" })),
      { ...span, kind: kind === "extra" ? "label" : "guess", score: score ?? undefined },
    ]),
  );
  for (const part of shown.querySelectorAll("[data-at]")) {
    const at = Number(part.dataset.at);
    const last = part.classList.contains("gap") ? span.end - 1 : span.end;
    part.classList.toggle("picked", at >= span.start && at < last);
  }
  card.replaceChildren(
    h("p", { class: "quiet" }, name, " · ", STATES[stateOf(labels)]),
    h("p", { class: "beside" }, before),
    shown,
    h("p", { class: "beside" }, after),
  );
  if (card.scrollHeight > card.clientHeight)
    shown.querySelector(".picked")?.scrollIntoView({ block: "nearest" });
}

const wordUnder = (event) =>
  document.elementFromPoint(event.clientX, event.clientY)?.closest("#candidate .large .word");

/** A click picks a word, a drag or Shift and a click all words between; `pick` gets both ends. */
export function followPointer(startOf, pick) {
  let anchor = null;
  const to = (event) => {
    const word = wordUnder(event);
    if (!word) return;
    const at = Number(word.dataset.at);
    anchor ??= event.shiftKey ? startOf() : at;
    pick(Math.min(anchor, at), Math.max(anchor, at) + 1);
  };
  card.addEventListener("pointerdown", (event) => event.button === 0 && to(event));
  card.addEventListener("pointermove", (event) => {
    if (anchor !== null && event.buttons & 1) to(event);
  });
  addEventListener("pointerup", () => (anchor = null));
}

export const showView = (shown) => {
  byId("review").hidden = !shown;
  byId("main").classList.toggle("reviewing", shown);
};
