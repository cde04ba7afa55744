"""Kinds of input beside annotated text: models, runs, results, experiments and what tagging notes.

Seeds are made small, so that thousands of them can be loaded and gone on with.
"""

import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import tiny
from evaluate.made import of_f1, result
from fuzz.kinds import DOCUMENTS, Kind, contents
from fuzz.mutate import Files
from pretrain.sayings import write as write_sayings
from tag.small_models import predictor

from hardner import checkpoint
from hardner.config import toml
from hardner.corpora import Corpora
from hardner.evaluate.render import RENDERERS
from hardner.evaluate.results import ResultFile, load_results
from hardner.evaluate.table import build_tables
from hardner.formats import Report, write
from hardner.meta.experiment import experiment, load_experiment
from hardner.meta.log import read_log
from hardner.meta.network import build_network
from hardner.meta.run import run_experiment
from hardner.meta.source_data import load_source_data
from hardner.model.huggingface import BertEncoder
from hardner.model.tagger import Model
from hardner.pretrain.masked import Pretraining
from hardner.pretrain.run import PretrainingPlan, run_pretraining
from hardner.scale import TagJob, tag_files
from hardner.scale.resume import FinishedInputs, growing_file
from hardner.tag.added_heads import add_heads
from hardner.tag.predictor import Predictor
from hardner.vectors import load_vectors

TEXT = "Aspirin may worsen asthma in mice, and BRCA1 is a gene."
TRAINING: dict[str, Any] = {
    "target": "Disease",
    "device": "cpu",
    "data": {"root": str(tiny.ROOT), "layout": "folders", "corpora": ["Drug", "Gene"]},
    "encoder": {"dimension": 4, "hidden": 2, "letters": 2, "filters": 2, "recurrent": 2},
    "train": {"iterations": 4, "tasks": 2, "shots": 2, "save": 2},
    "devel": {"every": 2, "episodes": 2},
}
PLAN = PretrainingPlan(
    vocabulary=120,
    size=8,
    layers=1,
    heads=1,
    inner=8,
    training=Pretraining(steps=4, rows=2, width=16, rate=1e-2),
)
CATALOGUE = """[Devices]
domain = "Disease"
folder = "Disease"
format = "conll"
licence = "none"
labels = { Disease = "D" }
train = { path = "train.tsv" }
test = { path = "test.tsv", sha256 = "0" }
hold_out = ["devel"]

[Both]
joins = ["Devices", "Devices"]
"""


def folder_kinds(work: Path) -> list[Kind]:
    """Those that are no annotated text; shares are by how long one takes."""
    work = work.resolve()
    work.mkdir(exist_ok=True)
    text = write_sayings(work / "text.txt", 40)
    source = work / "in.jsonl"
    write(DOCUMENTS, source, report=Report())
    model = work / "model"
    predictor("bilstm").save(model)
    job = TagJob(str(model))
    return [
        Kind("model folder", _models(work), _tag, 1.0, _with_sums),
        Kind("BERT folder", [contents(tiny.bert_folder())], BertEncoder.load, 0.1),
        Kind("training run", [_training_run(work)], _go_on_training, 0.2, _with_sums),
        Kind(
            "pre-training run", [_pretraining_run(work, text)], _pretraining(text), 0.2, _with_sums
        ),
        Kind("run log", [_log(work)], lambda path: list(read_log(path)), 0.5),
        Kind("results", [_results(work)], _table, 1.0),
        Kind("experiment", _experiments(), _build, 1.0),
        Kind("catalogue", [{"catalogue.toml": CATALOGUE.encode()}], _catalogue, 0.5),
        Kind("shards", [_shards(work, source, job)], _go_on_tagging(source, job), 0.5),
        Kind("unfinished tagging", [_unfinished(source)], _resume(source), 0.5),
        Kind("word vectors", _vectors(), _load_vectors, 1.0),
    ]


def _models(work: Path) -> list[Files]:
    seeds = []
    plain = predictor("transformer")
    noise = {n: p + 0.1 if "encoder" in n else p for n, p in plain.params.items()}
    one = plain.tagger.with_domains([replace(plain.tagger.tag_sets[0], domain="New")])
    first = {n: p[:, :1] if n.startswith("decoder") else p for n, p in noise.items()}
    both = add_heads(Model(plain.tagger, plain.params), Model(one, first))
    made = [predictor("bilstm"), predictor("bigru", decoder="softmax"), plain]
    made.append(Predictor(both.tagger, both.params))
    for number, one_of in enumerate(made):
        one_of.save(work / f"model-{number}")
        seeds.append(contents(work / f"model-{number}"))
    held = checkpoint.load_checkpoint(work / "model-2")
    cut = work / "cut"
    arguments = held.tensors, held.config, held.files
    checkpoint.save_checkpoint(cut, *arguments, shard_bytes=20_000)
    return [*seeds, contents(cut)]


