"""What a tagger finds, as notebooks and data frames want it."""

from collections.abc import Iterable, Sequence
from typing import Any

from hardner.errors import HardnerError
from hardner.formats.csv import MENTION_COLUMNS, mention_record
from hardner.formats.html import marked_html
from hardner.types import Document, Entity


class FoundEntities(list[Entity]):
    """The entities of a text: a list in all respects, which a notebook shows within the text."""

    def __init__(self, entities: Iterable[Entity] = (), text: str = "") -> None:
        super().__init__(entities)
        self.text = text
        """That they were found in."""

    def _repr_html_(self) -> str:
        return marked_html(Document("", self.text, tuple(self)))


def records_of(document: Document, number: int) -> list[dict[str, Any]]:
    """A record for each entity; a document without an id is named by its number."""
    return [mention_record(document.id or number, entity) for entity in document.entities]


def data_frame(records: Sequence[dict[str, Any]], columns: Sequence[str] = MENTION_COLUMNS) -> Any:
    """Records as a pandas DataFrame, with its columns also where there is none."""
    try:
        import pandas
    except ImportError:
        raise HardnerError("pandas is not installed; run: pip install pandas") from None
    return pandas.DataFrame.from_records(records, columns=list(columns))
