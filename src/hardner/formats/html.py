"""A page to look at: mentions highlighted in place, in one file that needs nothing else.

Written only. Each label has a colour that the colour-blind can tell from the others, then the same
colours with other lines; its name stands behind each mention. Mentions that overlap are underlined
one below the other.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from html import escape
from itertools import product

from hardner.files import PathLike, atomic_write
from hardner.formats.format import HOLDABLE, Format, Report
from hardner.types import Document, Entity

HIGHLIGHT_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#e69f00", "#56b4e9", "#b3a100", "#808080"),
)
"""Okabe and Ito's, with a darker yellow that is seen on white."""
LINES = ("solid", "dashed", "dotted")
_STYLES = tuple(product(LINES, HIGHLIGHT_COLOURS))
_MOST_LANES = 8
"""Underlines one below the other; a mention that needs more of them has its label only."""
_LONGEST_TITLE = 200
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"} | {
    127: 0x2421,
    **dict.fromkeys(range(128, 160), 65533),
}

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>hardner</title>
<style>
:root {{ color-scheme: light dark; --page: #fff; --ink: #1a1a1a; --faint: #666; --tint: 18%; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --page: #16181c; --ink: #e8e8e8; --faint: #a0a0a0; --tint: 38%; }}
}}
body {{ background: var(--page); color: var(--ink); font: 1rem/2.4 system-ui, sans-serif;
  max-width: 48rem; margin: 0 auto; padding: 1rem; }}
h2 {{ font-size: .9rem; line-height: 1.4; color: var(--faint); margin: 2rem 0 .5rem; }}
p {{ white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }}
footer {{ position: sticky; bottom: 0; background: var(--page); border-top: 1px solid var(--faint);
  line-height: 1.8; padding: .4rem 0; }}
footer span {{ margin-right: 1rem; }}
.m {{ border-bottom: 3px var(--line) var(--hue); padding-bottom: calc(var(--lane) * 5px); }}
.m {{ background: color-mix(in srgb, var(--hue) var(--tint), transparent); }}
.m .m {{ background: none; }}
small {{ font-size: .65rem; color: var(--ink); border-left: 3px var(--line) var(--hue);
  margin: 0 .2em; padding-left: .25em; user-select: none; }}
{styles}
</style>
</head>
<body>
"""


def visible(text: str) -> str:
    """The text with a visible symbol for each control character; offsets stay the same."""
    return text.translate(_CONTROLS)


def _write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    """One page; labels get colours in the order in which they first occur."""
    classes: dict[str, str] = {}
    counts: Counter[str] = Counter()
    styles = (f".c{i} {{ --hue: {h}; --line: {line}; }}" for i, (line, h) in enumerate(_STYLES))
    with atomic_write(path) as file:
        file.write(_HEAD.format(styles="\n".join(styles)))
        for document in documents:
            for entity in document.entities:
                classes.setdefault(entity.label, f"c{len(classes) % len(_STYLES)}")
                counts[entity.label] += 1
            file.write(f'<h2>{_safe(document.id)}</h2>\n<p dir="auto">')
            file.writelines(_marked(document, classes))
            file.write("</p>\n")
        file.write("<footer>")
        for label, count in counts.items():
            file.write(f"<span>{_tag(label, classes)} {count:,}</span>\n")
        file.write("</footer>\n</body>\n</html>\n")


def _safe(text: str) -> str:
    return escape(visible(text)).replace("\r", "&#13;")  # else a browser reads it as a new line


def _tag(label: str, classes: dict[str, str]) -> str:
    return f'<small class="{classes[label]}">{_safe(label)}</small>'


def _marked(document: Document, classes: dict[str, str]) -> Iterator[str]:
    """The text in runs between the edges of mentions, each inside the mentions it belongs to."""
    placed = _lanes(document.entities)
    edges: defaultdict[int, list[tuple[bool, int, int]]] = defaultdict(list)
    for number, (entity, lane) in enumerate(placed):
        for start, end in entity.ranges:
            edges[start].append((True, lane, number))
            edges[end].append((False, lane, number))
    within: dict[int, Entity] = {}
    before = 0
    for place in sorted(edges):
        yield _run(document.text[before:place], within, classes)
        before = place
        for opens, lane, number in sorted(edges[place]):  # what ends here before what starts
            entity, _ = placed[number]
            if opens and lane < _MOST_LANES:
                within[lane] = entity
            elif within.get(lane) is entity:
                del within[lane]
            if not opens and place == entity.end:
                yield _tag(entity.label, classes)
    yield _run(document.text[before:], within, classes)


def _run(text: str, within: dict[int, Entity], classes: dict[str, str]) -> str:
    made = _safe(text)
    for lane in sorted(within) if text else ():
        entity = within[lane]
        kind, title = classes[entity.label], _safe(_title(entity))
        made = f'<span class="m {kind}" style="--lane:{lane}" title="{title}">{made}</span>'
    return made


def _title(entity: Entity) -> str:
    score = f" {entity.score:.2f}" if entity.score != 1.0 else ""
    concept = f" ({entity.identifier})" if entity.identifier else ""
    title = f"{entity.label}{score}: {entity.text}{concept}"
    return title if len(title) <= _LONGEST_TITLE else title[:_LONGEST_TITLE] + "…"


def _lanes(entities: Iterable[Entity]) -> list[tuple[Entity, int]]:
    """Each mention with the first underline that no mention before it still needs.

    The last lane, which is not drawn, is for all that find none.
    """
    free = [0] * _MOST_LANES
    placed = []
    for entity in sorted(entities, key=lambda e: (e.start, -e.end, e.label)):
        lane = next((i for i, end in enumerate(free) if end <= entity.start), _MOST_LANES)
        if lane < _MOST_LANES:
            free[lane] = entity.end
        placed.append((entity, lane))
    return placed


HTML = Format(
    "html",
    (".html",),
    "a page that shows mentions in place, for people",
    write=_write,
    holds=frozenset(HOLDABLE) - {"states"},
)
