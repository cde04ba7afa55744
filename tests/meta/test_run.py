"""Runs: repeatable to the bit, whatever the order of the corpora and however often interrupted."""

import json
import lzma
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from shared import CORPORA

import hardner.meta.run
from hardner import checkpoint
from hardner.config import merged, toml
from hardner.errors import HardnerError
from hardner.jobs import RunProgress
from hardner.meta.experiment import EncoderSection, Experiment, experiment
from hardner.meta.log import read_log
from hardner.meta.network import build_network
from hardner.meta.run import RunStatus, run_experiment
from hardner.meta.source_data import load_source_data
from hardner.model.characters import ALPHABET
from hardner.model.describe import load_model
from hardner.model.encoders import vocabulary_of

TINY: dict[str, Any] = {
    "target": "Disease",
    "device": "cpu",
    "data": {"root": str(tiny.ROOT), "layout": "folders"},
    "encoder": {"dimension": 8, "hidden": 6, "letters": 4, "filters": 4, "recurrent": 4},
    "train": {"iterations": 12, "tasks": 2, "shots": 2, "save": 4},
    "devel": {"every": 3, "episodes": 4},
}


def small(**values: Any) -> Experiment:
    return experiment(TINY, values)


def weights(folder: Path, part: str = "state") -> dict[str, torch.Tensor]:
    return dict(checkpoint.load_checkpoint(folder / part).tensors)


def same(one: Path, other: Path) -> bool:
    """Whether two runs ended with the same bits."""
    for part in ("state", "model"):
        left, right = weights(one, part), weights(other, part)
        if left.keys() != right.keys():
            return False
        if not all(torch.equal(left[n], right[n]) for n in left):
            return False
    logs = [[{**vars(e), "seconds": 0} for e in read_log(f / "log.jsonl")] for f in (one, other)]
    return logs[0] == logs[1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing has disturbed."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert run_experiment(small(), folder).finished
    return folder


def test_a_run_leaves_a_log_a_state_and_the_best_model(whole: Path) -> None:
    lines = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "iteration" in line]
    scores = [line for line in lines if "after" in line]
    assert [line["iteration"] for line in steps] == list(range(12))
    assert [line["after"] for line in scores] == [0, 3, 6, 9, 12]
    assert scores[-1]["devel_loss"] < scores[0]["devel_loss"]
    for line in steps:
        assert set(line["losses"]) == {"tag", "domain"}
        assert set(line["weights"]) == {"encoder", "decoder", "critic"}
        assert all(sum(found) == pytest.approx(1) for found in line["weights"].values())
        assert set(line["domains"]) <= {"Drug", "Gene", "Species"}
        assert len(line["domains"]) == 2
    assert sorted(path.name for path in whole.iterdir()) == [
        "experiment.json",
        "log.jsonl",
        "model",
        "state",
    ]


def test_the_model_can_be_loaded_and_is_the_best(whole: Path) -> None:
    tagger, params = load_model(whole / "model")
    assert tagger.domains == ("Drug", "Gene", "Species")
    last = weights(whole)
    assert all(torch.equal(p, last[f"params.{n}"]) for n, p in params.items())


def test_the_same_seed_gives_the_same_bits_and_another_other_ones(
    whole: Path, tmp_path: Path
) -> None:
    run_experiment(small(), tmp_path / "again")
    assert same(whole, tmp_path / "again")
    run_experiment(small(seed=1), tmp_path / "other")
    assert not same(whole, tmp_path / "other")


def test_the_order_of_the_corpora_does_not_matter(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda self: sorted(listed(self), reverse=True))
    run_experiment(small(), tmp_path / "listed")
    assert same(whole, tmp_path / "listed")
    monkeypatch.undo()
    named = {"corpora": ["Species", "Gene", "Disease", "Drug"]}
    run_experiment(small(data=named), tmp_path / "named")
    assert same(whole, tmp_path / "named")


def test_the_target_is_never_read(whole: Path, tmp_path: Path) -> None:
    for name in ("Drug", "Gene", "Species"):
        shutil.copytree(tiny.ROOT / name, tmp_path / "root" / name)
    run_experiment(small(data={"root": str(tmp_path / "root")}), tmp_path / "run")
    assert same(whole, tmp_path / "run")


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """Two corpora of the catalogue, made of the tiny ones; none of the Disease domain."""
    return tiny.write_catalogue_corpora(tmp_path)


