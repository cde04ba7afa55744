/** Documents come in by paste, by drop and by upload. */
import { post, upload } from "../core/api.js";
import { emit } from "../core/bus.js";
import { byId, count, dialog, h, size } from "../core/dom.js";
import { note, told } from "../core/live.js";
import { project, refresh, start } from "../core/project.js";
import { openDocument, opened } from "../text/reader.js";

/** The dialog; `text` is what was pasted outside of it. */
export async function addDocuments(text = "") {
  await start();
  const area = h("textarea", { id: "add-text", rows: 8, dir: "auto", placeholder: "Paste an abstract here" });
  area.value = text;
  const name = h("input", { id: "add-name", autocomplete: "off", maxlength: 200 });
  const several = h("input", { type: "checkbox" });
  const files = h("input", { id: "add-files", type: "file", multiple: true });
  const format = h(
    "select",
    { id: "add-format" },
    h("option", { value: "auto" }, "by name and content"),
    project.formats
      .filter((f) => f.readable)
      .map((f) => h("option", { value: f.name }, `${f.name}: ${f.about}`)),
  );
  const heldOut = h("input", { type: "checkbox" });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const busy = h("button", { class: "main", type: "submit" }, "Add");
  const form = h(
    "form",
    {},
    h("label", { for: "add-text" }, "Text"),
    area,
    h("label", { class: "check" }, several, " A blank line starts a new document"),
    h("label", { for: "add-name" }, "Name of the text (or none)"),
    name,
    h(
      "label",
      { for: "add-files" },
      `Files, up to ${size(project.limits.upload_bytes ?? 0)} each; labels in them are kept`,
    ),
    files,
    h("label", { for: "add-format" }, "Format of the files"),
    format,
    h(
      "label",
      { class: "check" },
      heldOut,
      " Hold out: never learn from these, only measure on them",
    ),
    wrong,
    busy,
  );
  const shown = dialog("Add documents", form);
  area.focus();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.textContent = "";
    busy.disabled = true;
    try {
      const texts = split(area.value, several.checked);
      if (!texts.length && !files.files.length) throw new Error("Paste a text or choose a file.");
      if (texts.length) {
        await addTexts(texts, name.value.trim(), heldOut.checked);
        area.value = "";
      }
      await addFiles(files.files, format.value, heldOut.checked);
      shown.close();
    } catch (error) {
      wrong.textContent = error.message;
    } finally {
      busy.disabled = false;
    }
  });
}

const split = (text, several) =>
  (several ? text.split(/\n\s*\n/) : [text]).map((t) => t.trim()).filter(Boolean);

async function addTexts(texts, name, heldOut) {
  const named = (i) => (name && texts.length > 1 ? `${name} ${i + 1}` : name);
  const documents = texts.map((text, i) => ({ name: named(i), text }));
  await arrived(await post("/api/documents", { documents, held_out: heldOut }));
}

/** The ends of the files that some formats keep text and labels in, and those of labels. */
const PAIRED = /\.(ann|txt|apf\.xml|sgm)$/i;
const LABELS = /\.(ann|apf\.xml)$/i;

/** Files of one name that belong together are sent as one. */
async function addFiles(files, format, heldOut) {
  const paired = [...files].some((file) => LABELS.test(file.name));
  const groups = new Map();
  for (const file of files) {
    const key = paired && PAIRED.test(file.name) ? file.name.replace(PAIRED, "") : file;
    groups.set(key, [...(groups.get(key) ?? []), file]);
  }
  for (const group of groups.values()) {
    const wanted = new URLSearchParams({ format, held_out: heldOut });
    for (const { name } of group) wanted.append("name", name);
    for (const { size } of group.slice(0, -1)) wanted.append("size", size);
    await arrived(await upload(`/api/uploads?${wanted}`, new Blob(group)));
  }
}

async function arrived(added) {
  const labelled = added.mentions ? `, with ${count(added.mentions, "mention")}` : "";
  note(
    `Added ${count(added.added, "document")}, ${count(added.sentences, "sentence")}${labelled}.`,
  );
  for (const warning of added.warnings.slice(0, 3)) note(warning, "bad");
  await refresh();
  emit("documents");
  if (!opened()) await openDocument(added.first);
}

const typing = (target) => target.closest?.("input, textarea, select, dialog");

addEventListener("paste", (event) => {
  if (typing(event.target)) return;
  const text = event.clipboardData.getData("text/plain");
  if (text.trim()) addDocuments(text);
});

const holdsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
addEventListener("dragover", (event) => {
  if (!holdsFiles(event)) return;
  event.preventDefault();
  byId("drop").hidden = false;
});
addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) byId("drop").hidden = true;
});
addEventListener(
  "drop",
  told(async (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    byId("drop").hidden = true;
    await addFiles(event.dataTransfer.files, "auto", false);
  }),
);
