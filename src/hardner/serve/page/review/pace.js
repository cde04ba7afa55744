/** How fast and how far: the answers of today, the goal, the time that an answer takes. */
import { h } from "../core/dom.js";
import { recall, remember } from "../core/settings.js";

const LATELY = 20;
const PAUSE = 60_000;

const today = () => new Date().toLocaleDateString("sv");

let done = recall("review-done", { day: today(), answers: 0 });
let times = [];
let shownAt = 0;

const answersToday = () => (done.day === today() ? done.answers : 0);

export function countAnswer(by) {
  done = { day: today(), answers: Math.max(0, answersToday() + by) };
  remember("review-done", done);
}

/** A candidate is in sight. */
export const started = () => (shownAt = performance.now());

/** It was answered; after a pause, the time says nothing. */
export function ended() {
  const took = performance.now() - shownAt;
  if (took < PAUSE) times = [...times, took].slice(-LATELY);
}

/** Seconds from seeing a candidate to answering it, in the middle of the last ones; or null. */
function pace() {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] / 1000 : null;
}

/** The goal and how far it is: `draw` gets how many candidates are left, if that is known. */
export function farAlong() {
  const text = h("p", { class: "far" });
  const bar = h("progress", { "aria-label": "Answers towards the goal" });
  const goal = h("input", { type: "number", min: 1, max: 9999, value: recall("review-goal", 100) });
  let last = null;

  function draw(left) {
    last = left;
    const wanted = recall("review-goal", 100);
    const seconds = pace();
    text.textContent = [
      `${answersToday()} of ${wanted} today`,
      ...(seconds === null ? [] : [`${seconds.toFixed(1)} s an answer`]),
      ...(left === null ? [] : [`${left.toLocaleString("en")} left`]),
    ].join(" · ");
    Object.assign(bar, { max: wanted, value: Math.min(answersToday(), wanted) });
  }

  goal.addEventListener("change", () => {
    remember("review-goal", Math.max(1, Math.round(Number(goal.value)) || 100));
    draw(last);
  });
  const label = h("label", { class: "line quiet" }, "Goal ", goal);
  return { element: h("div", { class: "line" }, text, label), bar, draw };
}

/** Measures from a key until what it brought is on the screen, as "next candidate". */
export function measureNext(start) {
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => performance.measure("next candidate", { start });
    port2.postMessage(null);
  });
}
