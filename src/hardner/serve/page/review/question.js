/** What review asks about: where candidates come from, their types, scores and sentences. */
import { on } from "../core/bus.js";
import { h } from "../core/dom.js";
import { project } from "../core/project.js";
import { recall, remember } from "../core/settings.js";

const CHOICES = {
  source: {
    suggestions: "what the model finds",
    differences: "where model and labels differ",
    matches: "words labelled elsewhere",
  },
  state: {
    any: "any sentence",
    open: "open",
    partial: "partly reviewed",
    done: "done",
  },
  order: { surest: "surest first", "least sure": "least sure first", "as in the text": "in order" },
};

const number = (name, value) =>
  h("input", { type: "number", name, min: 0, max: 1, step: 0.05, value, required: true });

const select = (name, options, value) =>
  h(
    "select",
    { name },
    Object.entries(options).map(([key, text]) =>
      h("option", { value: key, selected: key === value }, text),
    ),
  );

const field = (text, ...inputs) => h("label", { class: "field" }, text, ...inputs);

/** A form of the question; `changed` is called when it is another one. */
export function questionForm(changed) {
  const was = recall("review-question", {});
  const type = h("select", { name: "type" });
  const form = h(
    "form",
    { class: "question", "aria-label": "What to review" },
    field("Ask about", select("source", CHOICES.source, was.source)),
    field("Type", type),
    field("Score from", number("low", was.low ?? 0)),
    field("to", number("high", was.high ?? 1)),
    field("Sentences", select("state", CHOICES.state, was.state)),
    field("Order", select("order", CHOICES.order, was.order)),
    field("Documents with", h("input", { type: "search", name: "query", autocomplete: "off" })),
  );

  function question() {
    const { source, type, low, high, state, order, query } = Object.fromEntries(new FormData(form));
    return {
      ...{ source, state, order, query: query.trim(), low: Number(low), high: Number(high) },
      types: type ? [Number(type)] : [],
    };
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => {
    if (!form.reportValidity()) return;
    const { query, types, ...kept } = question();
    remember("review-question", kept);
    changed();
  });
  on("types", () => {
    const now = type.value;
    type.replaceChildren(
      h("option", { value: "" }, "all"),
      ...project.types.map((one) => h("option", { value: one.id }, one.name)),
    );
    type.value = project.types.some((one) => String(one.id) === now) ? now : "";
  });
  return { form, question };
}
