"""A page to look at: mentions highlighted in place, in one file that needs nothing else.

It is written only. Each label has a colour that the colour-blind can tell from the others, and its
name stands behind each mention. Mentions that overlap have a line each, one below the other.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from hardner.files import PathLike, atomic_write
from hardner.formats.format import HOLDABLE, Format, Report
from hardner.types import Document, Entity

HIGHLIGHT_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#b3a100",
    "#808080",
)
"""Okabe and Ito's, the yellow darker so that it is seen on white; used again with other lines."""
LINES = ("solid", "dashed", "dotted")
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
    """The text, character for character, with a symbol for each control character."""
    return text.translate(_CONTROLS)


def _write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    """One page; labels are coloured in the order in which they are met."""
    labels: dict[str, int] = {}
    counts: dict[str, int] = {}
    with atomic_write(path) as file:
        file.write(_HEAD.format(styles="\n".join(_styles())))
        for document in documents:
            for entity in document.entities:
                labels.setdefault(entity.label, len(labels))
                counts[entity.label] = counts.get(entity.label, 0) + 1
            file.write(f'<h2>{_safe(document.id)}</h2>\n<p dir="auto">')
            file.writelines(_marked(document, labels))
            file.write("</p>\n")
        file.write("<footer>")
        for label, count in counts.items():
            file.write(f'<span><small class="{_class(labels[label])}">{_safe(label)}</small>')
            file.write(f" {count:,}</span>\n")
        file.write("</footer>\n</body>\n</html>\n")


def _styles() -> Iterator[str]:
    for index in range(len(HIGHLIGHT_COLOURS) * len(LINES)):
        hue, line = (
            HIGHLIGHT_COLOURS[index % len(HIGHLIGHT_COLOURS)],
            LINES[index // len(HIGHLIGHT_COLOURS)],
        )
        yield f".c{index} {{ --hue: {hue}; --line: {line}; }}"


def _class(index: int) -> str:
    return f"c{index % (len(HIGHLIGHT_COLOURS) * len(LINES))}"


def _safe(text: str) -> str:
    return escape(visible(text)).replace("\r", "&#13;")  # else a browser reads it as a new line


def _marked(document: Document, labels: dict[str, int]) -> Iterator[str]:
    """The text in runs between the ends of mentions, each inside the mentions it belongs to."""
    placed = _lanes(document.entities)
    edges: dict[int, list[tuple[bool, int, int, int]]] = {}
    for number, (entity, lane) in enumerate(placed):
        last = max(end for _, end in entity.ranges)
        for start, end in entity.ranges:
            edges.setdefault(start, []).append((True, lane, number, last))
            edges.setdefault(end, []).append((False, lane, number, last))
    within: dict[int, int] = {}
    before = 0
    for place in sorted(edges):
        yield _run(document.text[before:place], within, placed, labels)
        before = place
        for opens, lane, number, last in sorted(edges[place]):
            if opens:
                within[lane] = number
            elif within.get(lane) == number:
                del within[lane]
            if not opens and place == last:
                label = placed[number][0].label
                yield f'<small class="{_class(labels[label])}">{_safe(label)}</small>'
    yield _run(document.text[before:], within, placed, labels)


def _run(
    text: str,
    within: dict[int, int],
    placed: Sequence[tuple[Entity, int]],
    labels: dict[str, int],
) -> str:
    made = _safe(text)
    if not text:
        return ""
    for lane in sorted(within):
        entity = placed[within[lane]][0]
        kind, title = _class(labels[entity.label]), _safe(_title(entity))
        made = f'<span class="m {kind}" style="--lane:{lane}" title="{title}">{made}</span>'
    return made


def _title(entity: Entity) -> str:
    score = f" {entity.score:.2f}" if entity.score != 1.0 else ""
    concept = f" ({entity.identifier})" if entity.identifier else ""
    return f"{entity.label}{score}: {entity.text}{concept}"


def _lanes(entities: Iterable[Entity]) -> list[tuple[Entity, int]]:
    """Each mention with the first line below the text that is free where it stands."""
    free: list[int] = []
    placed = []
    for entity in sorted(entities, key=lambda e: (e.start, -e.end, e.label)):
        lane = next((i for i, end in enumerate(free) if end <= entity.start), len(free))
        free[lane : lane + 1] = [entity.end]
        placed.append((entity, lane))
    return placed


HTML = Format(
    "html",
    (".html",),
    "a page that shows mentions in place, for people",
    write=_write,
    holds=frozenset(HOLDABLE),
)
