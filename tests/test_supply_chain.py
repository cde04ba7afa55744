"""What hardner is installed with: the tested set, its licences, and no word to the network."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"^([a-z0-9-]+)==(\d[\w.]*)$")


def pins() -> dict[str, str]:
    lines = (ROOT / "requirements" / "tested.txt").read_text("utf-8").splitlines()
    found = [LINE.match(line) for line in lines if not line.startswith("#")]
    assert all(found)
    return {match[1]: match[2] for match in found if match}


def licence_rows() -> list[list[str]]:
    page = (ROOT / "docs" / "licences.md").read_text("utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def declared() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    every = [*project["dependencies"], *(line for lines in extras for line in lines)]
    return [found for line in every if (found := Requirement(line)).name != "hardner"]


@pytest.mark.parametrize("requirement", declared(), ids=lambda requirement: requirement.name)
def test_the_tested_set_holds_what_the_project_asks_for(requirement: Requirement) -> None:
    versions = pins()
    name = re.sub(r"[-_.]+", "-", requirement.name).lower()
    assert name in versions, "run: make lock"
    assert requirement.specifier.contains(versions[name]), "run: make lock"


def test_every_package_of_the_tested_set_has_a_licence_on_the_page() -> None:
    assert {row[0]: row[1] for row in licence_rows()} == pins()


def test_what_everybody_installs_is_under_permissive_licences() -> None:
    # tqdm's MPL holds for its own files alone, which hardner does not change.
    permissive = re.compile(r"MIT|BSD|Apache|ISC|PSF|Python Software Foundation|MPL-2.0 AND MIT")
    own = {row[0]: row[2] for row in licence_rows() if row[3] == "hardner"}
    assert {"torch", "numpy", "lxml"} <= own.keys()
    assert [name for name, licence in own.items() if not permissive.search(licence)] == []


WITHOUT_NETWORK = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"):
        raise AssertionError(f"asked for the network: {event} {arguments}")

sys.addaudithook(refuse)
if sys.argv[1] == "--check":
    import socket
    socket.create_connection(("127.0.0.1", 9))
from hardner.cli import main
main()
"""


def run_without_network(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_NETWORK, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_commands_ask_for_no_network(tmp_path: Path) -> None:
    labelled, text = ROOT / "examples" / "devices-train.jsonl", ROOT / "examples" / "abstract.txt"
    model = tmp_path / "model"
    commands: list[tuple[str | Path, ...]] = [
        ("convert", labelled, tmp_path / "devices.xml", "--to", "bioc"),
        ("adapt", labelled, "--label", "Device", "--out", model),
        ("tag", text, "--model", model, "--out", tmp_path / "found.jsonl"),
        ("suggest", text, "--model", model),
    ]
    for words in commands:
        done = run_without_network(*words)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.name == "nt", reason="the socket module differs there")
def test_the_check_sees_a_connection() -> None:
    done = run_without_network("--check")
    assert done.returncode != 0 and "asked for the network" in done.stderr
