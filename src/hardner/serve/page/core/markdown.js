/**
 * A little Markdown as elements: headings, paragraphs, lists, quotes, code, emphasis, links.
 *
 * Text becomes text nodes, so that HTML in it is shown and never run.
 */
import { h } from "./dom.js";

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)/g;

function inline(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, code, strong, em, name, address] = match;
    parts.push(text.slice(at, match.index));
    if (code) parts.push(h("code", {}, code));
    else if (strong) parts.push(h("strong", {}, ...inline(strong)));
    else if (em) parts.push(h("em", {}, ...inline(em)));
    else parts.push(h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, name));
    at = match.index + whole.length;
  }
  return [...parts, text.slice(at)].filter((part) => part !== "");
}

const ITEM = /^\s*(?:[-*+]|\d+[.)])\s+/;
const [HEADING, LIST, QUOTE, TEXT] = [/^#/, ITEM, /^>/, /^/];

const kind = (line) => [HEADING, LIST, QUOTE, TEXT].find((start) => start.test(line));

const joined = (lines, lead) => lines.map((line) => line.replace(lead, "").trim()).join(" ");

function block(lines) {
  switch (kind(lines[0])) {
    case HEADING: {
      const [, marks, text] = /^(#+)\s*(.*)$/.exec(lines[0]);
      return h(`h${Math.min(6, marks.length + 3)}`, {}, ...inline(text));
    }
    case LIST: {
      const tag = /^\s*\d/.test(lines[0]) ? "ol" : "ul";
      return h(tag, {}, ...lines.map((line) => h("li", {}, ...inline(line.replace(ITEM, "")))));
    }
    case QUOTE:
      return h("blockquote", {}, ...inline(joined(lines, /^>/)));
    default:
      return h("p", {}, ...inline(joined(lines, "")));
  }
}

/** Lines that belong together: plain ones go on with what is above, unless that is a heading. */
function blocks(text) {
  const found = [];
  let open = false;
  for (const line of text.split("\n")) {
    const last = open ? found.at(-1) : null;
    const above = last && kind(last[0]);
    if (!line.trim()) open = false;
    else if (above === LIST && kind(line) === TEXT) last.push(`${last.pop()} ${line.trim()}`);
    else if (last && above !== HEADING && [above, TEXT].includes(kind(line))) last.push(line);
    else found.push([line]);
    open = line.trim() !== "";
  }
  return found;
}

/** The elements of a text, one after the other. */
export const markdown = (text) =>
  text
    .split(/^```.*$/m)
    .flatMap((part, index) =>
      index % 2
        ? [h("pre", {}, h("code", {}, part.replace(/^\n|\n$/g, "")))]
        : blocks(part).map(block),
    );
