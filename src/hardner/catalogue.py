"""The catalogue: a row a corpus, of ``catalogue.toml`` and of a user's own files."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from hardner.config import make, shown_value
from hardner.errors import FileError, HardnerError
from hardner.files import read_toml, sha256
from hardner.formats import FORMATS

SPLITS = ("train", "devel", "test")


@dataclass(frozen=True)
class SplitFile:
    path: str
    sha256: str = ""


@dataclass(frozen=True)
class Published:
    """A corpus in Table 2 of HGDA."""

    unique_tokens: int
    percent: int


@dataclass(frozen=True)
class CatalogueEntry:
    """A row of the catalogue; ``catalogue.toml`` describes its keys."""

    name: str
    domain: str
    train: SplitFile
    devel: SplitFile | None = None
    test: SplitFile | None = None
    licence: str = ""
    source: str = ""
    folder: str = ""
    format: str = "conll"
    labels: Mapping[str, str] = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)
    hold_out: tuple[Literal["devel", "test"], ...] = ()
    innermost: bool = False
    published: Published | None = None

    def domain_of(self, label: str) -> str:
        return self.domains.get(label, self.domain)

    @property
    def parts(self) -> dict[str, SplitFile]:
        """The splits that have a file or folder of their own."""
        return {split: part for split in SPLITS if (part := getattr(self, split)) is not None}

    def path(self, split: str, root: str | Path) -> Path:
        return Path(root, self.folder or self.name, self.parts[split].path)

    def changed(self, root: str | Path) -> list[Path]:
        """Those of its files that differ from the ones the catalogue was written for."""
        summed = {self.path(split, root): part.sha256 for split, part in self.parts.items()}
        return [path for path, known in summed.items() if known and known != sha256(path)]


@dataclass(frozen=True)
class JoinedEntry:
    """Corpora of the same sentences that are read as one."""

    name: str
    joins: tuple[str, ...]


Row = CatalogueEntry | JoinedEntry


def _row(name: str, table: Any) -> Row:
    if not isinstance(table, dict):
        raise HardnerError(f"{name}: expected a section [{name}], got {shown_value(table)}")
    if table.get("joins") == []:
        raise HardnerError(f"{name}.joins: name at least one row")
    if "joins" in table:  # the only key of such a row
        return make(JoinedEntry, {**table, "name": name}, name)
    row = make(CatalogueEntry, {**table, "name": name}, name)
    if row.format not in FORMATS:
        known = ", ".join(FORMATS)
        raise HardnerError(f"{name}.format: no format is {row.format!r}; there are {known}")
    return row


@cache
def builtin_rows() -> Mapping[str, Row]:
    """The package's own catalogue, by name."""
    table = read_toml(Path(__file__).with_name("catalogue.toml"))
    return {name: _row(name, values) for name, values in table.items()}


def _undescribed(row: Row) -> Row:
    return replace(row, descriptions={}) if isinstance(row, CatalogueEntry) else row


def with_rows_of(rows: Mapping[str, Row], path: Path) -> Mapping[str, Row]:
    """Rows and those of a user's file; a name may only return with the same row."""
    table = read_toml(path)
    try:
        both = {**rows, **{name: _row(name, values) for name, values in table.items()}}
        for row in [both[name] for name in table]:
            known = rows.get(row.name, row)
            # The same row again is no clash, so that the built-in file can be copied and extended;
            # it may describe its labels otherwise.
            if _undescribed(known) != _undescribed(row):
                raise HardnerError(f"[{row.name}]: another corpus has that name")
            if row == _undescribed(known):
                both[row.name] = known
            for part in row.joins if isinstance(row, JoinedEntry) else ():
                if not isinstance(both.get(part), CatalogueEntry):
                    raise HardnerError(f"{row.name}.joins: no row is named {part!r}")
    except HardnerError as error:
        raise FileError(path, str(error)) from None
    return both


BENCHMARK = tuple(
    row.name for row in builtin_rows().values() if isinstance(row, CatalogueEntry) and row.published
)
"""The eight corpora of HGDA's Table 2."""
