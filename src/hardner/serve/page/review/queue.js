/** The candidates that wait for an answer, fetched before they are needed. */
import { post } from "../core/api.js";
import { draft, forget, know } from "../core/drafts.js";
import { isDone, keyOf, overlap, stateOf } from "../core/spans.js";
import { opened } from "../text/reader.js";

const FEW = 25;
const MANY = 50;
const KEPT = 200;
const SOON = 300;

const idOf = (one) => `${one.sentence}:${keyOf(one)}`;

const place = ({ sentence, start, end, type }) => ({ sentence, start, end, type });

/** Whether a candidate is still a question, with what was said since it was fetched. */
export function isOpen(one, source) {
  const labels = draft(one.sentence)?.labels;
  if (!labels) return false;
  const same = (span) => keyOf(span) === keyOf(one);
  if (one.kind === "extra") return labels.spans.some(same);
  if (labels.none || labels.rejected.some(same)) return false;
  if (source === "suggestions" && isDone(stateOf(labels))) return false;
  return !labels.spans.some((span) => span.type === one.type && overlap(span, one));
}

export class Queue {
  /** Args: `arrived` is called when candidates come in, `failed` with an error. */
  constructor(arrived, failed) {
    Object.assign(this, { arrived, failed, around: {}, question: {}, seen: [], waiting: [] });
    Object.assign(this, { skipped: new Map(), total: null, dry: false, asking: null });
  }

  restart(question) {
    Object.assign(this, { question, seen: [], skipped: new Map() });
    this.again();
  }

  /** Asks the same question anew, as what it is about has changed. */
  again() {
    Object.assign(this, { waiting: [], total: null, dry: false, asking: null });
    this.fill();
  }

  get current() {
    return this.waiting[0] ?? null;
  }

  /** How many are left, as far as is known. */
  get left() {
    return Math.max(this.total ?? 0, this.waiting.length);
  }

  /** Goes on to the next; what is skipped is not asked about again. */
  next(skips) {
    const done = this.waiting.shift();
    if (done) {
      this.seen.push(done);
      this.total -= 1;
      if (skips) this.skipped.set(idOf(done), done);
    }
    this.tidy();
  }

  /** Leaves out what has been answered by the way. */
  tidy() {
    const before = this.waiting.length;
    this.waiting = this.waiting.filter((one) => isOpen(one, this.question.source));
    this.total -= before - this.waiting.length;
    this.fill();
  }

  /** Takes one that was seen back to the front: the last, or the last that meets a condition. */
  back(wanted = () => true) {
    const at = this.seen.findLastIndex((one) => wanted(one) && isOpen(one, this.question.source));
    if (at < 0) return false;
    const [one] = this.seen.splice(at, 1);
    this.skipped.delete(idOf(one));
    this.waiting = [one, ...this.waiting.filter((other) => idOf(other) !== idOf(one))];
    this.total += 1;
    return true;
  }

  async fill() {
    if (this.asking || this.dry || this.waiting.length > FEW) return;
    const asking = (this.asking = {});
    const skip = [...this.skipped.values(), ...this.waiting].slice(-9000).map(place);
    try {
      const found = await post("/api/review", { ...this.question, skip, limit: MANY });
      if (this.asking !== asking) return;
      this.#take(found, skip.length - this.skipped.size);
    } catch (error) {
      if (this.asking !== asking) return;
      this.dry = true;
      this.failed(error);
    }
    this.asking = null;
    // Answers that the server has not yet are still among its candidates: it is asked once more.
    if (!this.waiting.length && !this.dry) setTimeout(() => this.fill(), SOON);
    this.arrived();
  }

  #take({ total, candidates, sentences, around }, waiting) {
    know(sentences);
    Object.assign(this.around, around);
    const here = new Set([...this.waiting, ...this.skipped.values()].map(idOf));
    const fresh = candidates.filter(
      (one) => !here.has(idOf(one)) && isOpen(one, this.question.source),
    );
    this.waiting.push(...fresh);
    this.total = total + waiting;
    this.dry = candidates.length === 0;
    const needed = [...this.waiting, ...this.seen.slice(-KEPT)].map((one) => one.sentence);
    forget([...needed, ...(opened()?.ids ?? [])]);
  }
}
