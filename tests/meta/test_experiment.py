"""Experiments: every key checked, presets under files under overrides, and the named ones."""

import json
import tomllib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hardner import checkpoint
from hardner.catalogue import builtin_rows
from hardner.cli import app
from hardner.config import merged, parse_key, toml
from hardner.errors import HardnerError
from hardner.meta.experiment import (
    DataSection,
    DevelSection,
    EncoderSection,
    Experiment,
    InnerSection,
    TrainSection,
    experiment,
    experiment_tables,
    load_experiment,
    read_experiment,
    run_name,
    training_presets,
)
from hardner.meta.methods import METHODS
from hardner.meta.source_data import load_source_data

ROOT = Path(__file__).parents[2]


def refused(table: dict[str, object]) -> str:
    with pytest.raises(HardnerError) as found:
        experiment(table)
    assert "\n" not in str(found.value)
    return str(found.value)


def digest(name: str) -> str:
    table = load_experiment(name).table()
    # Younger than the rows.
    assert table["data"].pop("catalogue") == ""
    assert table["encoder"].pop("unknown") == "own"
    assert table["train"].pop("per_iteration") == 0
    assert table.pop("hardness") == {"temperature": 1.0, "by_sentence": False}
    assert table.pop("labels") == {"weight": 0.0}
    return sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        ("hgda/disease", "1fcc7b2e63ffa388"),
        ("types/gene", "09d9395a42703bba"),
        ("types-hgda/drug", "e9a14e2827de2f5e"),
        ("metaner-lambda-0.2/heterogeneous", "d67c93eed921f2dc"),
        ("mtbioner/four-bilstm", "bc24290bb039cfa1"),  # both types of BC5CDR, eight passes
        ("multigranularity-cls/bc2gm", "c9546684cb97211f"),
        ("metaner/full", "ff4cc028f9277d28"),
        ("multitask/genes", "b11826018a3b0c55"),
        ("wpz/heterogeneous", "63d577018975b4b0"),
        ("bundled", "97542d71d7f02431"),
        ("start", "5fd7961b93877289"),
    ],
)
def test_named_experiments_are_those_that_the_published_rows_ran(name: str, recorded: str) -> None:
    assert digest(name) == recorded


@pytest.mark.parametrize("name", experiment_tables())
def test_each_named_experiment_loads(name: str) -> None:
    found = load_experiment(name)
    assert (found.data.layout, found.data.root) in (
        ("catalogue", "../shared/corpora"),
        ("folders", "runs/genes"),
    )
    assert set(found.data.corpora) <= set(builtin_rows()) or found.data.layout == "folders"
    assert run_name(name) == name.replace("/", "-")


def test_the_encoder_that_experiments_start_from_is_there_and_is_what_the_page_says() -> None:
    folder = "experiments/encoder"
    assert load_experiment("types/disease").encoder.folder == folder
    config = checkpoint.load_checkpoint(ROOT / folder).config
    last = config["history"][-1]
    page = (ROOT / "docs" / "pretraining.md").read_text("utf-8")
    assert last["step"] == config["pretraining"]["steps"]
    assert f"`{folder}` is such a result, of {last['step']:,} steps" in page
    assert f"The mean loss of its last 1,000 steps was {last['loss']:.2f}." in page


def test_named_experiments_cover_every_method_and_target() -> None:
    found = [load_experiment(name) for name in experiment_tables()]
    assert {e.method for e in found} == set(METHODS)
    for name in ("hgda", "hgda-nes", "hgda-both", "metaner", "maml", "multitask", "dann", "wpz"):
        targets = {e.target for e in found if e.method == name}
        assert targets >= {"Disease", "Drug", "Gene", "Species"}


def test_a_name_or_a_file_can_be_loaded_with_overrides(tmp_path: Path) -> None:
    named = load_experiment("hgda/gene", parse_key(Experiment, "inner.steps", "3"))
    assert (named.target, named.inner.steps) == ("Gene", 3)
    path = tmp_path / "my.own.toml"
    path.write_text(toml(named.table()))
    assert load_experiment(path) == named
    assert run_name(path) == "my.own"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("hgda/diseases", "hgda/disease"),
        ("hgda-disease", "hgda/disease"),
        ("metaner", "metaner/gene"),
    ],
)
def test_an_unknown_name_is_told_the_nearest(name: str, near: str) -> None:
    with pytest.raises(HardnerError) as found:
        load_experiment(name)
    said = str(found.value)
    assert said.startswith(f"{name}: no such file or folder, and no experiment has that name; ")
    assert near in said
    assert "\n" not in said


