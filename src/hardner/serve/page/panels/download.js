/** Links to files, which tell why where there is no file. */
import { file } from "../core/api.js";
import { h } from "../core/dom.js";
import { note, told } from "../core/live.js";

const KEPT = 60_000;

const fetched = told(async (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const { content, name, lost } = await file(event.currentTarget.href);
  const address = URL.createObjectURL(content);
  h("a", { href: address, download: name }).click();
  if (lost) note(`Not in ${name}: ${lost}. The jsonl format holds all.`, "bad");
  setTimeout(() => URL.revokeObjectURL(address), KEPT);
});

export const download = (text, properties) =>
  h("a", { download: true, on: { click: fetched }, ...properties }, text);
