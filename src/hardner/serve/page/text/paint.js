/**
 * A sentence as elements: words, and under them one line for each label, in lanes that never cross.
 *
 * Besides its colour each label carries its name at its end; a suggestion is dashed and carries its
 * score too.
 */
import { h } from "../core/dom.js";
import { typeOf } from "../core/project.js";
import { isHit } from "./hits.js";

const [LANE, LINE] = [5, 3];

/** The lowest lane free for each mark; marks are `{start, end, type, kind, score}`. */
export function lanes(marks) {
  const ends = [];
  const order = marks
    .filter((mark) => mark.kind !== "loose")
    .sort((a, b) => a.start - b.start || b.end - a.end);
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
  const loose = marks.filter((m) => m.kind === "loose");
  const named = [...placed, ...loose];
  const edges = new Set(named.flatMap((m) => [2 * m.start, 2 * m.end - 1]));
  const pieces = [];
  let piece = null;
  for (let at = 0; at < 2 * tokens.length; at += 1) {
    if (!piece || edges.has(at)) {
      pieces.push(...closing(named, at));
      piece = segment(placed.filter((m) => 2 * m.start <= at && at < 2 * m.end - 1));
      pieces.push(piece);
    }
    const index = at >> 1;
    if (at % 2 === 0) piece.append(word(tokens[index], index, loose));
    else if (gaps[index])
      piece.append(h("span", { class: "gap", data: { at: index } }, gaps[index]));
  }
  return pieces;
}

/** A word, in which the letters of mentions that fit no words are marked. */
function word(text, index, loose) {
  const parts = loose.flatMap((m) =>
    m.letters.filter(([at]) => at === index).map(([, start, end]) => ({ ...m, start, end })),
  );
  const name = isHit(text) ? "word hit" : "word";
  if (!parts.length) return h("span", { class: name, data: { at: index } }, text);
  const letters = [...text];
  const cuts = [...new Set([0, letters.length, ...parts.flatMap((p) => [p.start, p.end])])];
  cuts.sort((a, b) => a - b);
  const made = cuts.slice(1).map((end, i) => {
    const piece = letters.slice(cuts[i], end).join("");
    const mark = parts.find((p) => p.start <= cuts[i] && end <= p.end);
    if (!mark) return piece;
    const shown = h("span", { class: "loose" }, piece);
    shown.style.setProperty("--colour", colour(mark));
    return shown;
  });
  return h("span", { class: name, data: { at: index } }, ...made);
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
  const [on, off] = mark.kind === "guess" ? [6, 10] : mark.kind === "note" ? [1, 6] : [2, 4];
  return `repeating-linear-gradient(90deg, ${c} 0 ${on}px, transparent ${on}px ${off}px)`;
}

/** The names of the marks that end before a place. */
const closing = (marks, at) => marks.filter((m) => 2 * m.end - 1 === at).map(tag);

function tag(mark) {
  const { start, end, kind } = mark;
  const title = kind === "note" ? mark.text : (mark.why ?? null);
  const made = h("span", { class: `tag ${kind}`, title, data: { start, end } }, tagText(mark));
  made.style.setProperty("--colour", colour(mark));
  return made;
}

function tagText(mark) {
  if (mark.kind === "note") return `✎ ${mark.text}`;
  const name = typeOf(mark.type)?.name ?? mark.label ?? "mention";
  if (mark.kind === "label") return name;
  if (mark.kind === "loose") return `${name} (${mark.why})`;
  return `${name}?${mark.score === undefined ? "" : ` ${mark.score.toFixed(2)}`}`;
}

export const words = ({ tokens, gaps }, start, end) =>
  tokens
    .slice(start, end)
    .map((token, i) => token + (start + i < end - 1 ? gaps[start + i] : ""))
    .join("");
