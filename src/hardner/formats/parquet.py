"""Documents as rows of Parquet, with the fields of hardner's JSON lines except sentences.

Other columns are not read; of the fields, all but ``text`` may be missing.
"""

import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from hardner.errors import import_extra
from hardner.files import (
    LINE_LIMIT,
    PathLike,
    atomic_binary,
    is_standard,
    open_binary,
    plain_name,
    read_bytes,
    stem,
)
from hardner.formats.format import (
    HOLDABLE,
    Format,
    Place,
    Report,
    boundary,
    bounded,
    check_document,
)
from hardner.formats.json_records import Record
from hardner.formats.jsonl import decode_document, encode_document
from hardner.types import Document

_ROWS = 500
"""Rows held in memory at a time."""
_LEAST, _RATIO = 20_000_000, 50
"""Bytes that any file, and that a byte of one may become."""
_SMALL = 1 << 24
"""Bytes of a file that is read once more to be checked: small ones may hide large ones."""
_MENTIONS = 10_000
"""In the mean of a row group's rows."""
_COLUMNS = ("id", "text", "entities", "passages")


def _read(path: PathLike, report: Report) -> Iterator[Document]:
    for number, record in read_rows(path):
        yield document_of_row(record, path, number)


def document_of_row(record: dict[str, Any], path: PathLike, number: int) -> Document:
    """The document of a row; without an id, it is named after the file and the row."""
    place = Place(path, number + 1)
    document = decode_document(Record(record, place), Report())
    check_document(document, place)
    return document if document.id else replace(document, id=f"{stem(path)}-{number + 1}")


def count_rows(path: PathLike) -> int:
    """The number of rows of a file."""
    return int(_opened(path)[0].metadata.num_rows)


def read_rows(
    path: PathLike, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of a file with their numbers from 0; row groups outside of the range are not read."""
    file, held = _opened(path)
    known = file.schema_arrow.names
    if "text" not in known:
        raise Place(path).error('no column "text"')
    columns = [name for name in _COLUMNS if name in known]
    _check_size(file, held, columns, Place(path))
    first, end = 0, file.metadata.num_rows if stop is None else stop
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if first < end and start < first + size:
            batches = file.iter_batches(_ROWS, [group], columns)
            found = (row for batch in batches for row in _plain_rows(batch, Place(path)))
            for number, row in enumerate(bounded(found, Place(path), "damaged Parquet"), first):
                if start <= number < end:
                    yield number, row
        first += size


def _check_size(file: Any, held: int, columns: list[str], place: Place) -> None:
    """Refuse a small file that would fill the memory; ``held`` are its bytes."""
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    limit = max(_LEAST, _RATIO * held)
    if sum(group.total_byte_size for group in groups) > limit:
        raise place.error(f"unpacks to more than {limit:,} bytes; split it")
    if held > _SMALL:
        return
    with boundary(place, "damaged Parquet"):
        # What is said of a column is looked at only where it can be read: pyarrow ends the process
        # over some damage to it.
        file.scan_contents(columns)
        schema = file.metadata.schema
        own = [i for i in range(len(schema)) if schema.column(i).path.split(".")[0] in columns]
        values = [[group.column(i).num_values for i in own] for group in groups]
    for group, counts in zip(groups, values, strict=True):
        if max(counts) > _LEAST + _MENTIONS * group.num_rows:
            raise place.error(f"more than {_MENTIONS:,} values in a row")


def _plain_rows(batch: Any, place: Place) -> Iterator[dict[str, Any]]:
    """Rows as plain data, no more at a time than fit; a text that many share is many texts then."""
    if _characters(batch.to_struct_array()) <= LINE_LIMIT:
        yield from batch.to_pylist()
    elif batch.num_rows == 1:
        raise place.error(f"a row of more than {LINE_LIMIT:,} characters")
    else:
        half = batch.num_rows // 2
        yield from _plain_rows(batch.slice(0, half), place)
        yield from _plain_rows(batch.slice(half), place)


def _characters(array: Any) -> int:
    """Bytes of all texts of an array, each counted wherever it stands."""
    compute, types = import_extra("pyarrow.compute", "ray"), import_extra("pyarrow.types", "ray")
    if types.is_struct(array.type):
        return sum(map(_characters, array.flatten()))
    if types.is_list(array.type) or types.is_large_list(array.type):
        return _characters(array.flatten())
    if not types.is_dictionary(array.type):
        return 0
    lengths = compute.binary_length(array.dictionary)
    return compute.sum(lengths.take(array.indices.drop_null())).as_py() or 0


def _opened(path: PathLike) -> tuple[Any, int]:
    """The file and its bytes; a compressed one is held whole, since Parquet is read from its end.

    Texts stay in their dictionary, where a file has one: it may hold a long one many times.
    """
    parquet = import_extra("pyarrow.parquet", "ray")
    source: Any
    if is_standard(path) or plain_name(path) != Path(path).name:
        content = read_bytes(path)
        source, held = io.BytesIO(content), len(content)
    else:
        open_binary(path).close()  # which says what is wrong with the path
        source, held = str(path), Path(path).stat().st_size
    with boundary(Place(path), "not Parquet"):
        schema = parquet.ParquetFile(source).schema
        texts = [
            column.path
            for column in map(schema.column, range(len(schema)))
            if column.physical_type == "BYTE_ARRAY" and column.path.split(".")[0] in _COLUMNS
        ]
        opened = parquet.ParquetFile(source, read_dictionary=texts)
        opened.schema_arrow.names  # noqa: B018  # raises where a column's name is not UTF-8
    return opened, held


def _write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    arrow, parquet = import_extra("pyarrow", "ray"), import_extra("pyarrow.parquet", "ray")
    records = (encode_document(d, report, Place(path, document=d.id)) for d in documents)
    integer, text = arrow.int64(), arrow.string()
    extent = [("start", integer), ("end", integer)]
    entity = [*extent, ("label", text), ("text", text), ("score", arrow.float64())]
    entity += [("identifier", text), ("fragments", arrow.list_(arrow.list_(integer)))]
    lists = {"entities": entity, "passages": [*extent, ("kind", text)]}
    columns = [(name, arrow.list_(arrow.struct(fields))) for name, fields in lists.items()]
    schema = arrow.schema([("id", text), ("text", text), *columns])
    with (
        atomic_binary(path) as file,
        parquet.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        while some := list(islice(records, _ROWS)):
            writer.write_table(arrow.Table.from_pylist(some, schema=schema))


PARQUET = Format(
    "parquet",
    (".parquet",),
    "Parquet, a document a row (needs hardner[ray])",
    _read,
    _write,
    holds=frozenset(HOLDABLE) - {"sentences", "states", "rejected"},
)
