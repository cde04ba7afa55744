/** The list of documents: only the rows in sight are elements, however many there are. */
import { on } from "../core/bus.js";
import { byId, count, h } from "../core/dom.js";
import { note, told } from "../core/live.js";
import { project } from "../core/project.js";
import { isDone } from "../core/spans.js";
import { openDocument, opened } from "../text/reader.js";
import { highlight } from "../text/hits.js";
import { addDocuments } from "./add.js";
import { Rows } from "./rows.js";

const FILTERS = {
  all: "All",
  unlabelled: "Unlabelled",
  labelled: "Labelled",
  partial: "Partly reviewed",
  suggested: "Suggested",
  disagreeing: "Disagreeing",
  held_out: "Held out",
  unread: "To read",
};
const EMPTY = {
  all: "No documents yet. Paste an abstract, or drop a file of any format here.",
  unlabelled: "Every document has a label.",
  labelled: "No labels yet. Open a document, pick words and press a type's key.",
  partial: "No sentence is partly reviewed.",
  suggested: "No suggestions. Label a few sentences and press Adapt, and the model suggests more.",
  disagreeing: "Model and labels agree everywhere the model has looked.",
  held_out:
    "Nothing is held out. Mark some labelled documents as held out, and Adapt shows its mistakes there.",
  unread: "You have read every sentence to its end.",
};
const TYPING = 150;
const SPARE = 8;

const box = byId("rows");
const sheet = h("div", { class: "sheet", role: "presentation" });
box.append(sheet);
const rows = new Rows(draw);
let active = 0;
let drawn = "";

/** The height of a row is in rem, so that it grows with the reader's letters. */
const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).fontSize) * 4;

function visible() {
  const height = rowHeight();
  const first = Math.max(0, Math.floor(box.scrollTop / height) - SPARE);
  return [
    first,
    Math.min(rows.total - 1, Math.ceil((box.scrollTop + box.clientHeight) / height) + SPARE),
  ];
}

function draw() {
  const none = rows.total === 0;
  box.hidden = none;
  byId("rows-empty").hidden = !none;
  byId("found").textContent = none ? "" : count(rows.total ?? 0, "document");
  if (none) {
    sheet.replaceChildren();
    drawn = "";
    return drawEmpty();
  }
  active = Math.min(active, rows.total - 1);
  sheet.style.height = `${rows.total * rowHeight()}px`;
  return drawRows();
}

function drawEmpty() {
  const searching = rows.query !== "";
  const text = searching ? `Nothing holds “${rows.query}”.` : EMPTY[rows.filter];
  const add = h("button", { class: "main", on: { click: () => addDocuments() } }, "Add documents");
  byId("rows-empty").replaceChildren(
    h("p", {}, text),
    ...(rows.filter === "all" && !searching ? [add] : []),
  );
}

function drawRows() {
  const [first, last] = visible();
  const made = [];
  for (let index = first; index <= last; index += 1) {
    const row = rows.at(index);
    if (row) made.push(option(row, index));
  }
  const now = JSON.stringify([
    first,
    last,
    active,
    opened()?.id,
    made.length,
    made.map((m) => m.textContent),
  ]);
  if (now === drawn) return;
  drawn = now;
  sheet.replaceChildren(...made);
  const current = sheet.querySelector(".active");
  if (current) box.setAttribute("aria-activedescendant", current.id);
  else box.removeAttribute("aria-activedescendant");
}

function option(row, index) {
  const chosen = opened()?.id === row.id;
  const made = h(
    "div",
    {
      id: `document-${row.id}`,
      class: `row${index === active ? " active" : ""}`,
      role: "option",
      "aria-selected": String(chosen),
      "aria-setsize": rows.total,
      "aria-posinset": index + 1,
      data: { index, document: row.id },
    },
    h("span", { class: "name", dir: "auto" }, row.name),
    h("span", { class: "opening", dir: "auto" }, row.opening),
    h("span", { class: "badges" }, badges(row).join(" · ")),
  );
  made.style.transform = `translateY(${index * rowHeight()}px)`;
  return made;
}

