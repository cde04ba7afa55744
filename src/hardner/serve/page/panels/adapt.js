/** Adapt: start, watch, cancel, and see what came of it. */
import { get, post } from "../core/api.js";
import { on } from "../core/bus.js";
import { count, h } from "../core/dom.js";
import { note, say, told } from "../core/live.js";
import { project, refresh } from "../core/project.js";
import { settled } from "../core/drafts.js";
import { curve, table } from "./curve.js";
import { result } from "./result.js";
import { tab } from "./tabs.js";

const STAGES = {
  reading: "Reading the labels",
  adapting: "Adapting, and estimating F1 by cross-validation",
  comparing: "Comparing with the model before",
  saving: "Saving",
};
const ENDED = {
  failed: "The last run failed",
  cancelled: "The last run was cancelled",
  interrupted: "The last run was interrupted; labels and models are as before. Start it again",
};

const panel = tab("adapt", "Adapt");
const keep = h("input", { type: "checkbox" });
const force = h("input", { type: "checkbox" });
const startButton = h("button", { class: "main", on: { click: told(begin) } }, "Adapt");
const cancelButton = h("button", { hidden: true, on: { click: told(cancel) } }, "Cancel");
const ready = h("p", { id: "adapt-ready" });
const progress = h("progress", { "aria-label": "Progress of Adapt", hidden: true });
const stage = h("p", { class: "stage quiet" });
const reading = h("p", { class: "quiet" });
const drawing = h("div", {});
const outcome = h("div", { class: "outcome" });
panel.append(
  ready,
  h("p", {}, startButton, " ", cancelButton),
  h(
    "details",
    {},
    h("summary", {}, "Options"),
    h("label", { class: "check" }, keep, " Keep what the model knew before"),
    h("label", { class: "check" }, force, " Adapt even where the model does better as it is"),
  ),
  progress,
  stage,
  reading,
  drawing,
  outcome,
);

let last = { id: null, state: null, model: null };
let resultOf = null;

async function begin() {
  startButton.disabled = true;
  try {
    if (!(await settled())) throw new Error("Some labels are not saved yet; Adapt when they are.");
    await post("/api/adapt", { keep: keep.checked, force: force.checked });
    say("Adapt has started");
    await refresh();
  } finally {
    startButton.disabled = false;
  }
}

async function cancel() {
  await post(`/api/runs/${project.status.run.id}/cancel`, {});
  await refresh();
}

function draw() {
  const { run, counts, model } = project.status;
  const busy = run?.state === "running";
  ready.textContent = standing(counts, model);
  reading.textContent = looked(project.status);
  startButton.hidden = busy;
  cancelButton.hidden = progress.hidden = !busy;
  stage.textContent = busy ? where(run) : run && ENDED[run.state] ? ended(run) : "";
  if (busy) showProgress(run);
  if (busy && run.model && last.model !== run.model)
    note("A first model is in use already; cross-validation goes on.");
  if (run) last.model = run.model;
  if (run && (run.id !== last.id || run.state !== last.state)) turned(run);
}

function standing(counts, model) {
  if (!model) return "There is no model to start from. Start the workbench with --model FOLDER.";
  if (!counts.mentions)
    return "Label a few sentences first; five with a mention are enough to begin.";
  const held = counts.held_out_labelled;
  const sentences = count(counts.labelled + counts.none - held, "labelled sentence");
  const mentions = count(counts.mentions - counts.held_out_mentions, "mention");
  const apart = held ? ` ${count(held, "more sentence")} are held out to measure on.` : "";
  const { loose } = project.status;
  const left = loose.sentences
    ? ` Left out: ${count(loose.sentences, "labelled sentence")} with a mention that fits no words (${loose.mentions} in all).`
    : "";
  const part = counts.partial
    ? ` Of ${count(counts.partial, "partly reviewed one")}, the answers are learnt.`
    : "";
  return `${sentences} to learn from, ${mentions}.${apart}${part}${left} The model in use is “${model.name}”.`;
}

/** How far the model has tagged the documents; those on the page come first. */
const looked = ({ sweep, model }) =>
  model && sweep.done < sweep.total
    ? `“${model.name}” has tagged ${sweep.done.toLocaleString("en")} of ${count(sweep.total, "sentence")}.`
    : "";

const where = (run) =>
  `${STAGES[run.stage] ?? run.stage}${run.total ? `, ${run.done} of ${run.total}` : ""} · ${Math.round(run.seconds)} s`;

const ended = (run) => `${ENDED[run.state]}.${run.message ? ` ${run.message}` : ""}`;

function showProgress({ done, total }) {
  progress.max = total || 1;
  if (total) progress.value = done;
  else progress.removeAttribute("value");
}

/** A run began or ended. */
function turned(run) {
  const watched = last.id === run.id && last.state === "running";
  last = { id: run.id, state: run.state, model: run.model };
  if (watched && run.state === "done" && run.model === project.status.model?.id)
    note("Adapted. The new model is in use.");
  else if (watched && run.state === "done")
    note("Adapted, but F1 on the held-out part fell: the model before stays in use.", "bad");
  else if (watched) note(ended(run), "bad");
  if (run.state !== "running") show().catch((error) => note(error.message, "bad"));
}

/** The curve over all runs, and the newest result. */
async function show() {
  const [{ points }, { runs }] = await Promise.all([get("/api/curve"), get("/api/runs")]);
  const done = runs.find((run) => run.state === "done");
  if (done && done.id !== resultOf) {
    outcome.replaceChildren(...result(await get(`/api/runs/${done.id}`)).filter(Boolean));
    resultOf = done.id;
  }
  drawCurve(points);
}

function drawCurve(points) {
  const drawn = points.filter((p) => p.f1 !== null || p.held_out !== null);
  const known = drawn.map((p) => ({ ...p, at: p.sentences }));
  known.sort((a, b) => a.at - b.at);
  if (!known.length) return;
  const caption = h(
    "p",
    { class: "quiet" },
    "Circles: F1 expected on sentences like yours, by cross-validation, with its interval." +
      (known.some((p) => p.held_out !== null)
        ? " Diamonds: F1 found on the held-out part, which nothing is learnt from."
        : ""),
  );
  drawing.replaceChildren(h("h3", {}, "Learning curve"), curve(known), caption, table(known));
}

on("status", draw);
