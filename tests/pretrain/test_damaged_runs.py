"""Runs of pre-training whose files were edited or cut: one line says which, and what to do."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pretrain.test_pretrain_run import PLAN
from sayings import write

from hardner import checkpoint
from hardner.errors import FileError
from hardner.pretrain.run import run_pretraining


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("text") / "text.txt")


@pytest.fixture(scope="module")
def begun(text: Path) -> Path:
    """A run that was stopped after its first step."""
    run_pretraining([text], text.parent / "run", PLAN, device="cpu", stop=lambda: True)
    return text.parent / "run"


def about(change: dict[str, Any]) -> Callable[[Path], None]:
    """Changes what the state says beside its tensors."""

    def edit(run: Path) -> None:
        path = run / "state" / checkpoint.CONFIG
        held = json.loads(path.read_text())
        held["config"] |= change
        held["config"] = {k: v for k, v in held["config"].items() if v != "gone"}
        path.write_text(json.dumps(held))

    return edit


def tensors(name: str, cut: bool) -> Callable[[Path], None]:
    """Takes a tensor out of the state, or a part of it."""

    def edit(run: Path) -> None:
        held = checkpoint.load_checkpoint(run / "state")
        found = dict(held.tensors)
        whole = found.pop(name)
        if cut:
            found[name] = whole[:, 1:].clone()
        checkpoint.save_checkpoint(run / "state", found, held.config)

    return edit


def pieces(text: str) -> Callable[[Path], None]:
    return lambda run: (run / "pieces.json").write_text(text) and None


def counts(**change: Any) -> Callable[[Path], None]:
    def edit(run: Path) -> None:
        path = run / "pieces.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))

    return edit


def array(made: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit(run: Path) -> None:
        path = run / "pieces.npy"
        path.write_bytes(made(path.read_bytes()))

    return edit


STATE = r"run.state: is not a state of this run; delete it to begin again"
ARRAY = r"pieces\.npy: damaged: not the subwords that were written; delete .*pieces\.json"
DAMAGE = {
    "a step that is no number": (about({"step": "1"}), STATE),
    "a step beyond the end": (about({"step": 10**30}), STATE),
    "no step": (about({"step": "gone"}), STATE),
    "a history that is no list": (about({"history": 7}), STATE),
    "late tensors that are no names": (about({"late": [[1]]}), STATE),
    "a parameter that is gone": (tensors("params.guess.weight", False), STATE),
    "a parameter of another shape": (tensors("params.encoder.pieces", True), STATE),
    "a momentum that is gone": (tensors("state.first.guess.weight", False), STATE),
    "a list": (pieces("[]"), r"pieces\.json: damaged: not a JSON object"),
    "no JSON": (pieces("{"), r"pieces\.json: damaged, not JSON"),
    "deep JSON": (pieces("[" * 100_000), r"pieces\.json: damaged, not JSON"),
    "a count that is no number": (counts(lines=None), r"pieces\.json: damaged; delete it"),
    "an array cut short": (array(lambda held: held[:-3]), ARRAY),
    "a header cut short": (array(lambda held: held[:20]), ARRAY),
    "no file of an array": (array(lambda held: b"(" * len(held)), ARRAY),
    "subwords that no vocabulary has": (
        array(lambda held: held[:128] + np.full(len(held) // 2 - 64, 60_000, "<u2").tobytes()),
        ARRAY,
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_one_line(case: str, text: Path, begun: Path, tmp_path: Path) -> None:
    edit, said = DAMAGE[case]
    shutil.copytree(begun, tmp_path / "run")
    edit(tmp_path / "run")
    with pytest.raises(FileError, match=said) as caught:
        run_pretraining([text], tmp_path / "run", PLAN, device="cpu")
    assert "\n" not in str(caught.value)
