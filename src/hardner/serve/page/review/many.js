/** Many mentions labelled at once, from a list in which those that are wrong are unticked. */
import { post } from "../core/api.js";
import { emit } from "../core/bus.js";
import { count, dialog, h } from "../core/dom.js";
import { settled } from "../core/drafts.js";
import { note, told } from "../core/live.js";
import { refresh, typeOf } from "../core/project.js";

const FIRST = 0.9;
const WAIT = "Some changes are not saved yet; go on when they are.";

const place = ({ sentence, start, end, type }) => ({ sentence, start, end, type });

/** Shows what was found and labels what stays ticked; `ask` gets a score where one is chosen. */
async function choose(title, ask, scored) {
  const list = h("ul", { class: "ticks plain" });
  const summary = h("p", { role: "status" });
  const go = h("button", { class: "main" });
  const from = h("input", {
    id: "many-score",
    type: "number",
    min: 0,
    max: 1,
    step: 0.01,
    value: FIRST,
  });
  const ticks = (checked) => () => {
    for (const box of list.querySelectorAll("input")) box.checked = checked;
    tell();
  };
  let found = [];
  let total = 0;

  const chosen = () => {
    const boxes = [...list.querySelectorAll("input")];
    return found.filter((_, index) => boxes[index].checked);
  };

  function tell() {
    const n = chosen().length;
    go.textContent = `Label ${count(n, "mention")}`;
    go.disabled = n === 0;
    const first = total > found.length ? `, the first ${found.length} here` : "";
    summary.textContent = `${count(total, "mention")} found${first}; ${n} ticked.`;
  }

  const load = told(async () => {
    ({ found, total } = await ask(Number(from.value)));
    list.replaceChildren(...found.map(line));
    tell();
  });

  go.addEventListener(
    "click",
    told(async () => {
      go.disabled = true;
      const spans = chosen().map(place);
      if (!(await settled())) throw new Error(WAIT);
      const { accepted, left } = await post("/api/review/accept", { spans });
      shown.close();
      const not = left ? ` ${count(left, "mention")} met a label of its type and stayed out.` : "";
      note(`Labelled ${count(accepted, "mention")}.${not} One undo takes all back.`);
      await refresh();
      emit("documents");
    }),
  );
  from.addEventListener("change", load);
  await settled();
  const shown = dialog(
    title,
    h(
      "div",
      { class: "many" },
      scored && h("label", { class: "line" }, "From score ", from),
      summary,
      h(
        "p",
        { class: "line" },
        h("button", { on: { click: ticks(true) } }, "Tick all"),
        h("button", { on: { click: ticks(false) } }, "Untick all"),
        go,
      ),
      list,
    ),
    { class: "wide" },
  );
  list.addEventListener("change", tell);
  await load();
  go.focus();
  return shown;
}

const line = ({ before, text, after, type, score, name }) =>
  h(
    "li",
    {},
    h(
      "label",
      { class: "check" },
      h("input", { type: "checkbox", checked: true }),
      h(
        "span",
        {},
        h("span", { class: "quiet" }, before),
        h("strong", {}, text),
        h("span", { class: "quiet" }, after),
        ` ${typeOf(type)?.name ?? ""}${score === null ? "" : ` ${score.toFixed(2)}`} `,
        h("span", { class: "quiet" }, name),
      ),
    ),
  );

/** All candidates of a question, from a score upwards. */
export const acceptMany = told((question) =>
  choose("Accept many", (low) => post("/api/review/list", { ...question, low }), true),
);

/** The words of a span, wherever they stand without an answer. */
export const labelEverywhere = told((sentence, { start, end, type }, words) =>
  choose(
    `“${words}” everywhere`,
    () => post("/api/review/same", { sentence, start, end, type }),
    false,
  ),
);
