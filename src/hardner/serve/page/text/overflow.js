/** A menu for what does not fit into a row of buttons; where it does fit, it is part of the row. */
import { h } from "../core/dom.js";

export function overflow(...parts) {
  const menu = h("div", { class: "menu", hidden: true }, parts);
  const more = h("button", { "aria-expanded": "false" }, "More");
  const made = h("div", { class: "overflow" }, more, menu);
  const open = (whether) => {
    menu.hidden = !whether;
    more.setAttribute("aria-expanded", String(whether));
  };
  more.addEventListener("mousedown", (event) => event.preventDefault());
  more.addEventListener("click", () => open(menu.hidden));
  made.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || menu.hidden) return;
    open(false);
    more.focus();
  });
  addEventListener("pointerdown", (event) => made.contains(event.target) || open(false));
  return made;
}