def _with_sums(files: dict[str, bytes]) -> Files:
    """Sizes and checksums in each ``config.json`` as the files beside it are."""
    made = dict(files)
    for name, content in files.items():
        folder, _, last = name.rpartition("config.json")
        try:
            held = json.loads(content) if not last and name.endswith("config.json") else {}
            for key, sums in (("sizes", len), ("checksums", _sha256)):
                for inner in held.get(key, {}):
                    if folder + inner in files:
                        held[key][inner] = sums(files[folder + inner])
            if held:
                if checkpoint.CHECKSUM in held["config"]:
                    del held["config"][checkpoint.CHECKSUM]
                    held["config"] = checkpoint.with_checksum(held["config"])
                made[name] = json.dumps(held).encode()
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue  # too damaged to hold any
    return made


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _tag(path: Path) -> None:
    Predictor.load(path)(TEXT)


def _training_run(work: Path) -> Files:
    folder = work / "run"
    asked = iter([False, False, True])
    run_experiment(experiment(TRAINING), folder, stop=lambda: next(asked))
    return _without_lock(contents(folder))


def _go_on_training(path: Path) -> None:
    run_experiment(experiment(TRAINING), path)


def _pretraining_run(work: Path, text: Path) -> Files:
    folder = work / "pretraining"
    asked = iter([False, False, True])
    run_pretraining([text], folder, PLAN, device="cpu", every=2, stop=lambda: next(asked))
    return _without_lock(contents(folder))


def _pretraining(text: Path) -> Callable[[Path], object]:
    return lambda path: run_pretraining([text], path, PLAN, device="cpu")


def _without_lock(files: Files) -> Files:
    return {name: content for name, content in files.items() if not name.startswith(".hardner-")}


def _log(work: Path) -> Files:
    return {"log.jsonl": (work / "run" / "log.jsonl").read_bytes()}


def _results(work: Path) -> Files:
    path = work / "results.jsonl"
    made = [of_f1(5 + n % 3, sample=n, method=m) for n in range(3) for m in ("HGDA", "MetaNER")]
    made += [
        result(size=0.1, protocol="shares"),
        result("hardner", "BC2GM", labels={"x": [1, 2, 3]}),
    ]
    ResultFile(path).append(made)
    return {"results.jsonl": path.read_bytes()}


def _table(path: Path) -> None:
    results = load_results([path])
    for metric in ("f1", "recall"):
        tables = build_tables(results, metric, "")
        for rendered in RENDERERS.values():
            rendered(tables)


def _experiments() -> list[Files]:
    names = ("hgda/disease", "maml/gene", "metaner/disease")
    tables = [load_experiment(name).table() for name in names]
    small = experiment(TRAINING).table()
    as_toml: list[Files] = [{"x.toml": toml(t).encode()} for t in (TRAINING, small, *tables)]
    return [*as_toml, {"x.json": json.dumps(small).encode()}]


def _build(path: Path) -> None:
    """Up to the network, where the corpora are those of the tests."""
    found = load_experiment(path)
    if found.data.root == str(tiny.ROOT):
        build_network(found, load_source_data(found), path.parent / "vectors")


def _catalogue(path: Path) -> None:
    corpora = Corpora.under(tiny.ROOT, path)
    for name in ("Devices", "Both"):
        if corpora.holds(name):
            corpora.load(name, Report())


def _shards(work: Path, source: Path, job: TagJob) -> Files:
    tag_files([source], work / "out", job, shard=1)
    made = dict(contents(work / "out"))
    del made["receipts/part-000001.jsonl.json"], made["manifest.json"]
    made["attempts/part-000001.jsonl.json"] = b'{"begun": 2, "deaths": {"0": 1}, "at": "0"}'
    return made


def _go_on_tagging(source: Path, job: TagJob) -> Callable[[Path], object]:
    def go_on(path: Path) -> None:
        tag_files([source], path, job, shard=1)

    return go_on


def _unfinished(source: Path) -> Files:
    (source.parent / "done").mkdir()
    line = FinishedInputs(source.parent / "done", "settings", resume=False)
    line.add(str(source))
    return {
        ".hardner-tag": (source.parent / "done" / ".hardner-tag").read_bytes(),
        "out.jsonl.part": source.read_bytes()[:-20],
        "out.jsonl.part.job": b'["settings", "stamp"]',
    }


def _resume(source: Path) -> Callable[[Path], object]:
    def resume(path: Path) -> None:
        folder = path if path.is_dir() else path.parent
        FinishedInputs(folder, "settings", resume=True).holds(str(source), source)
        with growing_file(folder / "out.jsonl", '["settings", "stamp"]', resume=True) as (file, _):
            file.write(b"{}\n")

    return resume


WORDS = {"the": (1.0, 2.0, 3.0), "Aspirin": (0.5, -1.0, 2.0), "é漢": (0.0, 1.0, -1.0)}


def _vectors() -> list[Files]:
    rows = [f"{word} {' '.join(map(str, numbers))}" for word, numbers in WORDS.items()]
    packed = [f"{w} ".encode() + struct.pack("<3f", *n) + b"\n" for w, n in WORDS.items()]
    return [
        {"vectors.txt": "\n".join(rows).encode()},
        {"vectors.vec": "\n".join(["3 3", *rows]).encode()},
        {"vectors.bin": b"3 3\n" + b"".join(packed)},
        {"fasttext.bin": fasttext()},
    ]


def fasttext() -> bytes:
    from test_vectors import fasttext_bytes

    return fasttext_bytes()


def _load_vectors(path: Path) -> None:
    load_vectors(path, [*WORDS, "a", "b", "unknown"])
