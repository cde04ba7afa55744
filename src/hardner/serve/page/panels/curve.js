/** The learning curve: F1 against labelled sentences, with its interval, as SVG and as a table. */
import { figure, h, svg } from "../core/dom.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [340, 190, 34, 34, 10, 12];

/** Args: points `{at, f1, low, high, held_out}` in order of `at`, the number of labelled sentences. */
export function curve(all) {
  const most = Math.max(...all.map((p) => p.at));
  const points = all.filter((p) => p.f1 !== null);
  const x = (at) => LEFT + (at / (most * 1.05)) * (WIDTH - LEFT - RIGHT);
  const y = (f1) => TOP + (1 - f1) * (HEIGHT - TOP - BOTTOM);
  const path = (field) => points.map((p) => `${x(p.at)},${y(p[field] ?? p.f1)}`);
  const band = [...path("high"), ...path("low").reverse()].join(" ");
  const last = points.at(-1);
  const held = all.filter((p) => p.held_out !== null && p.held_out !== undefined);
  return svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      class: "curve",
      role: "img",
      "aria-label": described(last, held.at(-1)),
    },
    [0, 0.25, 0.5, 0.75, 1].map((f) => grid(f, y(f))),
    svg("polygon", { class: "band", points: band }),
    points.length === 1 &&
      svg("line", {
        class: "whisker",
        x1: x(last.at),
        x2: x(last.at),
        y1: y(last.low ?? last.f1),
        y2: y(last.high ?? last.f1),
      }),
    svg("polyline", { class: "mean", points: path("f1").join(" ") }),
    points.map((p) => svg("circle", { class: "dot", cx: x(p.at), cy: y(p.f1), r: 3.5 }, tip(p))),
    held.length > 1 &&
      svg("polyline", {
        class: "held dashed",
        points: held.map((p) => `${x(p.at)},${y(p.held_out)}`),
      }),
    held.map((p) => svg("path", { class: "held", d: diamond(x(p.at), y(p.held_out)) }, heldTip(p))),
    ticks(all.map((p) => p.at)).map((at) =>
      svg("text", { x: x(at), y: HEIGHT - 18, "text-anchor": "middle" }, String(at)),
    ),
    svg(
      "text",
      { x: (WIDTH + LEFT) / 2, y: HEIGHT - 3, "text-anchor": "middle" },
      "labelled sentences",
    ),
  );
}

const described = (p, held) =>
  "Learning curve" +
  (p
    ? `: expected F1 ${figure(p.f1)}, between ${figure(p.low)} and ${figure(p.high)}, with ${p.at} labelled sentences.`
    : ".") +
  (held ? ` On the held-out part: F1 ${figure(held.held_out)}.` : "");

const tip = (p) =>
  svg("title", {}, `${p.at}: ${figure(p.f1)} (${figure(p.low)} to ${figure(p.high)})`);

const heldTip = (p) => svg("title", {}, `${p.at}: ${figure(p.held_out)} on the held-out part`);

const grid = (f1, at) =>
  svg(
    "g",
    {},
    svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }),
    svg("text", { x: LEFT - 5, y: at + 4, "text-anchor": "end" }, f1.toFixed(2)),
  );

const diamond = (x, y) => `M${x} ${y - 5}l5 5-5 5-5-5z`;

/** Few enough to be read. */
const ticks = (all) => {
  const each = Math.ceil(new Set(all).size / 6);
  return [...new Set(all)].filter((_, i, { length }) => (length - 1 - i) % each === 0);
};

export const table = (points) =>
  h(
    "details",
    {},
    h("summary", {}, "The figures"),
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["Sentences", "F1", "Interval", "Held out"].map((t) => h("th", { scope: "col" }, t)),
        ),
      ),
      h(
        "tbody",
        {},
        points.map((p) =>
          h(
            "tr",
            {},
            [
              String(p.at),
              figure(p.f1),
              `${figure(p.low)}–${figure(p.high)}`,
              figure(p.held_out ?? null),
            ].map((t) => h("td", {}, t)),
          ),
        ),
      ),
    ),
  );
