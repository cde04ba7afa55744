/** The keys, all of them, in one overlay. */
import { dialog, h } from "./core/dom.js";
import { recall, remember } from "./core/settings.js";

const KEYS = {
  "In the text": [
    ["← →", "one word back or on"],
    ["↑ ↓", "one line up or down"],
    ["Home End", "first or last word of the sentence; with Ctrl, of the document"],
    ["Shift + any of these", "extend the selection"],
    ["a type's key", "label the selection; again: take the label off"],
    ["Enter", "accept the suggestion, or go to the next one"],
    ["Backspace", "take the label off, or reject the suggestion"],
    ["+", "accept all suggestions of the sentence"],
    ["−", "the sentence has no entity"],
    ["Space", "the sentence is partly reviewed; again: done"],
    [". ,", "next or previous suggestion"],
    ["*", "label the same words everywhere, from a list"],
    [";", "a note on the selection"],
    [":", "find a type by its name, where there are many"],
    ["Esc", "shrink the selection to one word"],
  ],
  "In review": [
    ["Enter", "accept"],
    ["Backspace", "reject"],
    ["a type's key", "it is of that type"],
    ["← → Shift ← →", "move the end, or the start, of the mention"],
    ["Space", "skip"],
    [",", "back to the one before"],
    ["*", "label the same words everywhere"],
    [".", "the sentence is done"],
    ["−", "the sentence has no entity"],
    ["Esc", "leave"],
  ],
  Anywhere: [
    ["Ctrl Enter", "the hardest sentence next"],
    ["Ctrl Z", "undo"],
    ["Ctrl Y", "redo"],
    ["Alt ↓ Alt ↑", "next or previous document"],
    ["/", "search"],
    ["Ctrl V", "add the copied text as a document"],
    ["?", "these keys"],
  ],
};

export const singleKeys = () => recall("single-keys", true);

export function showHelp() {
  const single = h("input", { type: "checkbox", checked: singleKeys() });
  single.addEventListener("change", () => remember("single-keys", single.checked));
  dialog(
    "Keys",
    h(
      "div",
      {},
      Object.entries(KEYS).flatMap(([title, rows]) => [
        h("h3", {}, title),
        h(
          "dl",
          { class: "keys" },
          rows.flatMap(([keys, what]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, what)]),
        ),
      ]),
      h("label", { class: "check" }, single, " / and ? act outside of the text, too"),
    ),
    { class: "help" },
  );
}
