"""Documents as rows of Parquet, with the fields of hardner's JSON lines except sentences.

Other columns are not read; of the fields, all but ``text`` may be missing.
"""

import io
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from hardner.errors import import_extra
from hardner.files import PathLike, atomic_binary, is_standard, open_binary, plain_name, stem
from hardner.formats.format import HOLDABLE, Format, Place, Report
from hardner.formats.json_records import Record
from hardner.formats.jsonl import decode_document, encode_document
from hardner.formats.mention import check_document
from hardner.types import Document

_ROWS = 500
"""Rows held in memory at a time."""
_COLUMNS = ("id", "text", "entities", "passages")


def _arrow() -> tuple[Any, Any]:
    return import_extra("pyarrow", "ray"), import_extra("pyarrow.parquet", "ray")


def _read(path: PathLike, report: Report) -> Iterator[Document]:
    for number, record in read_rows(path):
        yield document_of_row(record, path, number)


def document_of_row(record: dict[str, Any], path: PathLike, number: int) -> Document:
    """The document of a row; without an id, it is named after the file and the row."""
    place = Place(path, number + 1)
    fields = {name: _filled(value) for name, value in record.items() if value is not None}
    fields.setdefault("id", f"{stem(path)}-{number + 1}")
    document = decode_document(Record(fields, place), Report())
    check_document(document, place)
    return document


def _filled(value: Any) -> Any:
    """The value without the nulls in the structures of a list."""
    if not isinstance(value, list):
        return value
    return [{k: v for k, v in item.items() if v is not None} for item in value if item]


def count_rows(path: PathLike) -> int:
    """The number of rows of a file."""
    return int(_opened(path).metadata.num_rows)


def read_rows(
    path: PathLike, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of a file with their numbers from 0; row groups outside of the range are not read."""
    arrow, _ = _arrow()
    file = _opened(path)
    known = file.schema_arrow.names
    if "text" not in known:
        raise Place(path).error('no column "text"')
    columns = [name for name in _COLUMNS if name in known]
    first, end = 0, file.metadata.num_rows if stop is None else stop
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if first < end and start < first + size:
            try:
                batches = file.iter_batches(_ROWS, [group], columns)
                found = (row for batch in batches for row in batch.to_pylist())
                for number, row in enumerate(found, first):
                    if start <= number < end:
                        yield number, row
            except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
                raise Place(path).error(f"damaged Parquet: {_line(error)}") from None
        first += size


def _opened(path: PathLike) -> Any:
    """The file; a compressed one is held whole, since Parquet is read from its end."""
    arrow, parquet = _arrow()
    with open_binary(path) as file:
        packed = is_standard(path) or plain_name(path) != Path(path).name
        source = io.BytesIO(file.read()) if packed else str(path)
    try:
        opened = parquet.ParquetFile(source)
        opened.schema_arrow.names  # noqa: B018  # raises where a column's name is not UTF-8
        return opened
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise Place(path).error(f"not Parquet: {_line(error)}") from None


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    arrow, parquet = _arrow()
    records = (encode_document(d, report, Place(path, document=d.id)) for d in documents)
    with (
        atomic_binary(path) as file,
        parquet.ParquetWriter(file, _schema(arrow), compression="zstd") as writer,
    ):
        while some := list(islice(records, _ROWS)):
            writer.write_table(arrow.Table.from_pylist(some, schema=_schema(arrow)))


def _schema(arrow: Any) -> Any:
    integer, text = arrow.int64(), arrow.string()
    extent = {"start": integer, "end": integer}
    entity = {**extent, "label": text, "text": text, "score": arrow.float64(), "identifier": text}
    entity["fragments"] = arrow.list_(arrow.list_(integer))
    entities, passages = (
        arrow.list_(arrow.struct(list(fields.items())))
        for fields in (entity, {**extent, "kind": text})
    )
    return arrow.schema(
        [("id", text), ("text", text), ("entities", entities), ("passages", passages)]
    )


PARQUET = Format(
    "parquet",
    (".parquet",),
    "Parquet, a document a row (needs hardner[ray])",
    _read,
    _write,
    holds=frozenset(HOLDABLE) - {"sentences", "states"},
)
