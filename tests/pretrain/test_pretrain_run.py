"""Pre-training runs: what they leave, that they can be interrupted, and what they refuse."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from sayings import write

from hardner import checkpoint
from hardner.errors import HardnerError
from hardner.features import Pieces
from hardner.jobs import RunProgress
from hardner.model.transformer import PieceEncoder, Transformer
from hardner.pretrain.masked import Pretraining, init_masked
from hardner.pretrain.run import PretrainingPlan, run_pretraining, save_encoder
from hardner.pretrain.text import load_tokenizer

TRAINING = Pretraining(steps=12, rows=4, width=24, rate=1e-2)
PLAN = PretrainingPlan(vocabulary=200, size=16, layers=2, heads=2, inner=32, training=TRAINING)
LIMIT = 16 * 1024 * 1024


def changed(**values: Any) -> PretrainingPlan:
    return replace(PLAN, training=replace(TRAINING, **values))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("text") / "text.txt")


@pytest.fixture(scope="module")
def whole(text: Path) -> Path:
    """A run that nothing has disturbed."""
    folder = text.parent / "whole"
    assert run_pretraining([text], folder, PLAN, device="cpu", every=5) == (12, True, 0)
    return folder


def tensors(folder: Path, part: str = "state") -> dict[str, torch.Tensor]:
    return dict(checkpoint.load_checkpoint(folder / part).tensors)


def same(one: Path, other: Path) -> bool:
    for part in ("state", "model"):
        left, right = tensors(one, part), tensors(other, part)
        if left.keys() != right.keys() or any(not torch.equal(left[n], right[n]) for n in left):
            return False
    return (one / "tokenizer.json").read_bytes() == (other / "tokenizer.json").read_bytes()


def test_a_run_leaves_what_training_starts_from(whole: Path) -> None:
    assert sorted(path.name for path in whole.iterdir()) == [
        "model",
        "pieces.json",
        "pieces.npy",
        "pretraining.json",
        "state",
        "tokenizer.json",
    ]
    found = checkpoint.load_checkpoint(whole / "model")
    tokenizer = load_tokenizer(whole / "tokenizer.json")
    assert found.files["tokenizer.json"].decode() == tokenizer.to_str()
    transformer = Transformer(**found.config["transformer"])
    assert transformer == Transformer(tokenizer.get_vocab_size(), 16, 2, 2, 32)
    encoder = PieceEncoder(transformer, Pieces.by(tokenizer))
    expected = encoder.init(torch.Generator())
    given = {n: p for n, p in found.tensors.items() if n.startswith("encoder.")}
    assert {n: p.shape for n, p in given.items()} == {n: p.shape for n, p in expected.items()}
    assert [entry["step"] for entry in found.config["history"]] == [5, 10, 12]
    assert found.config["lines"] == 400
    state = tensors(whole)
    begun = init_masked(transformer, torch.Generator().manual_seed(0))
    for name, value in found.tensors.items():
        torch.testing.assert_close(value, state[f"params.{name}"].half().float())
        assert not torch.equal(value, begun[name])


def test_a_run_told_to_stop_goes_on_to_the_same_bits(
    whole: Path, text: Path, tmp_path: Path
) -> None:
    on_progress: list[RunProgress] = []
    asked = iter([False] * 2 + [True] + [False] + [True])
    for expected in (3, 5):
        found = run_pretraining(
            [text],
            tmp_path,
            PLAN,
            device="cpu",
            on_progress=on_progress.append,
            stop=lambda: next(asked),
        )
        assert found == (expected, False, 0)
        assert not (tmp_path / "model").exists()
    (tmp_path / ".hardner-left").mkdir()  # as a run leaves that was killed while it wrote
    assert run_pretraining(
        [text], tmp_path, PLAN, device="cpu", on_progress=on_progress.append
    ).finished
    assert same(whole, tmp_path)
    assert not (tmp_path / ".hardner-left").exists()
    steps = [told.done for told in on_progress if not told.stage]
    assert steps == sorted(steps)
    assert {told.stage for told in on_progress} == {
        "reading the text",
        "learning the tokenizer",
        "encoding the text",
        "",
    }
    assert sum(told.stage == "learning the tokenizer" for told in on_progress) == 1


WSD = {"schedule": "wsd", "warmup": 2}


@pytest.mark.parametrize("half", [False, True])
def test_a_run_goes_on_without_knowing_its_end(text: Path, tmp_path: Path, half: bool) -> None:
    def run(folder: str, steps: int, cooldown: int, texts: list[Path], **more: Any) -> Path:
        plan = changed(**WSD, steps=steps, cooldown=cooldown, half_state=half)
        run_pretraining(texts, tmp_path / folder, plan, device="cpu", every=5, **more)
        return tmp_path / folder

    at_once = run("at once", 14, 4, [text])
    asked = iter([False] * 2 + [True])
    run("bit by bit", 7, 0, [text], stop=lambda: next(asked))
    run("bit by bit", 7, 0, [])
    shutil.copytree(tmp_path / "bit by bit", tmp_path / "elsewhere")
    assert same(at_once, run("elsewhere", 14, 4, []))
    types = {tensor.dtype for tensor in tensors(at_once).values()}
    assert types == {torch.float32}


def test_half_a_state_takes_half_the_room(text: Path, tmp_path: Path) -> None:
    sizes = []
    for half in (False, True):
        plan = replace(changed(half_state=half, steps=5), size=64, vocabulary=400)
        run_pretraining([text], tmp_path / str(half), plan, device="cpu", every=5)
        files = (tmp_path / str(half) / "state").glob("*.safetensors")
        sizes.append(sum(file.stat().st_size for file in files))
    assert 0.45 < sizes[1] / sizes[0] < 0.55


def test_a_rate_that_falls_keeps_its_end(text: Path, tmp_path: Path) -> None:
    def go(steps: int, cooldown: int, stop_after: int = 99) -> None:
        asked = iter(range(1, 100))
        plan = changed(**WSD, steps=steps, cooldown=cooldown)
        run_pretraining(
            [text], tmp_path, plan, device="cpu", stop=lambda: next(asked) == stop_after
        )

    go(12, 0, stop_after=8)
    with pytest.raises(HardnerError, match="8 steps are done, so that 12 steps with a cooldown"):
        go(12, 6)
    go(12, 4, stop_after=1)
    with pytest.raises(HardnerError, match="falling since step 8; go on with 12 steps and a"):
        go(20, 4)
    go(12, 4)


def test_a_folder_without_a_run_wants_text(tmp_path: Path) -> None:
    with pytest.raises(HardnerError, match="holds no encoded text; name the files"):
        run_pretraining([], tmp_path / "new", PLAN, device="cpu")


def test_a_stop_between_two_states_leaves_no_trace_in_the_history(
    whole: Path, text: Path, tmp_path: Path
) -> None:
    def history(run: Path) -> list[tuple[int, float]]:
        held = checkpoint.load_checkpoint(run / "model").config["history"]
        return [(entry["step"], entry["loss"]) for entry in held]

    asked = iter([False] * 2 + [True] + [False] * 3 + [True])
    for expected in (3, 7):
        stopped = run_pretraining(
            [text], tmp_path, PLAN, device="cpu", every=5, stop=lambda: next(asked)
        )
        assert stopped.step == expected
    run_pretraining([text], tmp_path, PLAN, device="cpu", every=5)
    assert history(tmp_path) == history(whole)


def test_a_finished_run_has_nothing_to_do_but_keeps_its_model(
    whole: Path, text: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")  # killed between the last state and the model
    assert run_pretraining([text], tmp_path / "run", PLAN, device="cpu").finished
    assert same(whole, tmp_path / "run")


def test_another_seed_gives_another_model(whole: Path, text: Path, tmp_path: Path) -> None:
    run_pretraining([text], tmp_path, changed(seed=1), device="cpu")
    assert not same(whole, tmp_path)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (changed(rate=0.5), "rate is 0.01 there and 0.5 here"),
        (changed(steps=13), "steps is 12 there and 13 here"),
        (changed(hidden=0.3), "hidden is 0.2 there and 0.3 here"),
        (replace(PLAN, inner=64), "inner is 32 there and 64 here"),
        (replace(PLAN, vocabulary=201), "vocabulary is 200 there and 201 here"),
    ],
)
def test_other_settings_are_refused(
    plan: PretrainingPlan, message: str, whole: Path, text: Path
) -> None:
    with pytest.raises(HardnerError) as error:
        run_pretraining([text], whole, plan, device="cpu")
    assert str(error.value) == f"{whole}: holds another run: {message}; choose another folder"


def test_other_text_and_another_tokenizer_are_refused(
    whole: Path, text: Path, tmp_path: Path
) -> None:
    other = write(tmp_path / "text.txt", seed=1)
    with pytest.raises(HardnerError, match=r"holds another run: text is \w+ there and \w+ here"):
        run_pretraining([other], whole, PLAN, device="cpu")
    given = replace(PLAN, tokenizer=whole / "tokenizer.json")
    with pytest.raises(HardnerError, match=r"run: tokenizer is not given there and \w+ here"):
        run_pretraining([text], whole, given, device="cpu")


def test_a_given_tokenizer_is_used(whole: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "text.txt", seed=1)
    plan = replace(PLAN, tokenizer=whole / "tokenizer.json", vocabulary=5000)
    run_pretraining([other], tmp_path / "run", plan, device="cpu", stop=lambda: True)
    found = (tmp_path / "run" / "tokenizer.json").read_bytes()
    assert found == (whole / "tokenizer.json").read_bytes()
    settings = json.loads((tmp_path / "run" / "pretraining.json").read_text())
    assert "vocabulary" not in settings


def test_foreign_folders_are_refused(text: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(HardnerError, match="is not empty and holds no run"):
        run_pretraining([text], tmp_path, PLAN, device="cpu")
    with pytest.raises(HardnerError, match="cannot be made"):
        run_pretraining([text], tmp_path / "notes.txt", PLAN, device="cpu")


def test_two_runs_in_one_folder_are_refused(text: Path, tmp_path: Path) -> None:
    def meanwhile(_: RunProgress) -> None:
        if (tmp_path / "run" / "tokenizer.json").is_file():
            with pytest.raises(HardnerError, match="another run is at work"):
                run_pretraining([text], tmp_path / "run", PLAN, device="cpu")

    run_pretraining(
        [text], tmp_path / "run", PLAN, device="cpu", on_progress=meanwhile, stop=lambda: True
    )


def test_text_that_failed_can_be_mended(text: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_bytes(text.read_bytes() + b"\xff\n")
    with pytest.raises(HardnerError, match="401: byte 0xFF is not UTF-8"):
        run_pretraining([bad], tmp_path / "run", PLAN, device="cpu")
    bad.write_bytes(text.read_bytes())
    assert run_pretraining([bad], tmp_path / "run", PLAN, device="cpu", stop=lambda: True).step == 1


def test_a_loss_that_is_no_number_ends_the_run(text: Path, tmp_path: Path) -> None:
    wild = changed(rate=1e30, steps=50)
    with pytest.raises(HardnerError, match=r"the loss is not finite at step \d+; lower the rate"):
        run_pretraining([text], tmp_path, wild, device="cpu", every=10)
    state = tmp_path / "state"
    assert not state.exists() or all(t.isfinite().all() for t in tensors(tmp_path).values())


def test_plans_that_cannot_be_are_refused() -> None:
    with pytest.raises(HardnerError, match="3 heads of even size do not fit into 16"):
        replace(PLAN, heads=3)
    with pytest.raises(HardnerError, match="a vocabulary of 65,537; it can have 65,536"):
        replace(PLAN, vocabulary=65_537)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_devices_that_are_not_here_are_refused(text: Path, tmp_path: Path) -> None:
    with pytest.raises(HardnerError, match="torch finds no GPU here"):
        run_pretraining([text], tmp_path, PLAN, device="cuda")
    with pytest.raises(HardnerError, match="unknown device 'tpu'; it is auto, cpu or cuda"):
        run_pretraining([text], tmp_path, PLAN, device="tpu")


def test_no_file_of_a_model_is_above_16_mib(whole: Path, tmp_path: Path) -> None:
    transformer = Transformer(28_000, layers=1)
    params = init_masked(transformer, torch.Generator().manual_seed(0))
    assert params["encoder.pieces"].shape == (1, 28_000, 384)
    save_encoder(tmp_path / "m", transformer, params, load_tokenizer(whole / "tokenizer.json"), {})
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "m").iterdir()}
    assert max(sizes.values()) < LIMIT
    assert sum(name.startswith("weights") for name in sizes) == 2
    assert sum(sizes.values()) > 28_000 * 384 * 2
    found = tensors(tmp_path, "m")["encoder.pieces"]
    assert torch.equal(found, params["encoder.pieces"].half().float())


def test_training_needs_no_library_of_the_commands(text: Path, tmp_path: Path) -> None:
    script = f"""
