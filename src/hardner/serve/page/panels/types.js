/** The types: their name, key and colour. */
import { patch, post, remove } from "../core/api.js";
import { on } from "../core/bus.js";
import { count, dialog, h } from "../core/dom.js";
import { note, told } from "../core/live.js";
import { project, refresh, reloadTypes } from "../core/project.js";
import { tab } from "./tabs.js";

const COLOURS = ["blue", "vermillion", "green", "purple", "orange", "sky", "grey", "yellow"];

const panel = tab("types", "Types");
const list = h("ul", { class: "plain typelist" });
const hint = h("p", { class: "quiet" });
const name = h("input", {
  id: "type-name",
  required: true,
  maxlength: 100,
  autocomplete: "off",
  placeholder: "e.g. Device",
});
const key = h("input", {
  id: "type-key",
  maxlength: 1,
  pattern: "[a-z0-9]",
  size: 2,
  autocomplete: "off",
  placeholder: "auto",
});
const form = h(
  "form",
  { class: "line" },
  h("label", { for: "type-name" }, "New type"),
  name,
  h("label", { for: "type-key" }, "Key"),
  key,
  h("button", { class: "main" }, "Make"),
);
panel.append(hint, list, form);

form.addEventListener("submit", (event) => {
  event.preventDefault();
  return told(make)();
});

async function make() {
  const wanted = {
    name: name.value.trim(),
    ...(key.value ? { key: key.value.toLowerCase() } : {}),
  };
  const made = await post("/api/types", wanted);
  note(`Made ${made.name}; ${made.key ? `its key is “${made.key}”` : "no key is left, so : finds it"}.`);
  form.reset();
  await reloadTypes();
  name.focus();
}

const change = (type, field, read) =>
  told(async (event) => {
    const input = event.target;
    try {
      await patch(`/api/types/${type.id}`, { [field]: read(input.value) });
    } finally {
      if (input.tagName === "INPUT") input.value = input.defaultValue;
      await reloadTypes();
    }
  });

async function drop(type, labels = "") {
  await remove(`/api/types/${type.id}?with_labels=${labels !== ""}`);
  note(`Deleted ${type.name}${labels}. Undo brings it back.`);
  await refresh();
}

/** What a click alone must not take away. */
function confirm(type) {
  const labels = count(type.spans, "label");
  const sure = h("button", { class: "main" }, `Delete ${type.name} and ${labels}`);
  const asked = dialog(
    `Delete ${type.name}?`,
    h("div", {}, h("p", {}, `It is used by ${labels}, which go with it.`), h("p", {}, sure)),
  );
  sure.addEventListener(
    "click",
    told(async () => {
      asked.close();
      await drop(type, ` and ${labels}`);
    }),
  );
}

function row(type) {
  const field = (text, input) =>
    h("label", {}, h("span", { class: "hidden" }, `${text} of ${type.name}`), input);
  const named = (name) => ({ field: `${type.id}-${name}` });
  const label = h("input", {
    data: named("name"),
    value: type.name,
    maxlength: 100,
    autocomplete: "off",
    on: { change: change(type, "name", (v) => v.trim()) },
  });
  const press = h("input", {
    data: named("key"),
    value: type.key,
    maxlength: 1,
    size: 2,
    autocomplete: "off",
    class: "key",
    on: { change: change(type, "key", (v) => v.toLowerCase()) },
  });
  const colour = h(
    "select",
    { data: named("colour"), on: { change: change(type, "colour", Number) } },
    COLOURS.map((text, i) => h("option", { value: i, selected: i === type.colour }, text)),
  );
  const gone = h(
    "button",
    {
      "aria-label": `Delete ${type.name}`,
      on: { click: told(() => (type.spans ? confirm(type) : drop(type))) },
    },
    "Delete",
  );
  const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
  swatch.style.setProperty("--colour", `var(--type-${type.colour})`);
  return h(
    "li",
    { class: "line" },
    swatch,
    field("Name", label),
    field("Key", press),
    field("Colour", colour),
    h("span", { class: "quiet" }, count(type.spans, "label")),
    gone,
  );
}

/** The focus stays where it was; nothing is drawn over what is being typed. */
function draw() {
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  if (focused?.tagName === "INPUT" && focused.value !== focused.defaultValue) return;
  const field = focused?.dataset.field;
  list.replaceChildren(...project.types.map(row));
  if (field) list.querySelector(`[data-field="${field}"]`)?.focus();
  hint.textContent = project.types.length
    ? "Pick words in the text and press the type's key."
    : "What do you want to find? Make a type, such as Device or Symptom.";
}

on("types", draw);
