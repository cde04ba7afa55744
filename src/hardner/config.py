"""Nested tables of plain values <-> frozen dataclasses whose fields are checked when made.

A field's type says what is expected: bool, int, float, str, a `Literal`, a tuple or a mapping of
such, another record, or any of them `Annotated` with the `Bounds` that a number must lie in.
"""

import json
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from math import isfinite
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from hardner.errors import HardnerError

_SHORT = reprlib.Repr()
"""Shows what a file held in a line, however long or deep it is."""
_SHORT.maxstring = _SHORT.maxother = 80
_Record = TypeVar("_Record")
ConfigTable = dict[str, Any]
"""Values by key; a section is a table in the table."""


@dataclass(frozen=True)
class Bounds:
    """The numbers that a field may hold, both ends included."""

    least: float
    most: float | None = None

    def __str__(self) -> str:
        return f"at least {self.least:,}" if self.most is None else f"{self.least} to {self.most:,}"


Count = Annotated[int, Bounds(1)]
Whole = Annotated[int, Bounds(0)]
NonNegative = Annotated[float, Bounds(0)]
Share = Annotated[float, Bounds(0, 1)]
AxisSize = Annotated[int, Bounds(1, 10_000_000)]
"""Of an axis of a parameter: more is no network but damage."""


def shown_value(value: Any) -> str:
    """What a file held, in a line."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number of too many digits"


def keys(kind: type) -> dict[str, Any]:
    """The types of a record's fields by name."""
    return _keys(kind)


@cache
def _keys(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: hints[f.name] for f in fields(kind) if f.init}


def check_fields(record: Any, section: str = "") -> None:
    """Refuse a record that holds what its fields' types do not allow; for ``__post_init__``."""
    for name, expected in keys(type(record)).items():
        value = getattr(record, name)
        if not _fits(value, expected):
            key = f"{section}.{name}" if section else name
            raise HardnerError(f"{key}: expected {_described(expected)}, got {shown_value(value)}")


class Section:
    """A section of a configuration, such as ``TrainSection``: checked however it is made."""

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__.removesuffix("Section").lower())


def make(kind: type[_Record], table: Mapping[str, Any], section: str = "") -> _Record:
    """The record that a table describes; a key it does not know is an error."""
    known = keys(kind)
    values = {}
    for name, value in table.items():
        key = f"{section}.{name}" if section else name
        if name not in known:
            raise _no_such_key(key, section, known)
        values[name] = _taken(value, known[name], key)
    for f in fields(kind):  # type: ignore[arg-type]
        needed = f.init and f.default is MISSING and f.default_factory is MISSING
        if needed and f.name not in values:
            place = f"[{section}]: " if section else ""
            raise HardnerError(f"{place}{f.name} is missing")
    record = kind(**values)
    check_fields(record, section)
    return record


def _no_such_key(key: str, section: str, known: Mapping[str, Any]) -> HardnerError:
    place = f"[{section}]" if section else "an experiment"
    return HardnerError(f"{key}: no such key; {place} has {', '.join(known)}")


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> ConfigTable:
    """One table with another's values on top of it."""
    if not isinstance(under, Mapping):
        raise HardnerError(f"expected a table of settings, got {_SHORT.repr(under)}")
    both = dict(under)
    for name, value in over.items():
        below = both.get(name)
        nested = isinstance(below, Mapping) and isinstance(value, Mapping)
        both[name] = merged(below, value) if nested else value  # type: ignore[arg-type]
    return both


def parse_key(kind: type, key: str, text: str, section: str = "") -> ConfigTable:
    """A dotted key and its value as written on a command line -> a table."""
    first, _, rest = key.partition(".")
    known = keys(kind)
    whole = f"{section}.{first}" if section else first
    if first not in known:
        raise _no_such_key(whole, section, known)
    expected = known[first]
    if is_dataclass(expected) and isinstance(expected, type):
        if not rest:
            raise HardnerError(
                f"{whole}: a section, not a value; it has {', '.join(keys(expected))}"
            )
        return {first: parse_key(expected, rest, text, whole)}
    if rest:
        raise HardnerError(f"{whole}.{rest}: no such key; {whole} is a value")
    value = _read(text, _plain(expected))
    if not _fits(value, expected):
        raise HardnerError(f"{whole}: expected {_described(expected)}, got {text!r}")
    return {first: value}