import sys
for name in ("typer", "rich", "bioc", "lxml", "transformers", "spacy"):
    sys.modules[name] = None
from pathlib import Path
from hardner.pretrain.masked import Pretraining
from hardner.pretrain.run import PretrainingPlan, run_pretraining
from hardner.pretrain.skipgram import SkipGram, train_vectors
how = Pretraining(2, 2, 16)
plan = PretrainingPlan(vocabulary=200, size=16, layers=1, heads=2, inner=16, training=how)
root = Path({str(tmp_path)!r})
assert run_pretraining([{str(text)!r}], root / "run", plan, device="cpu").finished
train_vectors([{str(text)!r}], root / "v.bin", SkipGram(4, epochs=1))
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)
    assert (tmp_path / "run" / "model").is_dir()
    assert (tmp_path / "v.bin").is_file()


def test_a_run_goes_on_from_the_model_of_another(text: Path, whole: Path, tmp_path: Path) -> None:
    tokenizer = whole / "tokenizer.json"
    known = tensors(whole, "model")
    begun = replace(changed(steps=1, rate=0.0), start=whole / "model", tokenizer=tokenizer)
    run_pretraining([text], tmp_path / "same", begun, device="cpu")
    found = tensors(tmp_path / "same", "model")
    assert all(torch.equal(found[n], known[n]) for n in known)


