"""Types that are known by their description alone, and how sure the tagger is of them in a text."""

from collections.abc import Collection, Iterable, Iterator

from hardner.tag.heads import WITHOUT_EXAMPLE, origin_of
from hardner.tag.predictor import Predictor
from hardner.types import Document

_POOR = 0.5
"""Mean probability of what is found below which more of it is expected to be wrong than right."""


class DescribedTypes:
    """Counts what is found of types without an example, while documents pass by."""

    def __init__(self, predictor: Predictor, labels: Collection[str] | None = None) -> None:
        """Args: ``labels`` that are asked for, if not all."""
        asked = predictor.labels if labels is None else labels
        origins = ((label, origin_of(predictor, label)) for label in asked)
        # How many were found, and the sum of their scores.
        self._found: dict[str, tuple[int, float]] = {
            label: (0, 0.0)
            for label, origin in origins
            if origin and origin.began == WITHOUT_EXAMPLE
        }
        self._seen = False

    def watch(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The documents as they are."""
        for document in documents:
            self._seen = True
            for entity in document.entities:
                if entity.label in self._found:
                    count, total = self._found[entity.label]
                    self._found[entity.label] = count + 1, total + entity.score
            yield document

    def poor(self) -> Iterator[str]:
        """A line for each type whose description was of little use."""
        for label, (count, total) in self._found.items() if self._seen else ():
            mean = total / max(count, 1)
            if not count:
                said = "its description finds nothing"
            elif mean < _POOR:
                said = f"of what its description finds, the scores expect {mean:.0%} to be right"
            else:
                continue
            yield f"{label}: {said}; describe it otherwise, or label some sentences (hardner adapt)"
