"""A page to look at: mentions highlighted in place, in one file that needs nothing else.

Written only; `marked_html` is a piece of such a page, for a notebook. Each label has a colour that
the colour-blind can tell from the others, then the same colours with other lines; its name stands
behind each mention. Mentions that overlap are underlined one below the other.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from html import escape
from itertools import product
from typing import NamedTuple

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


class _Look(NamedTuple):
    """How a label looks: the attributes of its name, and those of a mention in a lane."""

    name: str
    mention: Callable[[int], str]


def _class_look(number: int) -> _Look:
    """A look by the styles of the page."""
    kind = f"c{number % len(_STYLES)}"
    return _Look(f'class="{kind}"', lambda lane: f'class="m {kind}" style="--lane:{lane}"')


def _inline_look(number: int) -> _Look:
    """A look by itself: notebooks throw away the styles of a page that they do not trust."""
    line, hue = _STYLES[number % len(_STYLES)]

    def mention(lane: int) -> str:
        tint = "" if lane else f";background:{hue}2e"
        return f'style="border-bottom:3px {line} {hue};padding-bottom:{5 * lane}px{tint}"'

    name = f"font-size:.7em;border-left:3px {line} {hue};margin:0 .2em;padding-left:.25em"
    return _Look(f'style="{name}"', mention)


class _Looks(dict[str, _Look]):
    """Looks by label, each made when its label is first seen."""

    def __init__(self, make: Callable[[int], _Look]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, label: str) -> _Look:
        look = self[label] = self._make(len(self))
        return look


def marked_html(document: Document) -> str:
    """The text of a document with its mentions in colour, as a piece of HTML that stands alone."""
    looks = _Looks(_inline_look)
    style = "white-space:pre-wrap;overflow-wrap:anywhere;line-height:2.4"
    return f'<div dir="auto" style="{style}">{"".join(_marked(document, looks))}</div>'


def _write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    """One page; labels get colours in the order in which they first occur."""
    looks = _Looks(_class_look)
    counts: Counter[str] = Counter()
    styles = (f".c{i} {{ --hue: {h}; --line: {line}; }}" for i, (line, h) in enumerate(_STYLES))
    with atomic_write(path) as file:
        file.write(_HEAD.format(styles="\n".join(styles)))
        for document in documents:
            for entity in document.entities:
                counts[entity.label] += 1
            file.write(f'<h2>{_safe(document.id)}</h2>\n<p dir="auto">')
            file.writelines(_marked(document, looks))
            file.write("</p>\n")
        file.write("<footer>")
        for label, count in counts.items():
            file.write(f"<span>{_tag(label, looks)} {count:,}</span>\n")
        file.write("</footer>\n</body>\n</html>\n")


def _safe(text: str) -> str:
    return escape(visible(text)).replace("\r", "&#13;")  # else a browser reads it as a new line


def _tag(label: str, looks: _Looks) -> str:
    return f"<small {looks[label].name}>{_safe(label)}</small>"


def _marked(document: Document, looks: _Looks) -> Iterator[str]:
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
        yield _run(document.text[before:place], within, looks)
        before = place
        for opens, lane, number in sorted(edges[place]):  # what ends here before what starts
            entity, _ = placed[number]
            if opens and lane < _MOST_LANES:
                within[lane] = entity
            elif within.get(lane) is entity:
                del within[lane]
            if not opens and place == entity.end:
                yield _tag(entity.label, looks)
    yield _run(document.text[before:], within, looks)


def _run(text: str, within: dict[int, Entity], looks: _Looks) -> str:
    made = _safe(text)
    for lane in sorted(within) if text else ():
        entity = within[lane]
        attributes, title = looks[entity.label].mention(lane), _safe(_title(entity))
        made = f'<span {attributes} title="{title}">{made}</span>'
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
