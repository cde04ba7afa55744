"""Commands stopped at a few moments each: nothing is lost, and the same command ends the same."""

import sys
from collections.abc import Iterator

import pytest
from crash.bench import Bench, Reference
from crash.commands import COMMANDS, Command
from crash.hunt import Trial, hunt, hunt_workbench, opened
from crash.trials import damage, difference

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stops processes as Linux does")
KILLS, SEED = 3, 7


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    for extra in ("spacy", "pyarrow", "fastapi"):
        pytest.importorskip(extra, reason=f"{extra} is an extra")
    with opened(tmp_path_factory.mktemp("crash")) as made:
        yield made


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if not c.needs_ray], ids=lambda command: command.name
)
def test_nothing_is_lost(bench: Bench, command: Command) -> None:
    _assert_no_problems(hunt(bench, command, KILLS, SEED))


def _assert_no_problems(trials: Iterator[Trial]) -> None:
    problems = [f"{how}: {problem}" for how, _, found in trials for problem in found]
    assert not problems, "\n".join(problems)


def test_the_workbench_keeps_what_it_answered(bench: Bench) -> None:
    _assert_no_problems(hunt_workbench(bench, KILLS, SEED))


def test_what_is_found_to_be_wrong() -> None:
    command = Command("made", (), growing=("run/",), old=("new",))
    before = {"in": b"1", "new/a": b"old", "new/b": b"old"}
    after = {"in": b"1", "out": b"whole", "run/log": b"12", "new/a": b"new", "new/b": b"new"}
    reference = Reference(before, after, 0, 0.0, "")
    assert damage(command, reference, before) == damage(command, reference, after) == []
    begun = {**before, "run/log": b"1", ".hardner-x/a": b"x", "out.part": b"wh"}
    assert damage(command, reference, begun) == []
    assert damage(command, reference, {**before, "out": b"wh"}) == ["half-written: out"]
    assert damage(command, reference, {k: v for k, v in before.items() if k != "in"}) == [
        "lost: in"
    ]
    assert damage(command, reference, {**before, "new/a": b"new"}) == [
        "neither the old nor the new: new"
    ]
    assert difference(reference, {**after, ".hardner-x": b""}) == ["left behind: .hardner-x"]
