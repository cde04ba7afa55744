"""Where a head comes from: what it was adapted to, when, how, and how good it should be."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import hardner
from hardner.config import Share, Whole
from hardner.types import Sentence


@dataclass(frozen=True)
class Origin:
    """What a model folder says of a head that was adapted to labelled sentences."""

    labels: tuple[str, ...] = ()
    """As they were named in the sentences."""
    data: str = ""
    """SHA-256 of the labelled sentences, whatever their order was."""
    sentences: Whole = 0
    """Those that were learnt from."""
    bearing: Whole = 0
    """Those of them with a mention."""
    mentions: Whole = 0
    unlabelled: Whole = 0
    began: str = ""
    """The head and the encoder that learning began with."""
    beside: tuple[str, ...] = ()
    """The labels that were learnt in the same fit."""
    seed: int = 0
    recipe: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    """Of the day, in UTC."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of hardner and torch."""
    expected: tuple[Share, ...] = ()
    """F1 by cross-validation, and its interval; empty where nothing was held out."""
    notes: tuple[str, ...] = ()


def data_hash(sentences: Iterable[Sentence]) -> str:
    """SHA-256 of labelled sentences; neither their order nor their names matter."""
    lines = sorted(json.dumps([s.tokens, sorted(s.spans)], ensure_ascii=True) for s in sentences)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Of what computes."""
    return {"hardner": hardner.__version__, "torch": version("torch")}


def today() -> str:
    """The day in UTC, or that of ``SOURCE_DATE_EPOCH``, for folders that are the same anew."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(given), UTC) if given.isdecimal() else datetime.now(UTC)
    return now.date().isoformat()
