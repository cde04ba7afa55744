"""What continuous integration, pre-commit and the issue forms say can be done."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
HOOKS = ROOT / ".pre-commit-config.yaml"
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
MADE_THERE = {"dist"}
"""Folders that a workflow makes itself."""

by_name = {"ids": lambda path: path.name}


def read(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def jobs(path: Path) -> dict[str, Any]:
    found = read(path)["jobs"]
    assert isinstance(found, dict)
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job["steps"]]


def missing(script: str) -> list[str]:
    """What a script names that is not there: files of the repository and targets of make."""
    plain = re.sub(r"\$\{\{.*?\}\}", "", script)
    paths = re.findall(
        r"(?<![\w./-])((?:\.ci|\.github|benchmarks|docs|examples|experiments|src|tests)/[\w./-]*)",
        plain,
    )
    targets = re.findall(r"\bmake ((?:[a-z]+ ?)+)", plain)
    absent = [path for path in paths if not (ROOT / path).exists()]
    return absent + [f"make {t}" for named in targets for t in named.split() if t not in TARGETS]


def test_the_check_sees_what_is_missing() -> None:
    assert missing("make test\npython tests/conftest.py") == []
    assert missing("make tset") == ["make tset"]
    assert missing("cp tests/none.py x && .ci/gone") == ["tests/none.py", ".ci/gone"]


def test_there_are_workflows_and_forms() -> None:
    assert {path.stem for path in WORKFLOWS} == {"tests", "publish"}
    assert {path.stem for path in FORMS} == {"bug", "wrong-tag", "corpus", "config"}


@pytest.mark.parametrize("path", WORKFLOWS, **by_name)
def test_workflows_run_what_is_there(path: Path) -> None:
    # YAML 1.1 reads the key `on` as a truth value.
    assert read(path)[True], "says when it runs"
    assert read(path)["permissions"] == {"contents": "read"}
    for step in steps(path):
        assert ("run" in step) != ("uses" in step)
        assert missing(step.get("run", "")) == []
    for name, job in jobs(path).items():
        assert job["timeout-minutes"] <= 60, name
        assert set(job.get("needs", "").split()) <= set(jobs(path))


@pytest.mark.parametrize("path", WORKFLOWS, **by_name)
def test_actions_are_pinned_by_major_version(path: Path) -> None:
    used = {step["uses"] for step in steps(path) if "uses" in step}
    assert used
    assert [
        name for name in used if not re.fullmatch(r"[\w-]+/[\w/-]+@(release/)?v\d+", name)
    ] == []


@pytest.mark.parametrize("path", WORKFLOWS, **by_name)
def test_paths_are_quoted_expressions_are_closed(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.count("${{") == text.count("}}")
    assert "\t" not in text


def test_systems_and_versions_are_those_that_the_package_claims() -> None:
    matrix = jobs(ROOT / ".github" / "workflows" / "tests.yml")["quick"]["strategy"]["matrix"]
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    claimed = re.findall(r"Python :: (3\.\d+)", project)
    assert matrix["python"] == claimed
    names = {"POSIX :: Linux": "ubuntu", "MacOS": "macos", "Microsoft :: Windows": "windows"}
    systems = re.findall(r"Operating System :: (.+)\"", project)
    assert sorted(f"{names[system]}-latest" for system in systems) == sorted(matrix["os"])


def test_publishing_needs_a_tag_a_build_and_no_secret() -> None:
    path = ROOT / ".github" / "workflows" / "publish.yml"
    assert read(path)[True] == {"push": {"tags": ["v*"]}}
    publish = jobs(path)["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["needs"] == "build"
    assert "secrets." not in path.read_text("utf-8")


def test_hooks_run_what_lint_runs() -> None:
    (repo,) = read(HOOKS)["repos"]
    assert repo["repo"] == "local", "tools come with `make setup`, in one version"
    commands = {hook["entry"].split()[0] for hook in repo["hooks"]}
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    assert commands == {f".venv/bin/{name}" for name in re.findall(r"\$\(BIN\)/(\w+)", recipe)}


@pytest.mark.parametrize("path", [p for p in FORMS if p.stem != "config"], **by_name)
def test_forms_ask_for_what_is_needed(path: Path) -> None:
    form = read(path)
    assert {"name", "description", "labels", "body"} == set(form)
    asked = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in asked}) == len(asked) >= 3
    assert all(field["attributes"]["label"] for field in asked)
    assert any(field.get("validations") == {"required": True} for field in asked)