def test_what_the_other_model_lacks_learns_alone_at_first(
    text: Path, whole: Path, tmp_path: Path
) -> None:
    tokenizer = load_tokenizer(whole / "tokenizer.json")
    known = tensors(whole, "model")
    body = {n: t for n, t in known.items() if n != "encoder.pieces"}
    shape = Transformer(tokenizer.get_vocab_size(), 16, 2, 2, 32)
    save_encoder(tmp_path / "body", shape, body, tokenizer, {})
    plan = replace(PLAN, start=tmp_path / "body", tokenizer=whole / "tokenizer.json")
    alone = replace(plan, training=replace(TRAINING, alone=1.0))
    run_pretraining([text], tmp_path / "alone", alone, device="cpu")
    found = tensors(tmp_path / "alone", "model")
    assert all(torch.equal(found[n], body[n]) for n in body)
    fresh = init_masked(shape, torch.Generator().manual_seed(0))["encoder.pieces"]
    assert not torch.allclose(found["encoder.pieces"], fresh, atol=1e-2)
    run_pretraining([text], tmp_path / "later", plan, device="cpu", every=5)
    later = tensors(tmp_path / "later", "model")
    assert not torch.equal(later["encoder.layer0.up.weight"], body["encoder.layer0.up.weight"])


def test_a_model_to_go_on_from_must_be_there(text: Path, tmp_path: Path) -> None:
    with pytest.raises(HardnerError, match="holds no model of an earlier run"):
        run_pretraining(
            [text], tmp_path / "run", replace(PLAN, start=tmp_path / "none"), device="cpu"
        )
