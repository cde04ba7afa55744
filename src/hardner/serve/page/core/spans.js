/**
 * Labels of one sentence as values: `{spans, none, rejected, partial}`, and what each key does to
 * them.
 *
 * Spans of different types may overlap, two of one type may not.
 */

export const keyOf = (span) => `${span.start}-${span.end}-${span.type}`;

export const bare = ({ start, end, type }) => ({ start, end, type });

export const overlap = (a, b) => a.start < b.end && b.start < a.end;

const sameExtent = (a, b) => a.start === b.start && a.end === b.end;

const has = (spans, span) => spans.some((other) => keyOf(other) === keyOf(span));

const without = (spans, span) => spans.filter((other) => keyOf(other) !== keyOf(span));

const withSpan = (spans, span) => [...without(spans, span), bare(span)];

const sorted = (spans) =>
  spans.map(bare).sort((a, b) => a.start - b.start || a.end - b.end || a.type - b.type);

export const labelsOf = ({ spans, state, none, rejected, partial }) => ({
  spans: sorted(spans),
  none: none ?? state === "none",
  rejected: sorted(rejected),
  partial: spans.length > 0 && (partial ?? state === "partial"),
});

/** As the server will say it. */
export const stateOf = ({ spans, none, rejected, partial }) => {
  if (none) return "none";
  if (spans.length) return partial ? "partial" : "labelled";
  return rejected.length ? "partial" : "open";
};

export const isDone = (state) => state === "labelled" || state === "none";

export const equal = (a, b) => JSON.stringify(labelsOf(a)) === JSON.stringify(labelsOf(b));

/** The suggestions that wait for an answer, from a score upwards. */
export function pending(predicted, labels, threshold) {
  if (labels.none) return [];
  const answered = new Set([...labels.spans, ...labels.rejected].map(keyOf));
  return (predicted ?? []).filter((g) => g.score >= threshold && !answered.has(keyOf(g)));
}

/** Puts a label on, in place of those of its type that it touches. Pressed again, takes it off. */
export function label(labels, picked, guesses) {
  if (has(labels.spans, picked)) return erase(labels, [picked], guesses);
  const clear = labels.spans.filter((s) => s.type !== picked.type || !overlap(s, picked));
  const corrected = guesses.filter((guess) => corrects(picked, guess));
  return {
    spans: withSpan(clear, picked),
    none: false,
    rejected: corrected.reduce(withSpan, without(labels.rejected, picked)),
    partial: labels.partial,
  };
}

/** A label corrects a suggestion of its type with other ends, or of its ends with another type. */
const corrects = (picked, guess) =>
  guess.type === picked.type
    ? overlap(guess, picked) && !sameExtent(guess, picked)
    : sameExtent(guess, picked);

export const accept = (labels, guesses) =>
  guesses.reduce((now, guess) => (has(now.spans, guess) ? now : label(now, guess, [])), labels);

export const reject = (labels, guesses) => ({
  ...labels,
  rejected: guesses.reduce(withSpan, labels.rejected),
});

/** Takes labels off; one that the model had suggested counts as rejected. */
export const erase = (labels, spans, predicted) => ({
  ...labels,
  spans: spans.reduce(without, labels.spans),
  rejected: spans.filter((span) => has(predicted ?? [], span)).reduce(withSpan, labels.rejected),
});

export const toggleNone = (labels) =>
  labels.none ? { ...labels, none: false } : { spans: [], none: true, rejected: labels.rejected };

/** After suggestions were answered: done once none is left, unless it was done already. */
export const answered = (before, after, left) =>
  isDone(stateOf(before)) ? after : { ...after, partial: left.length > 0 };