def toml(table: Mapping[str, Any]) -> str:
    """A table of values and sections of values, as TOML."""
    lines = [f"{name} = {_written(v)}" for name, v in table.items() if not isinstance(v, Mapping)]
    for name, value in table.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{name}]", *(f"{key} = {_written(v)}" for key, v in value.items())]
    return "\n".join(lines) + "\n"


def _written(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _plain(expected: Any) -> Any:
    """A type without its bounds, and without None."""
    optional = get_origin(expected) in (Annotated, UnionType)
    return get_args(expected)[0] if optional else expected


def _taken(value: Any, expected: Any, key: str) -> Any:
    """Tables become records, lists tuples, and whole numbers floats; `check_fields` does the rest.

    A table of records is checked here, record by record.
    """
    if type(value) is expected:  # most are, and a file of results has many
        return value
    plain = _plain(expected)
    if isinstance(plain, type) and is_dataclass(plain):
        if isinstance(value, Mapping):
            return make(plain, value, key)
        raise HardnerError(f"{key}: expected a section [{key}], got {shown_value(value)}")
    if get_origin(plain) is tuple and isinstance(value, list):
        return tuple(_taken(part, get_args(plain)[0], key) for part in value)
    if get_origin(plain) is Mapping and isinstance(value, Mapping):
        return {n: _taken(part, get_args(plain)[1], f"{key}.{n}") for n, part in value.items()}
    if plain is float and type(value) is int and abs(value) < 1e300:
        return float(value)  # TOML's `1` where `1.0` is meant
    return value


def _read(text: str, plain: Any) -> Any:
    if get_origin(plain) is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if plain is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if plain in (int, float):
        try:
            return plain(text)
        except ValueError:
            return text
    return text


def _fits(value: Any, expected: Any) -> bool:
    plain = _plain(expected)
    if plain is str and type(value) is str:
        return "\0" not in value  # in no name of a file or a label
    if type(value) is expected:
        return True
    if value is None and get_origin(expected) is UnionType:
        return True
    if get_origin(plain) is Literal:
        return isinstance(value, str) and value in get_args(plain)
    if get_origin(plain) is tuple:
        return isinstance(value, tuple) and all(_fits(v, get_args(plain)[0]) for v in value)
    if get_origin(plain) is Mapping:
        inner = get_args(plain)[1]
        return isinstance(value, Mapping) and all(_fits(v, inner) for v in value.values())
    if plain is Any or getattr(plain, "_is_protocol", False):
        return True
    if get_origin(plain) is Callable:
        return callable(value)
    if type(value) is not plain or (plain is float and not isfinite(value)):
        return False  # not isinstance: True is an int
    limits = [r for r in get_args(expected)[1:] if isinstance(r, Bounds)]
    return all(r.least <= value and (r.most is None or value <= r.most) for r in limits)


def _described(expected: Any) -> str:
    plain = _plain(expected)
    if get_origin(plain) is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(plain))
    if get_origin(plain) in (tuple, Mapping):
        kind, part = ("list", 0) if get_origin(plain) is tuple else ("table", 1)
        inner = get_args(plain)[part]
        return f"a {kind} of {'texts' if inner is str else _described(inner)}"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    limits = [str(r) for r in get_args(expected)[1:] if isinstance(r, Bounds)]
    return " ".join((names.get(plain, "anything" if plain is Any else "a section"), *limits))


# Keys that had other names in version 0.1: its experiments, runs and result lines still load. A
# configuration is hashed under the first names, so that a renamed field makes no new one of it.
_FIRST_NAMES = {
    "restarts": "soup",
    "iterate_averaging": "tail",
    "sqrt_rate_scaling": "calm",
    "o_bias": "caution",
    "o_bias_density": "rarity",
    "o_bias_size": "boldness",
    "negatives": "background",
    "replacements": "swaps",
    "self_training": "pupil",
    "pseudo_label_weight": "trust",
    "weight_interpolation": "blend",
}
_NEW_NAMES = {old: new for new, old in _FIRST_NAMES.items()}


def with_new_names(value: Any) -> Any:
    """Nested tables with the keys that the code uses now."""
    return _renamed(value, _NEW_NAMES)


def with_first_names(value: Any) -> Any:
    """Nested tables with the keys of version 0.1."""
    return _renamed(value, _FIRST_NAMES)


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if not isinstance(value, dict):
        return value
    return {names.get(key, key): _renamed(held, names) for key, held in value.items()}