def test_the_catalogues_target_is_never_read(known: Path) -> None:
    names = ["NCBI-disease", "BC5CDR-chem", "BC2GM"]
    data = {"root": str(known), "corpora": names}
    source_data = load_source_data(experiment({"target": "disease", "data": data}))
    assert source_data.names == ["Drug", "Gene"]
    by_corpus = {"target": "Disease", "data": data, "decoder": {"per": "corpus"}}
    assert load_source_data(experiment(by_corpus)).names == ["BC2GM", "BC5CDR-chem"]
    merged_ = load_source_data(experiment({**by_corpus, "decoder": {"per": "all"}}))
    assert merged_.names == ["all"]
    assert merged_.tag_sets("IOB2")[0].labels == ("Drug", "Gene")
    with pytest.raises(HardnerError, match="NCBI-disease"):
        load_source_data(experiment({"data": data}))
    with pytest.raises(HardnerError, match=r"no domain is 'Diseese'; there are .*Disease"):
        load_source_data(experiment({"target": "Diseese", "data": data}))
    with pytest.raises(HardnerError, match="no source corpus is left"):
        load_source_data(experiment({"target": "Disease", "data": {**data, "corpora": names[:1]}}))


def test_some_labels_and_most_devel_sentences(known: Path) -> None:
    data = {"root": str(known), "corpora": ["BC5CDR-chem", "BC2GM"]}
    whole = load_source_data(experiment({"data": data}))
    assert whole.devel
    joined = load_source_data(experiment({"data": {**data, "joined": 0.6, "labels": ["Gene"]}}))
    assert joined.devel
    for name in ("Drug", "Gene"):
        train, devel = (m.sentences[name] for m in (whole.train, whole.devel))
        more, rest = (m.sentences[name] for m in (joined.train, joined.devel))
        cut = len(devel) * 6 // 10
        tokens = [s.tokens for s in (*train, *devel)]
        assert [s.tokens for s in more] == tokens[: len(train) + cut]
        assert [s.tokens for s in rest] == tokens[len(train) + cut :]
    labels = {
        span.label for found in joined.train.sentences.values() for s in found for span in s.spans
    }
    assert labels == {"Gene"}


def test_a_corpus_of_many_types_comes_without_those_of_the_target(
    known: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardner.meta.source_data, "MIN_MENTIONS", 2)
    tagged = "a\tB-Cancer\nb\tO\nc\tB-Cell\nd\tI-Cell\ne\tB-Organism\nf\tB-Tissue\n\n"
    (known / "BioNLP13CG").mkdir()
    for split in ("train", "devel", "test"):
        text = tagged * 3 + "a\tB-Organ\n\n"
        (known / "BioNLP13CG" / f"{split}.tsv.xz").write_bytes(lzma.compress(text.encode()))
    table = {
        "target": "Disease",
        "data": {"root": str(known), "corpora": ["BioNLP13CG", "BC2GM"]},
        "decoder": {"per": "corpus"},
    }
    found = load_source_data(experiment(table))
    assert found.tag_sets("IOB2")[1].labels == ("Cell", "Organ", "Organism", "Tissue")
    assert found.train.sentences["BioNLP13CG"][0].tokens == tuple("abcdef")
    by_type = load_source_data(
        experiment({**table, "target": "Species", "decoder": {"per": "type"}})
    )
    assert by_type.names == [
        "BC2GM/Gene",
        *(f"BioNLP13CG/{label}" for label in ("Cancer", "Cell", "Tissue")),
    ]
    for name in by_type.names[1:]:
        labels = {x.label for s in by_type.train.sentences[name] for x in s.spans}
        assert labels == {name.partition("/")[2]}


def test_joined_corpora_come_without_the_part_of_the_target(known: Path) -> None:
    """Both parts have the same sentences, with mentions of a domain each."""
    (known / "BC5CDR-disease").mkdir()
    for split in ("train", "devel", "test"):
        text = lzma.decompress((known / "BC5CDR-chem" / f"{split}.tsv.xz").read_bytes()).decode()
        bare = re.sub(r"\t[BI]-\w+\n", "\tO\n", text)
        other = bare.replace("\tO\n", "\tB-Disease\n", 1)
        (known / "BC5CDR-disease" / f"{split}.tsv.xz").write_bytes(lzma.compress(other.encode()))
    table = {"data": {"root": str(known), "corpora": ["BC5CDR"]}, "decoder": {"per": "corpus"}}
    whole = load_source_data(experiment(table)).tag_sets("IOB2")[0]
    assert (whole.domain, whole.labels) == ("BC5CDR", ("Disease", "Drug"))
    without = load_source_data(experiment({**table, "target": "Disease"})).tag_sets("IOB2")[0]
    assert without.labels == ("Drug",)


