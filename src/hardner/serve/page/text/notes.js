/** A note on the picked words: written, changed and deleted in a dialog. */
import { put } from "../core/api.js";
import { byId, dialog, h } from "../core/dom.js";
import { draft, know } from "../core/drafts.js";
import { told } from "../core/live.js";
import { refresh } from "../core/project.js";

/** The note that the picked words carry, or a new one on exactly these words. */
const noteAt = (notes, at) =>
  notes.find((n) => n.start === at.start && n.end === at.end) ??
  notes.find((n) => n.start < at.end && at.start < n.end) ?? { ...at, text: "" };

export function writeNote(at, words) {
  const note = noteAt(draft(at.id).sentence.notes, at);
  const text = h("textarea", { id: "note-text", rows: 4, maxlength: 5000 }, note.text);
  const save = told(async (said) => {
    shown.close();
    know([
      await put(`/api/sentences/${at.id}/note`, { start: note.start, end: note.end, text: said }),
    ]);
    await refresh();
  });
  const gone = h("button", { type: "button", on: { click: () => save("") } }, "Delete the note");
  const form = h(
    "form",
    {
      on: {
        submit: (event) => {
          event.preventDefault();
          save(text.value);
        },
      },
    },
    h("label", { for: "note-text" }, `On “${words}”`),
    text,
    h("p", { class: "line" }, h("button", { class: "main" }, "Save"), note.text && gone),
  );
  const shown = dialog("Note", form);
  shown.addEventListener("close", () => byId("text").focus());
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  text.focus();
}
