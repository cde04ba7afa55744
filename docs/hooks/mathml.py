"""Formulas as MathML, which browsers draw by themselves: no script, no font, no request."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)


def on_page_content(content: str, **_: Any) -> str:
    """What the markdown extension has marked as a formula, drawn."""
    return FORMULA.sub(_drawn, content)


def _drawn(found: re.Match[str]) -> str:
    tag, opening, formula = found.groups()
    block = opening == "["
    drawn = convert(html.unescape(formula).strip(), display="block" if block else "inline")
    return f'<{tag} class="formula">{drawn}</{tag}>'
