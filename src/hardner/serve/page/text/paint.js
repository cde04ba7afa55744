/**
 * A sentence as elements: words, and under them one line for each label, in lanes that never cross.
 *
 * Besides its colour each label carries its name at its end; a suggestion is dashed and carries its
 * score too.
 */
import { h } from "../core/dom.js";
import { typeOf } from "../core/project.js";

const [LANE, LINE] = [5, 3];

/** The lowest lane free for each mark; marks are `{start, end, type, kind, score}`. */
export function lanes(marks) {
  const ends = [];
  const order = [...marks].sort((a, b) => a.start - b.start || b.end - a.end);
  return order.map((mark) => {
    const free = ends.findIndex((end) => end <= mark.start);
    const lane = free === -1 ? ends.length : free;
    ends[lane] = mark.end;
    return { ...mark, lane };
  });
}

/** Words and the space between them; where marks begin or end, a new piece begins. */
export function paint({ tokens, gaps }, marks) {
  const placed = lanes(marks);
  const edges = new Set(placed.flatMap((m) => [2 * m.start, 2 * m.end - 1]));
  const pieces = [];
  let piece = null;
  for (let at = 0; at < 2 * tokens.length; at += 1) {
    if (!piece || edges.has(at)) {
      pieces.push(...closing(placed, at));
      piece = segment(placed.filter((m) => 2 * m.start <= at && at < 2 * m.end - 1));
      pieces.push(piece);
    }
    const index = at >> 1;
    const [name, text] = at % 2 ? ["gap", gaps[index]] : ["word", tokens[index]];
    if (text) piece.append(h("span", { class: name, data: { at: index } }, text));
  }
  return pieces;
}

function segment(marks) {
  const piece = h("span", { class: "piece" });
  if (!marks.length) return piece;
  const deep = Math.max(...marks.map((m) => m.lane)) + 1;
  const { style } = piece;
  style.paddingBottom = `${deep * LANE}px`;
  style.backgroundImage = marks.map(stroke).join(", ");
  style.backgroundSize = `100% ${LINE}px`;
  style.backgroundPosition = marks
    .map((m) => `0 calc(100% - ${(deep - 1 - m.lane) * LANE}px)`)
    .join(", ");
  if (marks.some((m) => m.kind === "label")) piece.classList.add("labelled");
  if (marks.some((m) => m.kind === "doubt")) piece.classList.add("doubted");
  return piece;
}

const colour = (mark) => `var(--type-${typeOf(mark.type)?.colour ?? 6})`;

function stroke(mark) {
  const c = colour(mark);
  if (mark.kind === "label") return `linear-gradient(${c}, ${c})`;
  const [on, off] = mark.kind === "guess" ? [6, 10] : [2, 4];
  return `repeating-linear-gradient(90deg, ${c} 0 ${on}px, transparent ${on}px ${off}px)`;
}

/** The names of the marks that end before a place. */
const closing = (marks, at) => marks.filter((m) => 2 * m.end - 1 === at).map(tag);

function tag(mark) {
  const name = typeOf(mark.type)?.name ?? mark.label ?? "mention";
  const score = mark.score === undefined ? "" : ` ${mark.score.toFixed(2)}`;
  const text = mark.kind === "label" ? name : `${name}?${score}`;
  const { start, end } = mark;
  const made = h("span", { class: `tag ${mark.kind}`, data: { start, end } }, text);
  made.style.setProperty("--colour", colour(mark));
  return made;
}

export const words = ({ tokens, gaps }, start, end) =>
  tokens
    .slice(start, end)
    .map((token, i) => token + (start + i < end - 1 ? gaps[start + i] : ""))
    .join("");