const badges = (row) => [
  `${row.labelled}/${row.sentences} labelled`,
  ...(row.suggested ? [`${row.suggested} suggested`] : []),
  ...(row.disagreeing ? [`${row.disagreeing} disagreeing`] : []),
  ...(row.held_out ? ["held out"] : []),
];

function activate(index) {
  active = Math.max(0, Math.min(rows.total - 1, index));
  const [top, height] = [active * rowHeight(), rowHeight()];
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + height > box.scrollTop + box.clientHeight)
    box.scrollTop = top + height - box.clientHeight;
  drawRows();
}

async function openRow(index, focus) {
  activate(index);
  const row = rows.at(active);
  if (!row) return;
  await openDocument(row.id);
  if (focus) byId("text").focus();
}

/** A click means the document under it, even where the list is just about to change. */
async function openClicked(event) {
  const row = event.target.closest(".row");
  if (!row) return;
  activate(Number(row.dataset.index));
  await openDocument(Number(row.dataset.document));
}

/** Opens the document before or behind the open one. */
export const openNeighbour = told(async (by) => {
  const here = opened() ? rows.indexOf(opened().id) : -1;
  const next = (here < 0 ? active : here) + by;
  if (next >= 0 && next < rows.total) await openRow(next, true);
});

function search() {
  const filter = byId("filters").querySelector("input:checked").value;
  active = 0;
  box.scrollTop = 0;
  const query = byId("search").value.trim();
  highlight(query);
  rows.search(query, filter).catch((error) => note(error.message, "bad"));
}

/** Asks for the rows in sight anew. */
function again() {
  const [first, last] = rows.total === null ? [0, 0] : visible();
  rows.refresh(first, Math.max(first, last)).catch(() => {});
}

/** Counts along while labels change, without asking and without moving rows about. */
function follow({ before, after }) {
  const row = rows.find(after.document);
  if (!row || !before) return;
  row.labelled += isDone(after.state) - isDone(before.state);
  row.suggested += after.suggested - before.suggested;
  row.disagreeing += after.disagrees - before.disagrees;
  drawRows();
}

const KEYS = {
  ArrowDown: () => activate(active + 1),
  ArrowUp: () => activate(active - 1),
  PageDown: () => activate(active + Math.floor(box.clientHeight / rowHeight())),
  PageUp: () => activate(active - Math.floor(box.clientHeight / rowHeight())),
  Home: () => activate(0),
  End: () => activate(rows.total - 1),
  Enter: () => told(() => openRow(active, true))(),
  " ": () => told(() => openRow(active, false))(),
};

box.addEventListener("keydown", (event) => {
  if (!Object.hasOwn(KEYS, event.key) || event.altKey || event.ctrlKey) return;
  event.preventDefault();
  KEYS[event.key]();
});
box.addEventListener("click", told(openClicked));
let frame = 0;
box.addEventListener("scroll", () => {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(drawRows);
});
new ResizeObserver(() => rows.total && draw()).observe(box);

let typing = 0;
byId("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(search, TYPING);
});
byId("filters").append(
  ...Object.entries(FILTERS).map(([value, text]) =>
    h(
      "label",
      { data: { filter: value } },
      h("input", { type: "radio", name: "filter", value, checked: value === "all" }),
      h("span", {}, text),
    ),
  ),
);
byId("filters").addEventListener("change", search);

let sweeping = 0;
on("swept", () => {
  clearTimeout(sweeping);
  sweeping = setTimeout(again, 400);
});
on("documents", again);
on("status", () => {
  byId("filters").querySelector("[data-filter=unread]").hidden = !project.status.alone;
});
on("model", again);
on("counted", follow);
on("opened", () => drawRows());
on("connection", (up) => up && again());
byId("add").addEventListener("click", () => addDocuments());

export const listDocuments = search;
