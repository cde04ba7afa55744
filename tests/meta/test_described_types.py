"""Labels that mean something: learnt from many types, then a type that nothing was learnt of."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from hardner import checkpoint
from hardner.config import make, merged
from hardner.errors import HardnerError
from hardner.evaluate.score import score
from hardner.meta.experiment import Experiment, load_experiment
from hardner.meta.network import build_network
from hardner.meta.run import run_experiment
from hardner.meta.source_data import load_source_data
from hardner.model.label_encoder import LabelEncoder
from hardner.model.layers import prefixed
from hardner.model.transformer import Transformer
from hardner.pretrain.masked import init_masked
from hardner.pretrain.run import save_encoder
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, Span

STEMS = [a + b + c for a in "bdgkmp" for b in "aeou" for c in "lnrs"]
"""Words of a class begin with its stem, which its description names."""
UNSEEN = STEMS[::12]
KNOWN = [stem for stem in STEMS if stem not in UNSEEN]
FUNCTION = ("the", "of", "and", "was", "with", "seen", "in", "a", "kind")


def sentences(labelled: Sequence[str], count: int, seed: int) -> list[Sentence]:
    """Words of some classes between others; those of a few are labelled, as corpora are."""
    rng, made = random.Random(seed), []
    others = [stem for stem in STEMS if stem not in (*UNSEEN, *labelled)]
    for number in range(count):
        tokens: list[str] = []
        spans = []
        chosen = rng.sample(labelled, 2) + rng.sample(others, 2)
        for stem in rng.sample(chosen, len(chosen)):
            tokens += rng.choices(FUNCTION, k=rng.randint(1, 2))
            words = [stem + rng.choice("xyz") for _ in range(rng.randint(1, 2))]
            if stem in labelled:
                spans.append(Span(len(tokens), len(tokens) + len(words), stem))
            tokens += words
        made.append(Sentence((*tokens, "."), tuple(spans), str(number)))
    return made


def write(path: Path, found: list[Sentence]) -> None:
    text = ""
    for s in found:
        tags = ["O"] * len(s.tokens)
        for start, end, label in s.spans:
            tags[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
        text += "".join(f"{t}\t{g}\n" for t, g in zip(s.tokens, tags, strict=True)) + "\n"
    path.write_text(text, "utf-8")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Corpora of three classes each, all but two, and an encoder that has read nothing."""
    root = tmp_path_factory.mktemp("world")
    pieces = [*tiny.SPECIAL, *STEMS, *FUNCTION, ".", ":", "##x", "##y", "##z"]
    index = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(index, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    transformer = Transformer(len(pieces), 24, 1, 2, 24)
    params = init_masked(transformer, torch.Generator().manual_seed(0))
    params["encoder.pieces"] *= 25  # as far apart as those of a table that was trained
    save_encoder(root / "encoder", transformer, params, tokenizer, {})
    rows = ""
    for number in range(0, len(KNOWN) - 2, 3):
        name, own = f"c{number:02}", KNOWN[number : number + 3]
        (root / name).mkdir()
        write(root / name / "train.tsv", sentences(own, 180, number))
        rows += f'[{name}]\ndomain = "D{number}"\ntrain = {{ path = "train.tsv" }}\n'
        rows += f"[{name}.descriptions]\n"
        rows += "".join(f'{stem} = "a kind of {stem}"\n' for stem in own)
    (root / "catalogue.toml").write_text(rows, "utf-8")
    return root


def described(world: Path, **more: Any) -> Experiment:
    """One decoder a type, and decoders made of labels beside them."""
    table: dict[str, Any] = {
        "method": "multitask",
        "device": "cpu",
        "data": {
            "root": str(world),
            "corpora": sorted(path.parent.name for path in world.glob("c*/train.tsv")),
        },
        "encoder": {"kind": "transformer", "folder": str(world / "encoder"), "frozen": True},
        "decoder": {"kind": "softmax", "per": "type"},
        "devel": {"every": 0},
        "labels": {"weight": 1.0},
    }
    train = {"tasks": 8, "shots": 16, "rate": 1e-2, "scaled": False, "optimizer": "adamw"}
    table["train"] = {**train, "dropout": 0.0, "iterations": 250}
    return make(Experiment, merged(table, more))


def test_a_type_that_nothing_was_learnt_of_is_found_by_its_description(world: Path) -> None:
    run = world / "run"
    assert run_experiment(described(world), run).finished
    tagger = Predictor.load(run / "model")
    assert {*tagger.labels}.isdisjoint(UNSEEN)
    both = tagger.with_types({stem: f"a kind of {stem}" for stem in UNSEEN})
    test = sentences(UNSEEN, 60, 2)  # half of the words are of classes that were learnt
    found = [[s for s, _ in own] for own in both.spans(test, labels=UNSEEN)]
    f1 = score([s.spans for s in test], found).f1
    # By chance: were each description that of another.
    names = dict(zip(UNSEEN, [*UNSEEN[1:], UNSEEN[0]], strict=True))
    exchanged = [[s._replace(label=names[s.label]) for s in own] for own in found]
    chance = score([s.spans for s in test], exchanged).f1
    assert f1 > 0.2 and f1 > 5 * chance
    log = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    losses = [sum(row["losses"]["label"]) / 8 for row in log]
    assert sum(losses[-10:]) < 0.3 * sum(losses[:10])


def quick(world: Path, **more: Any) -> Experiment:
    """A few steps on three of the corpora, in which the encoder learns too."""
    few = {"corpora": ["c00", "c03", "c06"]}
    short = {"iterations": 2, "tasks": 2, "shots": 4, "weight_interpolation": 0.5}
    own = {"data": few, "train": short, "encoder": {"frozen": False}}
    return described(world, **merged(own, more))


def test_a_step_moves_the_encoder_and_the_label_encoder(world: Path) -> None:
    run = world / "moving"
    run_experiment(quick(world), run)
    start = checkpoint.load_checkpoint(world / "encoder").tensors
    ended = checkpoint.load_checkpoint(run / "model").tensors
    assert not torch.equal(ended["encoder.pieces"], start["encoder.pieces"])
    fresh = LabelEncoder(24).init(torch.Generator().manual_seed(0))
    assert {n for n in ended if n.startswith("labels.")} == set(prefixed("labels", fresh))
    # Without the loss, nothing of it is there.
    run_experiment(quick(world, labels={"weight": 0.0}), world / "without")
    plain = checkpoint.load_checkpoint(world / "without" / "model")
    assert not [name for name in plain.tensors if name.startswith("labels.")]
    assert "label_encoder" not in plain.config


def test_a_label_encoder_that_was_trained_goes_on(world: Path) -> None:
    """From a folder that holds one; half-way back to it where that is asked for the encoder."""
    run = world / "first"
    run_experiment(quick(world), run)
    first = checkpoint.load_checkpoint(run / "model").tensors
    again = quick(world, encoder={"folder": str(run / "model")})
    _, begun = build_network(again, load_source_data(again))
    name = "labels.hidden.weight"
    assert torch.equal(begun[name], first[name])
    run_experiment(again, world / "second")
    state = checkpoint.load_checkpoint(world / "second" / "state").tensors[f"params.{name}"]
    kept = checkpoint.load_checkpoint(world / "second" / "model").tensors[name]
    assert not torch.equal(kept, state)
    torch.testing.assert_close(kept, (first[name] + state) / 2)
    # One that began at random has no start to stay near.
    state = checkpoint.load_checkpoint(run / "state").tensors[f"params.{name}"]
    assert torch.equal(first[name], state)


def test_no_label_of_the_target_is_read(world: Path) -> None:
    experiment = quick(world, target="D3")
    found = load_source_data(experiment)
    labels = [label for tag_set in found.tag_sets("IOB2") for label in tag_set.labels]
    target = KNOWN[3:6]
    assert len(labels) == 6 and {*labels}.isdisjoint(target)
    told = " ".join(text for own in found.descriptions.values() for text in own.values())
    assert not [stem for stem in target if stem in told]
    tagger, _ = build_network(experiment, found)
    assert found.label_texts(tagger, "cpu").own.shape == (6, 6)


def test_of_a_corpus_that_mixes_domains_only_the_sources_are_told(world: Path) -> None:
    """Its other labels are of the target, and so is what they mean."""
    text = (world / "catalogue.toml").read_text("utf-8")
    first = text.replace("[c00]\n", f'[c00]\ndomains = {{ {KNOWN[0]} = "D3" }}\n', 1)
    (world / "mixed.toml").write_text(first.replace("[c", "[m"), "utf-8")
    for name in ("00", "03", "06"):
        if not (world / f"m{name}").exists():
            (world / f"m{name}").symlink_to(world / f"c{name}")
    experiment = quick(
        world,
        target="D3",
        data={"catalogue": str(world / "mixed.toml"), "corpora": ["m00", "m03", "m06"]},
    )
    found = load_source_data(experiment)
    told = " ".join(text for own in found.descriptions.values() for text in own.values())
    assert KNOWN[0] not in told and KNOWN[1] in told


def test_methods_that_adapt_within_an_iteration_cannot_learn_labels() -> None:
    for name in ("hgda", "metaner", "multigranularity-alternating"):
        with pytest.raises(HardnerError, match=r"labels.weight: .* take multitask"):
            make(Experiment, {"method": name, "labels": {"weight": 1.0}})
    assert load_experiment("types-described/disease").labels.weight == 1.0
