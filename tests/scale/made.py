"""A small random model, many short documents, and a command that tags them."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import tiny
import torch

from hardner.model.describe import save_model
from hardner.model.tagger import Tagger
from hardner.scale import Summary, TagJob, tag_files

QUICK = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
SCRIPT = """
import json, sys
from hardner.scale import TagJob, tag_files
given = json.loads(sys.argv[1])
tag_files(given.pop("given"), given.pop("out"), TagJob(given.pop("model")), **given)
"""


def model(folder: Path) -> Path:
    tagger = Tagger(tiny.encoder("bigru"), tiny.tag_sets()[:1], "crf")
    save_model(folder, tagger, tiny.params(tagger, dtype=torch.float32))
    return folder


def texts(count: int) -> list[str]:
    words = [word for word in tiny.vocabulary() if word.isalpha()]
    rng = random.Random(1)
    return [" ".join(rng.choices(words, k=rng.randint(2, 5))) + "." for _ in range(count)]


def lines(path: Path, found: list[str], first: int = 0) -> Path:
    records = (json.dumps({"id": f"d{n}", "text": t}) for n, t in enumerate(found, first))
    path.write_text("".join(f"{record}\n" for record in records))
    return path


def tagging(**arguments: object) -> subprocess.Popen[str]:
    """`hardner.scale.tag_files` in a process of its own."""
    command = [sys.executable, "-c", SCRIPT, json.dumps(arguments, default=str)]
    return subprocess.Popen(command, env=QUICK, stderr=subprocess.PIPE, text=True)


def tag(
    given: list[object],
    out: Path,
    model: Path,
    labels: list[str] | None = None,
    min_score: float = 0.0,
    **options: object,
) -> Summary:
    """`hardner.scale.tag_files` in this process."""
    job = TagJob(str(model), labels=labels, min_score=min_score)
    return tag_files(given, out, job, **options)  # type: ignore[arg-type]


def receipts(out: Path) -> list[dict[str, object]]:
    found = (path.read_text() for path in sorted((out / "receipts").glob("part-*.json")))
    return [json.loads(text) for text in found]


def content(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.glob("part-*"))}


def ids(out: Path) -> Counter[str]:
    """How often each document is there."""
    every = (line for shard in content(out).values() for line in shard.splitlines())
    return Counter(json.loads(line)["id"] for line in every)
