"""A tagged document as text for a terminal: mentions in colour, each followed by its label."""

from collections.abc import Sequence

from rich.text import Text

from hardner.formats.html import COLOURS, visible
from hardner.types import Document, Entity


def marked(document: Document, labels: Sequence[str]) -> Text:
    """The text with its mentions marked; ``labels`` gives each its colour, by its place."""
    hues = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}
    ends = sorted(document.entities, key=lambda e: (e.end, -e.start, e.label))
    shown = Text(visible(document.text))
    for entity in document.entities:
        shown.stylize(f"underline {hues[entity.label]}", entity.start, entity.end)
    made, before = Text(), 0
    for entity in ends:
        made.append_text(shown[before : entity.end] if entity.end > before else Text())
        made.append(_tag(entity), style=f"dim {hues[entity.label]}")
        before = entity.end
    return made.append_text(shown[before:]) if before < len(shown) else made


def _tag(entity: Entity) -> str:
    score = "" if entity.score == 1.0 else f" {entity.score:.2f}"
    return f"[{visible(entity.label)}{score}]"