def test_the_list_shows_what_a_pattern_matches() -> None:
    done = CliRunner().invoke(app, ["experiments", "hgda*/disease"], env={"COLUMNS": "120"})
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["hgda/disease", "hgda", "paper", "bilstm", "Disease"] in rows
    assert all("/disease" in row[0] for row in rows[1:])
    everything = json.loads(CliRunner().invoke(app, ["experiments", "--json"]).stdout)
    assert [row.pop("name") for row in everything] == list(experiment_tables())
    assert [experiment(row) for row in everything] == [*map(load_experiment, experiment_tables())]
    nothing = CliRunner().invoke(app, ["experiments", "hgda/deseases"])
    assert str(nothing.exception) == "no experiment's name holds 'hgda/deseases'"


def test_what_is_shown_trains_the_same_when_saved(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["train", "types-hgda/drug", "--show", "--seed", "4"])
    path = tmp_path / "mine.toml"
    path.write_text(done.stdout)
    assert load_experiment(path) == load_experiment("types-hgda/drug", {"seed": 4})


def test_the_papers_values() -> None:
    """HGDA's appendix; MetaNER, section 5.1.2; MT-BioNER and multi-granularity, sections 4.2."""
    hgda = experiment({"train": {"shots": 8}})
    assert hgda.training().rate == pytest.approx(0.005)  # 1e-2 * sqrt(8 / 32)
    assert hgda.build_method().objective.inner.rate == pytest.approx(0.005)
    assert hgda.training().optimizer.momentum == 0.9
    assert hgda.training().optimizer.weight_decay == 1e-6
    assert (hgda.training().clip, hgda.training().dropout, hgda.inner.weight) == (5.0, 0.2, 1.0)
    sizes = hgda.encoder
    assert sizes.dimension + sizes.filters + sizes.recurrent == 300
    assert (sizes.hidden, hgda.decoder.kind, hgda.decoder.scheme) == (128, "crf", "IOB2")
    bert = experiment({"encoder": {"kind": "bert"}, "train": {"shots": 32}})
    assert (bert.training().rate, bert.decoder.kind, bert.encoder.limit) == (1e-5, "softmax", 256)
    metaner = experiment({"method": "metaner", "preset": "metaner"})
    assert (metaner.encoder.kind, metaner.decoder.scheme) == ("bigru", "IOBES")
    assert (metaner.build_method().objective.inner.rate, metaner.training().rate) == (1e-4, 1e-3)
    assert (metaner.encoder.filters, metaner.encoder.recurrent) == (100, 0)
    assert metaner.encoder.train_words
    assert (metaner.train.dropout, metaner.inner.weight) == (0.5, 0.8)
    own = load_experiment("metaner-own/gene-20")  # the same on HGDA's network
    assert (own.encoder.kind, own.encoder.dimension, own.decoder.scheme) == ("bilstm", 200, "IOB2")
    assert (own.inner.rate, own.train.rate, own.inner.weight) == (1e-4, 1e-3, 0.8)
    first = load_experiment("metabioner/drug-50")
    assert (first.inner.rate, first.training().rate) == (1e-5, 1e-5)  # the same for every K
    assert (first.train.optimizer, first.encoder.letters_from_words) == ("adamw", True)
    khan = experiment({"method": "multitask", "preset": "mtbioner"})
    assert (khan.training().rate, khan.train.warmup, khan.train.shots) == (5e-5, 0.4, 32)
    assert (khan.decoder.per, khan.encoder.limit) == ("corpus", 128)
    tong = experiment({"method": "multigranularity", "preset": "multigranularity"})
    assert (tong.training().rate, tong.train.warmup, tong.train.dropout) == (5e-5, 0.1, 0.1)


@pytest.mark.parametrize("shots", [5, 10, 20, 50, 100])
def test_compared_methods_learn_from_as_many_sentences_an_iteration(shots: int) -> None:
    """One model for each K, by HGDA's section 3.2 and Eq. 3."""
    for name in ("hgda", "hgda-nes", "maml", "metaner", "metaner-without-critic", "metabioner"):
        found = load_experiment(f"{name}/gene-{shots}")
        of = 3 if "metaner" in name else 2  # two supports and a query; one of each
        assert (found.train.shots, found.tasks * of) == (shots, 24)
        if name == "hgda":
            assert found.training().rate == pytest.approx(0.01 * (shots / 32) ** 0.5)
    said = "hgda's tasks of 5 shots are of 10 sentences; name a multiple of that"
    assert said in refused({"train": {"per_iteration": 25}})
    plain = experiment({"method": "multitask", "train": {"per_iteration": 25}})
    assert (plain.tasks, experiment({}).tasks) == (5, 8)


