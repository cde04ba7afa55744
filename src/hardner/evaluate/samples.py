"""The samples of labelled sentences: the same for every system, and written down once."""

import json
from collections.abc import Sequence
from pathlib import Path

from hardner.episodes import few_shot
from hardner.errors import FileError
from hardner.evaluate.protocols import Size
from hardner.files import atomic_write, read_json
from hardner.types import Corpus, Sentence


def sample_pool(corpus: Corpus, splits: Sequence[str]) -> tuple[Sentence, ...]:
    """The sentences that are drawn from."""
    return tuple(sentence for split in splits for sentence in getattr(corpus, split))


def draw_sample(
    corpus: str, sentences: Sequence[Sentence], size: Size, sample: int, natural: bool = False
) -> tuple[int, ...]:
    """The rows of the sentences in a sample.

    Unless it is ``natural``, a number of sentences is drawn from those with an entity; a share
    always is natural.
    """
    if isinstance(size, int):
        return few_shot(corpus, sentences, size, sample, natural=natural)
    if size >= 1:
        return tuple(range(len(sentences)))
    shots = max(1, round(size * len(sentences)))
    return few_shot(corpus, sentences, shots, sample, natural=True)


class SampleBook:
    """The ids of sampled sentences, once for each corpus, number of shots and sample."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._held: dict[str, list[str]] = read_json(self.path) if self.path.is_file() else {}

    def add(
        self, corpus: str, shots: int, drawn: dict[int, list[str]], natural: bool = False
    ) -> None:
        """Write down the ids of some samples; other ids than are there already are an error."""
        suffix = "/natural" if natural else ""
        new = {f"{corpus}/{shots}/{sample}{suffix}": ids for sample, ids in drawn.items()}
        for key, ids in new.items():
            if self._held.get(key, ids) != ids:
                message = f"other sentences than now are sample {key}: has {corpus} changed?"
                raise FileError(self.path, message)
        if new.keys() <= self._held.keys():
            return
        self._held |= new
        lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(self._held.items())]
        with atomic_write(self.path) as file:
            file.write("{\n" + ",\n".join(lines) + "\n}\n")
