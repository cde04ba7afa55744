/** The panels beside the text, one at a time, as tabs. */
import { emit } from "../core/bus.js";
import { byId, h } from "../core/dom.js";
import { recall, remember } from "../core/settings.js";

const tabs = new Map();

/** A new tab; returns the panel to fill. */
export function tab(name, title) {
  const button = h(
    "button",
    {
      id: `tab-${name}`,
      role: "tab",
      "aria-controls": `panel-${name}`,
      "aria-selected": "false",
      tabindex: -1,
      on: { click: () => showTab(name) },
    },
    title,
  );
  const panel = h("div", {
    id: `panel-${name}`,
    class: "panel",
    role: "tabpanel",
    "aria-labelledby": `tab-${name}`,
    tabindex: 0,
    hidden: true,
  });
  tabs.set(name, { button, panel });
  byId("tabs").append(button);
  byId("panels").append(panel);
  return panel;
}

export function showTab(name, focus = false) {
  for (const [other, { button, panel }] of tabs) {
    const chosen = other === name;
    button.setAttribute("aria-selected", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    panel.hidden = !chosen;
  }
  remember("tab", name);
  emit("tab", name);
  if (focus) emit("unfold", "panels");
  if (focus)
    (tabs.get(name).panel.querySelector("input, button, a") ?? tabs.get(name).button).focus();
}

export const showFirst = () => {
  const last = recall("tab", "types");
  showTab(tabs.has(last) ? last : "types");
};

byId("tabs").addEventListener("keydown", (event) => {
  const names = [...tabs.keys()];
  const at = names.findIndex((name) => tabs.get(name).button === document.activeElement);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const name = names[(to + names.length) % names.length];
  showTab(name);
  tabs.get(name).button.focus();
});
