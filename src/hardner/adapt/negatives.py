"""Sentences without a mention of anything, to learn beside a few that are full of mentions.

Sentences that a user labels were chosen because they hold mentions; most of a text does not. The
background, written for this purpose, keeps a tagger from seeing mentions everywhere.
"""

import json
from functools import lru_cache
from importlib.resources import files

from hardner.text import tokenize
from hardner.types import Sentence

_FILE = "assets/background.jsonl"


@lru_cache(maxsize=1)
def negative_sentences() -> tuple[Sentence, ...]:
    """Sentences whose names of any kind are left out, so that no word of them is in a mention."""
    lines = files("hardner").joinpath(_FILE).read_text("utf-8").splitlines()
    bare = (_without_names(json.loads(line)) for line in lines)
    return tuple(sentence for sentence in bare if sentence.tokens)


def _without_names(document: dict[str, object]) -> Sentence:
    text, names = str(document["text"]), document["entities"]
    assert isinstance(names, list)
    spans = [(int(name["start"]), int(name["end"])) for name in names]
    tokens = [
        text[start:end]
        for start, end in tokenize(text)
        if not any(left < end and start < right for left, right in spans)
    ]
    return Sentence(tuple(tokens), id=str(document["id"]))