@pytest.mark.parametrize("name", training_presets())
@pytest.mark.parametrize("kind", ["bilstm", "bigru", "transformer", "bert"])
def test_every_preset_fits_every_encoder(name: str, kind: str) -> None:
    assert experiment({"preset": name, "encoder": {"kind": kind}}).encoder.kind == kind


def test_overrides_replace_the_file_and_the_file_the_preset() -> None:
    table = {"preset": "best", "train": {"rate": 0.5, "tasks": 2}}
    assert experiment(table).train.optimizer == "adamw"
    over = merged(
        parse_key(Experiment, "train.rate", "0.25"), parse_key(Experiment, "preset", "paper")
    )
    found = experiment(table, over)
    assert (found.train.rate, found.train.tasks, found.train.optimizer) == (0.25, 2, "sgd")


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("inner.steps", "3", 3),
        ("train.rate", "1e-3", 1e-3),
        ("train.rate", "1", 1.0),
        ("encoder.train_words", "true", True),
        ("data.corpora", "S800, LINNAEUS", ("S800", "LINNAEUS")),
        ("data.root", "17", "17"),
        ("seed", "-4", -4),
        ("target", "", ""),
    ],
)
def test_overrides_are_read_by_the_type_of_their_key(key: str, text: str, expected: object) -> None:
    section, _, name = key.rpartition(".")
    table = parse_key(Experiment, key, text)
    found = table[section][name] if section else table[name]
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("inner.stepz", "3", "inner.stepz: no such key; [inner] has steps, rate, optimizer"),
        ("iner.steps", "3", "iner: no such key; an experiment has method, preset, target"),
        ("inner.steps", "three", "inner.steps: expected a whole number 1 to 10,000, got 'three'"),
        ("inner.steps", "0", "inner.steps: expected a whole number 1 to 10,000, got '0'"),
        ("inner.steps.more", "1", "inner.steps.more: no such key; inner.steps is a value"),
        ("inner", "1", "inner: a section, not a value; it has steps, rate"),
        ("encoder.train_words", "yes", "encoder.train_words: expected true or false, got 'yes'"),
        ("train.dropout", "2", "train.dropout: expected a number 0 to 1, got '2'"),
        ("train.dropout", "nan", "train.dropout: expected a number 0 to 1, got 'nan'"),
        ("device", "tpu", 'device: expected "auto" or "cpu" or "cuda", got \'tpu\''),
    ],
)
def test_wrong_overrides_are_refused(key: str, text: str, said: str) -> None:
    with pytest.raises(HardnerError) as found:
        parse_key(Experiment, key, text)
    assert str(found.value).startswith(said)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"methd": "hgda"}, "methd: no such key; an experiment has method"),
        ({"train": {"shot": 5}}, "train.shot: no such key; [train] has iterations, tasks, shots"),
        ({"train": 5}, "train: expected a section [train], got 5"),
        ({"train": {"shots": "5"}}, "train.shots: expected a whole number 1 to 10,000, got '5'"),
        ({"train": {"shots": True}}, "train.shots: expected a whole number 1 to 10,000, got True"),
        ({"train": {"shots": 5.0}}, "train.shots: expected a whole number 1 to 10,000, got 5.0"),
        ({"train": {"rate": -1}}, "train.rate: expected a number at least 0, got -1.0"),
        ({"data": {"corpora": "S800"}}, "data.corpora: expected a list of texts, got 'S800'"),
        ({"data": {"corpora": [1]}}, "data.corpora: expected a list of texts, got (1,)"),
        ({"encoder": {"kind": "lstm"}}, 'encoder.kind: expected "bilstm" or "bigru"'),
        ({"encoder": {"recurrent": 5}}, "encoder.recurrent: two directions share it"),
        ({"method": "sgd"}, "method: none is 'sgd'; there are hgda, hgda-nes"),
        ({"preset": "worst"}, "preset: none is 'worst'; there are paper, metaner"),
        ({"preset": 1}, "preset: expected a text, got 1"),
        ({"method": "wpz"}, "decoder.kind: wpz compares words one by one"),
        ({"encoder": {"frozen": True}}, "encoder.frozen: hgda learns through the encoder"),
        ({"granularity": {"tag": 0}}, "granularity.tag: expected above 0"),
        (
            {"method": "metaner", "inner": {"meta_gradient": "implicit", "proximal": 1}},
            "implicit meta-gradients need an inner problem that minimises one function",
        ),
        ({"method": "maml", "inner": {"meta_gradient": "implicit"}}, "implicit meta-gradients"),
    ],
)
def test_wrong_values_are_refused_and_the_file_is_named(
    table: dict[str, object], said: str, tmp_path: Path
) -> None:
    assert refused(table).startswith(said)
    path = tmp_path / "x.toml"
    path.write_text(toml(table))
    with pytest.raises(HardnerError) as found:
        read_experiment(path)
    assert str(found.value).startswith(f"{path}: {said}"[:60])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: InnerSection(steps=0),
        lambda: TrainSection(rate=float("nan")),
        lambda: DevelSection(every=1.5),
        lambda: DataSection(layout="zip"),
        lambda: EncoderSection(hidden="big"),
        lambda: Experiment(inner=TrainSection()),
        lambda: replace(Experiment(), device="gpu"),
    ],
)
def test_values_are_checked_however_they_are_made(wrong) -> None:
    with pytest.raises(HardnerError, match="expected"):
        wrong()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.toml", f"[train]\nrate = 1{'0' * 400}", "train.rate: expected a number at least 0"),
        ("x.toml", "[train]\nrate = inf", "train.rate: expected a number at least 0, got inf"),
        ("x.toml", "inner = 3", "inner: expected a section [inner], got 3"),
        ("x.toml", 'encoder = "x"', "encoder: expected a section [encoder], got 'x'"),
        ("x.toml", f"seed = {'9' * 5_000}", "cannot be read: Exceeds the limit (4300 digits)"),
        ("x.toml", f"seed = 0x{'f' * 5_000}", "seed: expected a whole number -9223372036854775808"),
        ("x.toml", f"seed = {2**63}", "seed: expected a whole number -9223372036854775808"),
        ("x.toml", f"seed = {'[' * 100_000}", "cannot be read: maximum recursion depth"),
        ("x.toml", '[data]\nroot = "a\\u0000b"', "data.root: expected a text, got 'a\\x00b'"),
        ("x.json", "[]", "damaged: not a JSON object"),
        ("x.json", "5", "damaged: not a JSON object"),
        ("x.json", "[" * 100_000, "damaged, not JSON: maximum recursion depth"),
        ("x.json", '{"seed": ' + "9" * 5_000 + "}", "damaged, not JSON: Exceeds the limit"),
        ("x.json", '{"inner": []}', "inner: expected a section [inner], got []"),
        *(
            (
                "x.toml",
                f"[{section}]\n{key} = {10**18}",
                f"{section}.{key}: expected a whole number",
            )
            for section, key in [
                *(("encoder", n) for n in ("dimension", "hidden", "letters", "filters", "limit")),
                *(("train", n) for n in ("iterations", "tasks", "shots", "save")),
                *(("devel", n) for n in ("every", "episodes", "patience")),
                *(("encoder", "recurrent"), ("inner", "steps")),
            ]
        ),
    ],
)
def test_a_damaged_file_is_one_line(name: str, text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(HardnerError) as found:
        read_experiment(path)
    assert str(found.value).startswith(f"{path}: {said}")
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 500


@pytest.mark.parametrize("key", ["data.root", "data.catalogue", "data.corpora"])
@pytest.mark.parametrize("layout", ["catalogue", "folders"])
def test_names_that_are_too_long_for_files_are_one_line(key: str, layout: str) -> None:
    data = {"root": "../nowhere", "layout": layout}
    over = merged({"data": data}, parse_key(Experiment, key, "x" * 300))
    with pytest.raises(HardnerError) as found:
        load_source_data(experiment(over))
    assert "\n" not in str(found.value)


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("method = \n")
    with pytest.raises(HardnerError, match=r"x\.toml: cannot be read: .*line 1"):
        read_experiment(path)
    with pytest.raises(HardnerError, match="no such file"):
        read_experiment(tmp_path / "y.toml")


def test_an_experiment_survives_toml_and_json(tmp_path: Path) -> None:
    found = experiment({"preset": "best", "data": {"corpora": ['a "b" \\ é']}, "seed": 3})
    text = toml(found.table())
    assert tomllib.loads(text) == found.table()
    path = tmp_path / "x.toml"
    path.write_text(text, "utf-8")
    assert read_experiment(path) == found


@pytest.mark.parametrize("table", [3, [], "x", [""]])
def test_settings_that_are_no_table_are_one_line(table: object) -> None:
    with pytest.raises(HardnerError, match="expected a table of settings, got"):
        merged(table, {})  # type: ignore[arg-type]
