"""Writes down the tested set of packages: their versions, and their licences.

    make lock    # newest versions in a new environment, then this script in it

requirements/tested.txt is what `make setup` and continuous integration install;
docs/licences.md says for each package what needs it and under which licence it comes.
"""

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
TESTED = ROOT / "requirements" / "tested.txt"
LICENCES = ROOT / "docs" / "licences.md"
FOR_TESTS = {"dev", "test"}
"""Extras that only somebody who changes hardner installs."""
HEAD = "# The versions that hardner is tested with, on Python 3.11. Made by: make lock\n"
PAGE = """# Licences of what hardner installs
hardner itself is Apache-2.0. Each package below stays under the licence of its own authors;
none of them is part of the wheel. Made by `make lock` from the tested set,
`requirements/tested.txt`, as the packages themselves declare it.

| package | version | licence | needed by |
|---|---|---|---|
"""


def needed(extra: str = "") -> dict[str, Distribution]:
    """The packages that ``hardner`` or ``hardner[extra]`` installs, by normalised name."""
    found: dict[str, Distribution] = {}
    _collect("hardner", {extra}, found, set())
    del found["hardner"]
    return found


def _collect(
    name: str, extras: set[str], found: dict[str, Distribution], seen: set[tuple[str, str]]
) -> None:
    package = distribution(name)
    found[normalised(package.name)] = package
    for requirement in map(Requirement, package.requires or ()):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            asked = {(normalised(requirement.name), extra) for extra in {"", *requirement.extras}}
            if not asked <= seen:
                seen |= asked
                _collect(requirement.name, set(requirement.extras), found, seen)


def normalised(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(package: Distribution) -> str:
    """Its name and version, whatever build of it this machine has (``2.13.0``, not ``+cpu``)."""
    return f"{normalised(package.name)}=={package.version.partition('+')[0]}"


def licence(package: Distribution) -> str:
    """As the package declares it: an SPDX expression, else a classifier, else a short text."""
    declared = package.metadata
    if expression := declared.get("License-Expression"):
        return str(expression)
    classifiers = declared.get_all("Classifier") or []
    named = [text.rpartition(" :: ")[2] for text in classifiers if text.startswith("License ::")]
    text = str(declared.get("License") or "").strip().partition("\n")[0]
    short = text if len(text) < 40 and text != "UNKNOWN" else ""
    return "; ".join(named) or short or "see its own files"


def rows() -> Iterator[str]:
    """A row of the page for each package, those that every installation has first."""
    always = needed()
    extras = metadata("hardner").get_all("Provides-Extra") or ()
    users: dict[str, list[str]] = {}
    for extra in extras:
        for name in needed(extra).keys() - always.keys():
            users.setdefault(name, []).append(extra)
    every = needed("dev") | always
    for name in sorted(every, key=lambda name: (name not in always, name)):
        own = [extra for extra in users.get(name, ()) if extra not in FOR_TESTS]
        user = "hardner" if name in always else ", ".join(own) or "the tests"
        package = every[name]
        version = package.version.partition("+")[0]
        yield f"| {name} | {version} | {licence(package)} | {user} |"


if __name__ == "__main__":
    every = needed("dev")
    TESTED.write_text(HEAD + "".join(sorted(f"{pinned(p)}\n" for p in every.values())), "utf-8")
    LICENCES.write_text(PAGE + "".join(f"{row}\n" for row in rows()), "utf-8")
    print(f"{len(every)} packages in {TESTED.relative_to(ROOT)} and {LICENCES.relative_to(ROOT)}")
