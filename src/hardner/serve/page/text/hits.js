/** The hits of a search, highlighted: words that begin as a word that is searched for. */
import { emit } from "../core/bus.js";

const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

let wanted = [];

export const searchedFor = () => wanted.join(" ");

export function highlight(query) {
  wanted = (query.match(/[\p{L}\p{N}_]+/gu) ?? []).map(plain);
  emit("searched");
}

export function isHit(word) {
  if (!wanted.length) return false;
  const own = plain(word);
  return wanted.some((part) => own.startsWith(part));
}