class Killed(BaseException):
    """Ends a run where it stands."""


def crashing(monkeypatch: pytest.MonkeyPatch, name: str, call: int, after: bool) -> None:
    """Let a function of the run end it at one of its calls, before or after its work."""
    module = checkpoint if name == "save_checkpoint" else hardner.meta.run
    real, calls = getattr(module, name), 0

    def stand_in(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and not after:
            raise Killed
        result = real(*arguments, **options)
        if calls == call:
            raise Killed
        return result

    monkeypatch.setattr(module, name, stand_in)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", ["save_model", "save_checkpoint", "devel_loss"])
def test_a_run_that_died_around_a_write_ends_as_if_it_had_not(
    name: str, after: bool, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = 0
    for call in (1, 3, 2):
        with monkeypatch.context() as patch:
            crashing(patch, name, call, after)
            try:
                run_experiment(small(), tmp_path / "run")
            except Killed:
                died += 1
    assert died >= 2
    assert run_experiment(small(), tmp_path / "run").finished
    assert same(whole, tmp_path / "run")


def test_a_run_told_to_stop_goes_on_to_the_same_end(whole: Path, tmp_path: Path) -> None:
    on_progress: list[RunProgress] = []
    sittings = 0
    while not run_experiment(
        small(), tmp_path / "run", on_progress.append, stop=lambda: True
    ).finished:
        sittings += 1
        with (tmp_path / "run" / "log.jsonl").open("a") as file:  # written after the state was
            file.write('{"iteration": 99}\n' * 999 + '{"iterat')
    assert sittings == 11
    assert same(whole, tmp_path / "run")
    done = [told.done for told in on_progress]
    assert done == sorted(done)
    assert [told.done for told in on_progress if told.milestone] == [0, 3, 6, 9, 12]


def begun(folder: Path) -> Path:
    """A run of four iterations so far."""
    turns = iter([False] * 3 + [True])
    assert not run_experiment(small(), folder, stop=lambda: next(turns)).finished
    return folder


def test_a_log_that_is_shorter_than_the_state_knows_it_is_refused(tmp_path: Path) -> None:
    log = begun(tmp_path / "run") / "log.jsonl"
    text = log.read_bytes()
    for left in (text[:-1], text[:100], b""):
        log.write_bytes(left)
        with pytest.raises(HardnerError) as error:
            run_experiment(small(), tmp_path / "run")
        sizes = f"{len(left):,} bytes, and state is of {len(text):,}"
        assert str(error.value) == f"{log}: is cut short: {sizes}; delete state to begin again"
        assert log.read_bytes() == left
    shutil.rmtree(tmp_path / "run" / "state")
    assert run_experiment(small(), tmp_path / "run").finished
    assert [e.iteration for e in read_log(log)] == list(range(12))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
def test_a_full_disk_is_one_line_and_the_run_can_go_on(whole: Path, tmp_path: Path) -> None:
    begun(tmp_path / "run")
    for log in (tmp_path / "run" / "log.jsonl", tmp_path / "fresh" / "log.jsonl"):
        log.parent.mkdir(exist_ok=True)
        kept = log.read_bytes() if log.exists() else b""
        (log.parent / "experiment.json").write_text(json.dumps(small().table()))
        log.unlink(missing_ok=True)
        log.symlink_to("/dev/full")
        with pytest.raises(HardnerError) as error:
            run_experiment(small(), log.parent)
        said = "is cut short: 0 bytes" if kept else "no space left on the device"
        assert str(error.value).startswith(f"{log}: {said}")
        log.unlink()
        log.write_bytes(kept)
        assert run_experiment(small(), log.parent).finished
        assert same(whole, log.parent)


@pytest.mark.parametrize(
    ("value", "summed", "said"),
    [
        ({"iteration": 3}, True, "state: is not a state of this run; delete it"),
        ({"best_at": 2}, True, "state: is not a state of this run; delete it"),
        ({"iteration": -1}, False, "state.iteration: expected a whole number at least 0, got -1"),
        ({"iteration": "4"}, False, "state.iteration: expected a whole number at least 0, got '4'"),
        ({"best": "good"}, False, "state.best: expected a number, got 'good'"),
        ({"worst": 1}, False, "state.worst: no such key; "),
    ],
)
def test_an_edited_state_is_refused(
    value: dict[str, Any], summed: bool, said: str, tmp_path: Path
) -> None:
    """One of version 0.1.0 has no checksum, and yet no value that leads to a traceback."""
    path = begun(tmp_path / "run") / "state" / "config.json"
    table = json.loads(path.read_text())
    table["config"]["standing"].update(value)
    if not summed:
        del table["config"]["checksum"]
    path.write_text(json.dumps(table))
    with pytest.raises(HardnerError) as error:
        run_experiment(small(), tmp_path / "run")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_state_of_the_first_version_goes_on(whole: Path, tmp_path: Path) -> None:
    path = begun(tmp_path / "run") / "state" / "config.json"
    table = json.loads(path.read_text())
    del table["config"]["checksum"]
    path.write_text(json.dumps(table))
    assert run_experiment(small(), tmp_path / "run").finished
    assert same(whole, tmp_path / "run")


def waits_for(folder: Path, lines: int, process: subprocess.Popen[str]) -> None:
    """Until the log is that long, or the run has ended."""
    path = folder / "log.jsonl"
    while process.poll() is None:
        if path.is_file() and path.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.005)


def test_kill_at_any_moment(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(toml(merged(TINY, {"train": {"iterations": 99}})))
    command = [sys.executable, "-m", "hardner", "train", str(file), "--out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "400"}

    def start(folder: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, str(folder)], env=environment, stderr=subprocess.PIPE, text=True
        )

    calm, hunted = tmp_path / "calm", tmp_path / "hunted"
    alone = start(calm)
    rng = random.Random(7)
    for number, lines in ((signal.SIGKILL, 8), (signal.SIGINT, 25), (signal.SIGKILL, 45)):
        process = start(hunted)
        waits_for(hunted, lines, process)
        time.sleep(rng.random() * 0.1)
        process.send_signal(number)
        said = process.communicate()[1]
        if number == signal.SIGINT:
            assert process.returncode == 130
            assert f"of 99 iterations; to go on: hardner train {file} --out {hunted}\n" in said
        else:
            assert process.returncode == -signal.SIGKILL
    assert list(read_log(hunted / "log.jsonl"))[-1].iteration < 98
    last = start(hunted)
    said = last.communicate()[1]
    assert (last.returncode, alone.wait()) == (0, 0)
    assert said.splitlines()[-1].startswith(f"{hunted}/model: 99 of 99 iterations, devel loss")
    alone.communicate()
    log = [json.loads(line) for line in (hunted / "log.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in log if "iteration" in line] == list(range(99))
    assert [line["after"] for line in log if "after" in line] == list(range(0, 100, 3))
    assert same(calm, hunted)
    assert sorted(p.name for p in hunted.iterdir()) == sorted(p.name for p in calm.iterdir())


def test_another_experiment_is_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(HardnerError, match=r"holds another run: inner.steps is 1 there and 2 here"):
        run_experiment(small(inner={"steps": 2}), whole)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(HardnerError, match="is not empty and holds no run"):
        run_experiment(small(), tmp_path)
    with pytest.raises(HardnerError, match="cannot be made"):
        run_experiment(small(), tmp_path / "notes.txt")


def test_other_sentences_are_refused(tmp_path: Path) -> None:
    shutil.copytree(tiny.ROOT, tmp_path / "root")
    data = {"root": str(tmp_path / "root")}
    run_experiment(small(data=data), tmp_path / "run", stop=lambda: True)
    path = tmp_path / "root" / "Gene" / "devel.tsv"
    path.write_text(path.read_text().replace("B-Gene", "O", 1))
    with pytest.raises(HardnerError, match="its corpora have changed"):
        run_experiment(small(data=data), tmp_path / "run")


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    def meanwhile(_: RunProgress) -> None:
        with pytest.raises(HardnerError, match="another run is at work"):
            run_experiment(small(), tmp_path / "run")

    run_experiment(small(), tmp_path / "run", meanwhile, stop=lambda: True)


@pytest.mark.parametrize("train", [{"rate": 1e30}, {"rate": 3e38, "save": 1}])
def test_a_loss_that_is_no_number_ends_the_run(train: dict[str, Any], tmp_path: Path) -> None:
    wild = small(train={**train, "clip": 0.0, "warmup": 1.0, "scaled": False, "iterations": 400})
    with pytest.raises(HardnerError, match=r"not finite .*lower train.rate or inner.rate") as error:
        run_experiment(wild, tmp_path / "run")
    assert "\n" not in str(error.value)
    found = list(read_log(tmp_path / "run" / "log.jsonl"))
    assert all(v == v for e in found for losses in e.losses.values() for v in losses)
    if (tmp_path / "run" / "state").exists():
        assert all(t.isfinite().all() for t in weights(tmp_path / "run").values())


def test_patience_ends_a_run_that_does_not_get_better(tmp_path: Path) -> None:
    still = small(train={"rate": 0.0}, devel={"patience": 2})
    standing = run_experiment(still, tmp_path / "run")
    assert standing == RunStatus(9, standing.best, standing.best, 3, 2, finished=True)
    assert run_experiment(still, tmp_path / "run") == standing


def test_without_scoring_the_last_parameters_are_kept(tmp_path: Path) -> None:
    standing = run_experiment(small(devel={"every": 0}), tmp_path / "run")
    assert (standing.finished, standing.best) == (True, None)
    model, state = weights(tmp_path / "run", "model"), weights(tmp_path / "run")
    assert all(torch.equal(tensor, state[f"params.{name}"]) for name, tensor in model.items())


def test_a_blended_encoder_lies_between_its_start_and_what_was_learnt(tmp_path: Path) -> None:
    plan = small(devel={"every": 0}, train={"weight_interpolation": 0.25})
    _, start = build_network(plan, load_source_data(plan))
    run_experiment(plan, tmp_path / "run", stop=lambda: True)
    assert run_experiment(plan, tmp_path / "run").finished
    model, state = weights(tmp_path / "run", "model"), weights(tmp_path / "run")
    for name, tensor in model.items():
        learnt, share = state[f"params.{name}"], 0.25 if name.startswith("encoder.") else 1.0
        torch.testing.assert_close(tensor, (1 - share) * start[name] + share * learnt)


def test_devel_data_must_be_there_to_be_scored(tmp_path: Path) -> None:
    shutil.copytree(tiny.ROOT, tmp_path / "root", ignore=lambda *_: ["devel.tsv"])
    data = {"root": str(tmp_path / "root")}
    with pytest.raises(HardnerError, match=r"devel.every: no source has devel sentences"):
        run_experiment(small(data=data), tmp_path / "run")
    with pytest.raises(HardnerError, match=r"devel data: .* too few for tasks of 10"):
        run_experiment(small(train={"shots": 5}), tmp_path / "other")


def test_word_vectors_are_taken_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 2 3 4 5 6 7 8\ninsulin 8 7 6 5 4 3 2 1\n")
    run_experiment(small(encoder={"vectors": str(path)}), tmp_path / "run", stop=lambda: True)
    table = weights(tmp_path / "run")["params.frozen.words"]
    assert any(torch.equal(row, torch.arange(8.0, 0.0, -1.0)) for row in table[0])
    own = {"vectors": str(path), "letters_from_words": True}
    told: list[int] = []
    afresh = tmp_path / "afresh" / "run"  # beside it no vectors are kept yet
    run_experiment(
        small(encoder=own), afresh, stop=lambda: True, reading=lambda n, _: told.append(n)
    )
    letters = weights(afresh)["params.encoder.characters.table"][0]
    both = torch.stack((torch.arange(1.0, 9.0), torch.arange(8.0, 0.0, -1.0)))
    i_of = 2 + ALPHABET.index("i")  # twice in insulin, not in "the"; t and h only there
    moved = [torch.allclose(letters[i_of], row, atol=0.2) for row in both]
    assert moved == [False, True]
    assert told and told[-1] == path.stat().st_size
    with pytest.raises(HardnerError, match="name a file"):
        small(encoder={"letters_from_words": True})
    with pytest.raises(HardnerError, match=r"have 8 numbers, encoder.dimension is 9"):
        run_experiment(small(encoder={"vectors": str(path), "dimension": 9}), tmp_path / "other")


@pytest.mark.parametrize("unknown", ["own", "shared", "zero"])
def test_words_without_a_vector_are_handled_as_asked(unknown: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 2 3 4 5 6 7 8\ninsulin 8 7 6 5 4 3 2 1\n")
    asked = small(encoder={"vectors": str(path), "unknown": unknown})
    found = load_source_data(asked)
    tagger, params = build_network(asked, found)
    rows = params["frozen.words"][0]
    words = vocabulary_of([s for every in found.train.sentences.values() for s in every])
    known = {"the", "insulin"}
    lacking = [tagger.encoder.look_up(word) for word in words if word.lower() not in known]
    assert (0 in lacking) == (unknown != "own")
    assert len(set(lacking)) == (len(lacking) if unknown == "own" else 1)
    assert torch.equal(rows[tagger.encoder.look_up("the")], torch.arange(1.0, 9.0))
    assert bool(rows[0].any()) == (unknown != "zero")
    assert tagger.encoder.look_up("unheard-of") == 0
    with pytest.raises(HardnerError, match="name a file"):
        EncoderSection(unknown="shared")


@pytest.mark.parametrize("kind", ["bert", "transformer"])
def test_pre_trained_encoders_start_from_their_folder(kind: str, tmp_path: Path) -> None:
    folder = tiny.bert_folder() if kind == "bert" else pretrained(tmp_path / "pretrained")
    slow = {"rate": 0.0, "iterations": 1}
    with pytest.raises(HardnerError, match=rf"encoder.folder: name .* pre-trained {kind}"):
        run_experiment(small(encoder={"kind": kind}), tmp_path / "none")
    run_experiment(
        small(encoder={"kind": kind, "folder": str(folder)}, train=slow), tmp_path / "run"
    )
    found = weights(tmp_path / "run")
    if kind == "transformer":
        for name, tensor in checkpoint.load_checkpoint(folder).tensors.items():
            assert name.startswith("guess.") or torch.equal(found[f"params.{name}"], tensor)
    else:
        for name, tensor in tiny.encoder("bert").init(torch.Generator()).items():
            assert torch.equal(found[f"params.{name}"], tensor)


def pretrained(folder: Path) -> Path:
    """A transformer as `hardner.pretrain.run` leaves it."""
    from dataclasses import asdict

    from hardner.model.transformer import Transformer
    from hardner.pretrain.masked import init_masked

    transformer = Transformer(len(tiny.piece_list()), 16, 2, 2, 32)
    params = init_masked(transformer, torch.Generator().manual_seed(5))
    files = {"tokenizer.json": tiny.tokenizer().to_str()}
    checkpoint.save_checkpoint(folder, params, {"transformer": asdict(transformer)}, files)
    return folder


@pytest.mark.shared("NCBI-disease", "BC2GM", "S800")
def test_real_corpora(tmp_path: Path) -> None:
    table = {
        "target": "Disease",
        "device": "cpu",
        "data": {"root": str(CORPORA)},
        "encoder": {"dimension": 8, "hidden": 6, "letters": 4, "filters": 4, "recurrent": 4},
        "train": {"iterations": 2},
        "devel": {"every": 2, "episodes": 8},
    }
    names = {"corpora": ["NCBI-disease", "BC2GM", "S800"]}
    standing = run_experiment(experiment(table, {"data": names}), tmp_path / "run")
    assert standing.finished
    assert {d for e in read_log(tmp_path / "run" / "log.jsonl") for d in e.domains} == {
        "Gene",
        "Species",
    }


def test_shares_weigh_the_domains_by_name(tmp_path: Path) -> None:
    source_data = load_source_data(small())
    assert source_data.shares(()) == ()
    given = dict(zip(source_data.names, source_data.shares(("Gene=0.5",)), strict=True))
    assert given == {"Drug": 1.0, "Gene": 0.5, "Species": 1.0}
    with pytest.raises(HardnerError, match="no 'Gen'; there are Drug, Gene, Species"):
        source_data.shares(("Gen=1",))
    with pytest.raises(HardnerError, match="expected Gene=NUMBER"):
        source_data.shares(("Gene=much",))
    folders = [tmp_path / name for name in ("even", "uneven")]
    run_experiment(small(method="multitask"), folders[0])
    run_experiment(small(method="multitask", data={"shares": ["Gene=0"]}), folders[1])
    assert not same(*folders)
