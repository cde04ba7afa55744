/** The models: which is in use, and its zip. */
import { get, post, remove } from "../core/api.js";
import { on } from "../core/bus.js";
import { figure, h, size } from "../core/dom.js";
import { told } from "../core/live.js";
import { refresh } from "../core/project.js";
import { download } from "./download.js";
import { tab } from "./tabs.js";

const panel = tab("models", "Models");
const list = h("ul", { class: "plain cards" });
const hint = h("p", { class: "quiet" });
panel.append(hint, list);

const then = (action) =>
  told(async () => {
    await action();
    await refresh();
    await show();
  });

function card(model) {
  const { id, name, labels, created, bytes, f1, current, kind } = model;
  const use = h(
    "button",
    { "aria-label": `Use ${name}`, on: { click: then(() => post(`/api/models/${id}/use`, {})) } },
    "Use",
  );
  const gone = h(
    "button",
    { "aria-label": `Delete ${name}`, on: { click: then(() => remove(`/api/models/${id}`)) } },
    "Delete",
  );
  return h(
    "li",
    { class: current ? "card current" : "card", "aria-current": current && "true" },
    h("p", {}, h("strong", {}, name), current ? " · in use" : ""),
    h(
      "p",
      { class: "quiet" },
      `${labels.join(", ") || "no labels"} · F1 ${figure(f1)} · ${size(bytes)} · ${new Date(created).toLocaleString()}`,
    ),
    h(
      "p",
      {},
      !current && use,
      " ",
      download("Download", { href: `/api/models/${id}/zip`, "aria-label": `Download ${name}` }),
      " ",
      !current && kind !== "base" && gone,
    ),
  );
}

async function show() {
  const { models } = await get("/api/models");
  list.replaceChildren(...models.map(card));
  hint.textContent =
    models.length > 1
      ? "Every Adapt makes a model. Use goes back to an earlier one."
      : models.length
        ? "Adapt makes models of your own."
        : "No model. Start the workbench with --model FOLDER.";
}

let first = true;
on("model", () => show().catch(() => {}));
on("status", () => {
  if (first)
    show().then(
      () => (first = false),
      () => {},
    );
});
