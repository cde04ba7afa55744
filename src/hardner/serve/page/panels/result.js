/** What a finished run says: expected F1, what changed, and the mistakes on the held-out part. */
import { get } from "../core/api.js";
import { byId, count, figure, h } from "../core/dom.js";
import { told } from "../core/live.js";
import { openDocument } from "../text/reader.js";

export const result = (run) => [
  expected(run.result),
  ...types(run.result.types),
  ...run.result.notes.map((note) => h("p", {}, note)),
  ...changes(run.result.changes),
  ...heldOut(run.result.held_out, run.result.held_out_before),
];

/** `text_f1` is not there in runs of earlier versions. */
const expected = ({ f1, low, high, gain, text_f1, text_low, text_high }) =>
  f1 === null
    ? h("p", {}, "Too few labels to estimate F1. A few more labelled sentences make it possible.")
    : h(
        "p",
        { class: "expected" },
        "Expected F1 ",
        h("strong", {}, figure(f1)),
        low === null
          ? "."
          : ` (${figure(low)} to ${figure(high)}) on sentences like the labelled ones.`,
        typeof text_f1 === "number" &&
          ` On your text as it runs: ${figure(text_f1)} (${figure(text_low)} to ${figure(text_high)}).`,
        gain !== null &&
          h("span", { class: "quiet" }, ` Some 10 more sentences would add about ${figure(gain)}.`),
      );

/** Each type alone, where there are several. */
const types = (all) =>
  all.length < 2
    ? []
    : [
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["Type", "Mentions", "F1", "Interval"].map((t) => h("th", { scope: "col" }, t)),
            ),
          ),
          h(
            "tbody",
            {},
            all.map((t) =>
              h(
                "tr",
                {},
                [
                  t.label + (t.kept ? " (kept as it is)" : t.learnt === false ? " (not learnt)" : ""),
                  String(t.mentions),
                  figure(t.f1),
                  `${figure(t.low)}–${figure(t.high)}`,
                ].map((cell) => h("td", {}, cell)),
              ),
            ),
          ),
        ),
      ];

const go = (sentence) =>
  told(async () => {
    const found = await get(`/api/sentences/${sentence}`);
    await openDocument(found.document, found);
    byId("text").focus();
  });

function changes(found) {
  if (!found) return [];
  const { looked, kept, gained, lost, gained_total: more, lost_total: fewer } = found;
  const sum = `On ${count(looked, "sentence")} without labels: ${count(kept, "mention")} as before, ${more} gained, ${fewer} lost.`;
  return [
    h("h3", {}, "What changed"),
    h("p", {}, sum),
    ...[
      [`Gained: ${more}`, gained, more, "+"],
      [`Lost: ${fewer}`, lost, fewer, "−"],
    ]
      .filter(([, rows]) => rows.length)
      .map(([title, rows, total, sign]) =>
        h(
          "details",
          {},
          h("summary", {}, title, total > rows.length && `, the surest ${rows.length}`),
          h(
            "ul",
            { class: "plain" },
            rows.map((row) => change(row, sign)),
          ),
        ),
      ),
  ];
}

const change = (row, sign) =>
  h(
    "li",
    {},
    h("button", { class: "link", on: { click: go(row.sentence) } }, `${sign} ${row.text}`),
    ` ${row.label} ${figure(row.score)}`,
    h("span", { class: "quiet context" }, `${row.before} [${row.text}] ${row.after}`.trim()),
  );

function heldOut(found, before = null) {
  if (!found) return [];
  const { sentences, precision, recall, f1, mistakes } = found;
  return [
    h("h3", {}, "On the held-out part"),
    h(
      "p",
      {},
      `${count(sentences, "sentence")}: precision ${figure(precision)}, recall ${figure(recall)}, F1 ${figure(f1)}.`,
    ),
    before !== null &&
      h(
        "p",
        { class: f1 < before ? "wrong" : "quiet" },
        f1 < before
          ? `The model before scores ${figure(before)} there, so it stays in use. Models lists both.`
          : `The model before: F1 ${figure(before)}.`,
      ),
    mistakes.length > 0 && h("ul", { class: "plain" }, mistakes.map(mistake)),
  ];
}

const mistake = (row) =>
  h(
    "li",
    {},
    h("button", { class: "link", on: { click: go(row.sentence) } }, row.kind),
    ` ${[row.right.join(" ") || "nothing", row.found.join(" ") || "nothing"].join(" → ")}${row.count > 1 ? ` ×${row.count}` : ""}`,
    h("span", { class: "quiet context" }, row.context),
  );
