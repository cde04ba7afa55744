"""The Dockerfile, read as text: how the image is made, and who it runs as.

The workflow builds and runs it, where there is Docker.
"""

import fnmatch
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from without_torch import REFUSED

from hardner.cli import app

ROOT = Path(__file__).parents[1]
FILE = ROOT / "Dockerfile"
KNOWN = {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "USER"}
KNOWN |= {"WORKDIR"}


class Step(NamedTuple):
    name: str
    said: str


def stages(text: str) -> dict[str, list[Step]]:
    """The steps of each stage, by its name; what FROM says is its first."""
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.M).replace("\\\n", " ").splitlines()
    found: dict[str, list[Step]] = {}
    for line in filter(str.strip, lines):
        name, _, said = line.strip().partition(" ")
        if name == "FROM":
            base, _, stage = said.partition(" AS ")
            steps = found[stage] = [Step("FROM", base)]
        else:
            steps.append(Step(name, " ".join(said.split())))
    return found


STAGES = stages(FILE.read_text("utf-8"))
STEPS = [step for steps in STAGES.values() for step in steps]
IMAGES = ("full", "onnx")


def inherited(stage: str) -> list[Step]:
    """The steps of a stage and of those that it is made from."""
    base = STAGES[stage][0].said
    return (inherited(base) if base in STAGES else []) + STAGES[stage]


def last(stage: str, name: str) -> str:
    return next(step.said for step in reversed(inherited(stage)) if step.name == name)


def test_the_instructions_are_known_and_the_small_image_comes_last() -> None:
    assert {step.name for step in STEPS} == KNOWN
    assert [*STAGES][-1] == "onnx"


def test_bases_are_pinned_and_slim() -> None:
    bases = {steps[0].said for steps in STAGES.values()} - STAGES.keys()
    assert len(bases) == 1, "one base, so that what was installed in one stage runs in another"
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", *bases)


@pytest.mark.parametrize("stage", IMAGES)
def test_images_run_as_nobody_in_particular(stage: str) -> None:
    user = last(stage, "USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    names = [step.name for step in inherited(stage)]
    assert "RUN" not in names[names.index("USER") :] and "COPY" not in names[names.index("USER") :]


def test_nothing_is_fetched_but_by_pip() -> None:
    text = FILE.read_text("utf-8")
    assert not re.search(r"\b(ADD|curl|wget|apt-get|sudo)\b", text)
    assert not re.search(r"https?://(?!127\.0\.0\.1)", text)
    for step in STEPS:
        if step.name == "RUN":
            assert "|" not in step.said
            for command in re.findall(r"pip install ([^&]+)", step.said):
                assert "--constraint requirements/tested.txt" in command or "--no-deps" in command


def test_secrets_are_no_part_of_an_image() -> None:
    given = " ".join(step.said for step in STEPS if step.name in ("ARG", "ENV"))
    assert not re.search("token|secret|password", given, re.I)


@pytest.mark.parametrize("stage", IMAGES)
def test_what_is_started_is_there_and_can_be_stopped(stage: str) -> None:
    entry = json.loads(last(stage, "ENTRYPOINT"))
    shell, option, script, _ = entry
    assert (shell, option) == ("sh", "-c")
    assert script.startswith("exec "), "hardner itself gets SIGTERM"
    words = script.removeprefix("exec hardner ").replace('"$PORT"', "8000").replace('"$@"', "")
    import typer

    command = typer.main.get_command(app).commands["serve"]
    command.make_context("serve", words.split()[1:])
    health = json.loads(last(stage, "HEALTHCHECK").partition("CMD ")[2])
    compile(health[2], "health", "exec")
    assert "PORT=8000" in last(stage, "ENV") and last(stage, "EXPOSE") == "8000"


def test_the_bundled_model_is_in_the_small_image() -> None:
    option, value = json.loads(last("onnx", "CMD"))
    _, path = value.split("=")
    assert option == "--model"
    assert any(f"export --onnx {path}" in s.said for s in STAGES["with-torch"])
    copies = [s.said.split()[-1] for s in STAGES["onnx"] if s.name == "COPY"]
    assert any(path.startswith(f"{copied}/") for copied in copies)


def test_what_is_copied_is_there_and_not_ignored() -> None:
    rules = [r for r in (ROOT / ".dockerignore").read_text().split("\n") if r and r[0] != "#"]
    assert rules[0] == "*"
    for step in STEPS:
        if step.name == "COPY" and not step.said.startswith("--from"):
            for name in step.said.split()[:-1]:
                assert (ROOT / name).exists()
                assert f"!{name}" in rules
    sent = [rule[1:] for rule in rules if rule.startswith("!")]
    assert not any(fnmatch.fnmatch(name, rule) for name in (".git", ".venv") for rule in sent)


def test_the_small_image_installs_what_the_project_declares() -> None:
    lines = (ROOT / "requirements" / "onnx.txt").read_text("utf-8").splitlines()
    named = {line for line in lines if line and not line.startswith("#")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = {Requirement(line).name for line in project["dependencies"]}
    declared |= {Requirement(r).name for extra in ("onnx", "serve") for r in extras[extra]}
    assert named == declared - {"torch", "onnx", "bioc", "lxml"}


ALONE = (
    REFUSED
    + """
import hardner.serve.server, hardner.tag.onnx_predictor
from hardner.cli import main
sys.argv = ["hardner", "tag", "-"]
main()
"""
)


def test_commands_without_torch_end_in_one_line() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ALONE], input="asthma", capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("hardner: needs torch; without it, only hardner serve --api works")
