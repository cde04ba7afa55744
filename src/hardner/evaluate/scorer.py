"""Score models on test sentences, by the predictor that users run."""

from collections.abc import Sequence

from hardner.evaluate.score import ErrorCounts, count_errors
from hardner.tag.predictor import EncodedSentences, Predictor
from hardner.types import Sentence, Span


class Scorer:
    """Test sentences, encoded once for all models that read them alike."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self.sentences = sentences
        self._gold = [sentence.spans for sentence in sentences]
        self._encoded: EncodedSentences | None = None

    def predictions(
        self, predictor: Predictor, domain: str | None = None
    ) -> list[tuple[Span, ...]]:
        """The spans that a model finds in each sentence, by all its decoders or a domain's."""
        if self._encoded is None:
            self._encoded = predictor.encode(self.sentences)
        found = predictor.spans(self._encoded, domain=domain)
        return [tuple(span for span, _ in spans) for spans in found]

    def breakdown(self, predictions: Sequence[Sequence[Span]]) -> dict[str, ErrorCounts]:
        """The score of each label, with errors by kind."""
        return count_errors(self._gold, predictions)

    def __call__(self, predictor: Predictor, domain: str | None = None) -> dict[str, ErrorCounts]:
        """Tag the sentences and score what is found."""
        return self.breakdown(self.predictions(predictor, domain))
