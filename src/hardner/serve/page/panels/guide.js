/** Guidelines beside the text: what a type is, with examples taken from its labels. */
import { get, patch } from "../core/api.js";
import { on } from "../core/bus.js";
import { h } from "../core/dom.js";
import { draft } from "../core/drafts.js";
import { told } from "../core/live.js";
import { markdown } from "../core/markdown.js";
import { project, reloadTypes, typeOf } from "../core/project.js";
import { overlap } from "../core/spans.js";
import { openDocument } from "../text/reader.js";
import { tab } from "./tabs.js";

const LATER = 300;

const panel = tab("guide", "Guide");
const choice = h("select", { id: "guide-type" });
const text = h("article", { class: "guideline" });
const edit = h("button", { on: { click: () => write() } }, "Edit");
const examples = h("ul", { class: "plain" });
const hint = h("p", { class: "quiet" });
const body = h("div", {}, text, h("p", {}, edit), h("h3", {}, "Labelled most often"), examples);
panel.append(h("label", { class: "field" }, "Type ", choice), hint, body);

let shown = null;
let writing = false;

const type = () => typeOf(shown) ?? project.types[0];

function draw() {
  if (writing) return;
  const now = type();
  body.hidden = !now;
  hint.textContent = now
    ? ""
    : "What belongs to a type and what does not is written here, once there is a type.";
  choice.replaceChildren(
    ...project.types.map((one) =>
      h("option", { value: one.id, selected: one.id === now?.id }, one.name),
    ),
  );
  if (!now) return;
  const none = h("p", { class: "quiet" }, `Nothing is written yet on what a ${now.name} is.`);
  text.replaceChildren(...(now.guideline.trim() ? markdown(now.guideline) : [none]));
  if (!panel.hidden) drawExamples(now).catch(() => {});
}

async function drawExamples(now) {
  const { examples: found } = await get(`/api/types/${now.id}/examples`);
  if (type() !== now) return;
  examples.replaceChildren(
    ...(found.length ? found.map(example) : [h("li", { class: "quiet" }, "No labels yet.")]),
  );
}

const example = ({ sentence, before, text: mention, after, count }) =>
  h(
    "li",
    {},
    h(
      "button",
      {
        class: "link",
        on: {
          click: told(async () => {
            const found = await get(`/api/sentences/${sentence}`);
            await openDocument(found.document, found);
          }),
        },
      },
      mention,
    ),
    ` ×${count}`,
    h("span", { class: "quiet context" }, `${before}[${mention}]${after}`),
  );

function write() {
  const now = type();
  const field = h("textarea", { id: "guide-text", rows: 14, maxlength: 50000 }, now.guideline);
  const done = (action) =>
    told(async () => {
      await action();
      writing = false;
      text.replaceChildren();
      edit.hidden = false;
      await reloadTypes();
      draw();
      edit.focus();
    });
  writing = true;
  edit.hidden = true;
  text.replaceChildren(
    h("label", { for: "guide-text" }, `What a ${now.name} is and is not, in Markdown`),
    field,
    h(
      "p",
      { class: "line" },
      h(
        "button",
        {
          class: "main",
          on: { click: done(() => patch(`/api/types/${now.id}`, { guideline: field.value })) },
        },
        "Save",
      ),
      h("button", { on: { click: done(async () => {}) } }, "Cancel"),
    ),
  );
  field.focus();
}

function show(id) {
  if (writing || id === shown || !typeOf(id)) return;
  shown = id;
  draw();
}

choice.addEventListener("change", () => show(Number(choice.value)));
new MutationObserver(() => draw()).observe(panel, { attributeFilter: ["hidden"] });
let later = 0;
on("counted", () => {
  clearTimeout(later);
  if (!panel.hidden && type()) later = setTimeout(() => drawExamples(type()).catch(() => {}), LATER);
});
on("types", draw);
on("asked", show);
on("cursor", (at) => {
  const known = draft(at.id);
  const near = [...known.labels.spans, ...(known.sentence.predicted ?? [])];
  const found = near.find((span) => overlap(span, at));
  if (found) show(found.type);
});
