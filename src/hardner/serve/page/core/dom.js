/** Elements from data. Text becomes text nodes, never markup. */

export const byId = (id) => document.getElementById(id);

/** `h("button", {class: "main", on: {click}}, "Adapt")`; true sets an attribute, false leaves it out. */
export const h = (tag, properties = {}, ...children) =>
  fill(document.createElement(tag), properties, children);

export const svg = (tag, properties = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);

function fill(element, { on = {}, data = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  for (const [name, value] of Object.entries(data)) element.dataset[name] = value;
  for (const [name, listener] of Object.entries(on)) element.addEventListener(name, listener);
  element.append(...children.flat().filter((child) => child !== null && child !== false));
  return element;
}

/** "1 mention", "2 mentions". */
export const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

export const figure = (value) => (value === null ? "–" : value.toFixed(2));

export const size = (bytes) =>
  bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

/** A modal dialog that is gone when closed. */
export function dialog(title, content, properties = {}) {
  const heading = h("h2", { id: "dialog-title" }, title);
  const close = h("button", { type: "button", class: "close", "aria-label": "Close" }, "×");
  const made = h(
    "dialog",
    { "aria-labelledby": "dialog-title", ...properties },
    h("div", { class: "title" }, heading, close),
    content,
  );
  close.addEventListener("click", () => made.close());
  made.addEventListener("close", () => made.remove());
  document.body.append(made);
  made.showModal();
  return made;
}
