/** What this browser remembers between visits. */

export function recall(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`hardner.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`hardner.${name}`, JSON.stringify(value));
  } catch {
    // Without storage the setting lasts as long as the page.
  }
}

let threshold = recall("threshold", 0.5);

/** The score below which suggestions are not shown. */
export const shownFrom = () => threshold;

export function showFrom(score) {
  threshold = score;
  remember("threshold", score);
}
