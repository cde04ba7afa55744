/** The types to choose from, as buttons; where there are many, a search finds one by its name. */
import { on } from "../core/bus.js";
import { h } from "../core/dom.js";
import { project } from "../core/project.js";

const SHOWN = 12;
/** Types that were found by their name; one that was wanted once is wanted again. */
const taken = new Set();

const keepsPick = { mousedown: (event) => event.preventDefault() };

/** Those to show: all if they are few, else the most used, or those whose name is searched for. */
function chosen(query) {
  const wanted = query.trim().toLowerCase();
  const rank = (type) => (type.name.toLowerCase().startsWith(wanted) ? 0 : 1);
  if (wanted)
    return project.types
      .filter((type) => type.name.toLowerCase().includes(wanted))
      .sort((a, b) => rank(a) - rank(b))
      .slice(0, SHOWN);
  if (project.types.length <= SHOWN) return project.types;
  const use = (type) => (taken.has(type.id) ? Infinity : type.spans);
  const used = [...project.types].sort((a, b) => (use(a) < use(b)) - (use(a) > use(b)) || a.id - b.id);
  return used.slice(0, SHOWN).sort((a, b) => a.id - b.id);
}

/** `{element, search}`; `choose` gets the type, `back` gets the focus when the search is left. */
export function picker(label, choose, back, empty = []) {
  const buttons = h("span", { class: "choices" });
  const field = h("input", {
    type: "search",
    class: "find-type",
    "aria-label": "Find a type",
    "aria-keyshortcuts": ":",
    placeholder: "Find a type :",
    autocomplete: "off",
    spellcheck: "false",
  });
  const take = (type) => {
    if (field.value) taken.add(type.id);
    field.value = "";
    draw();
    back();
    choose(type);
  };

  function draw() {
    const found = chosen(field.value);
    field.hidden = project.types.length <= SHOWN;
    const made = found.map((type) => {
      const key = type.key ? [" ", h("kbd", {}, type.key)] : [];
      const button = h(
        "button",
        { class: "type", on: { click: () => take(type), ...keepsPick } },
        type.name,
        ...key,
      );
      button.style.setProperty("--colour", `var(--type-${type.colour})`);
      return button;
    });
    const none = project.types.length ? ["No type has this name."] : empty;
    buttons.replaceChildren(...(made.length ? made : none));
  }

  field.addEventListener("input", draw);
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter" && field.value.trim() && chosen(field.value).length) {
      event.preventDefault();
      take(chosen(field.value)[0]);
    } else if (event.key === "Escape") {
      event.preventDefault();
      field.value = "";
      draw();
      back();
    }
  });
  on("types", draw);
  const element = h("div", { class: "types", role: "group", "aria-label": label }, field, buttons);
  return { element, search: () => field.hidden || field.focus() };
}
