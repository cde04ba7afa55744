/** Export: the model, the labels in any format, and a report. */
import { on } from "../core/bus.js";
import { h } from "../core/dom.js";
import { project } from "../core/project.js";
import { download } from "./download.js";
import { tab } from "./tabs.js";

const panel = tab("export", "Export");
const model = h("p", {});
const format = h("select", { id: "export-format" });
const scheme = h("select", { id: "export-scheme" });
const unit = h(
  "select",
  { id: "export-unit" },
  h("option", { value: "document" }, "documents with labels"),
  h("option", { value: "sentence" }, "labelled sentences alone"),
);
const labels = download("Download labels", { class: "button main" });
const schemeLine = h("label", { class: "field" }, "Tags ", scheme);
panel.append(
  h("h3", {}, "Model"),
  model,
  h("h3", {}, "Labels"),
  h("label", { class: "field" }, "Format ", format),
  schemeLine,
  h("label", { class: "field" }, "What ", unit),
  h(
    "p",
    { class: "quiet" },
    "Only jsonl keeps which sentences are open, partly reviewed or done, and what is held out. " +
      "In other formats a document is cut down to its done sentences.",
  ),
  h("p", {}, labels),
  h("h3", {}, "Report"),
  h(
    "p",
    {},
    download("Download report", { class: "button", href: "/api/report" }),
    " the curve and the figures, as one HTML file",
  ),
  h("h3", {}, "Project"),
  h(
    "p",
    {},
    download("Save a copy", { class: "button", href: "/api/copy" }),
    " of the project as it is now: documents, labels, history and models in one file",
  ),
  h("h3", {}, "Scripts"),
  h(
    "p",
    {},
    h("a", { href: "/docs", target: "_blank", rel: "noopener" }, "The HTTP API"),
    " tags, adapts and suggests from scripts, too.",
  ),
);

function aim() {
  const chosen = project.formats.find((f) => f.name === format.value);
  schemeLine.hidden = !chosen?.tagged;
  const wanted = new URLSearchParams({ format: format.value, unit: unit.value });
  if (chosen?.tagged) wanted.set("scheme", scheme.value);
  labels.setAttribute("href", `/api/export?${wanted}`);
}

function draw() {
  const now = project.status.model;
  model.replaceChildren(
    ...(now
      ? [
          download("Download model", { class: "button main", href: `/api/models/${now.id}/zip` }),
          ` “${now.name}”, a folder that hardner.load reads`,
        ]
      : ["No model yet."]),
  );
  if (format.children.length) return;
  format.append(
    ...project.formats
      .filter((f) => f.writable)
      .map((f) => h("option", { value: f.name }, `${f.name}: ${f.about}`)),
  );
  scheme.append(...project.schemes.map((s) => h("option", { value: s }, s)));
  aim();
}

panel.addEventListener("change", aim);
on("status", draw);
