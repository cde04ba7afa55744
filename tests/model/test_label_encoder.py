"""Decoders made of label texts: what they are, what they learn, and how they are kept."""

from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch

from hardner.errors import HardnerError
from hardner.model.describe import load_model, save_model
from hardner.model.label_encoder import (
    LabelEncoder,
    LabelTexts,
    label_loss,
    label_scores,
    label_sentence,
)
from hardner.model.layers import SCORING, Params
from hardner.model.tagger import Model, Tagger, described_decoder
from hardner.schemes import TagSet
from hardner.types import Sentence, Span


def describing(kind: str = "transformer", scheme: str = "IOB2") -> Tagger:
    """The tiny tagger, with a label encoder and the texts of its labels."""
    bare = tiny.tagger(kind, "softmax", scheme)
    tagger = replace(bare, label_encoder=LabelEncoder(bare.encoder.size, scheme))
    labels = [label for t in tagger.tag_sets for label in t.labels]
    texts = [label_sentence(n, d) for d in ("", "one of its kind") for n in labels]
    same = dict.fromkeys(tagger.domains, "one corpus")
    return replace(tagger, label_texts=LabelTexts.of(bare.store(texts), tagger.tag_sets, same))


@pytest.mark.parametrize(
    ("name", "description", "text"),
    [
        ("cell_line", "", "cell line"),
        ("CellLine", "cells in culture", "cell line : cells in culture"),
        ("DNA", " a molecule ", "DNA : a molecule"),
        ("Multi-tissue_structure", "", "multi - tissue structure"),
    ],
)
def test_a_label_is_read_as_words(name: str, description: str, text: str) -> None:
    assert " ".join(label_sentence(name, description).tokens) == text


def test_a_label_without_a_name_is_refused() -> None:
    with pytest.raises(HardnerError, match="name it"):
        label_sentence(" _ ")


@pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_decoder_is_two_maps_of_the_mean_vector(kind: str, scheme: str) -> None:
    tagger = describing(kind, scheme)
    params = tiny.params(tagger)
    size, tags = tagger.encoder.size, len(TagSet("", ("Device",), scheme).tags)
    made = described_decoder(
        Model(tagger, params), TagSet("new", ("Device",), scheme), {"Device": "a tool"}
    )

    sentence = Sentence(("device", ":", "a", "tool"))
    store = tagger.store([sentence])
    rows = torch.zeros(1, 1, dtype=torch.long)
    encoded = tagger.encoder(params, store.batch(rows, store.widths(rows.numpy())), SCORING)
    mean = encoded.words[0, 0, :4].mean(0)
    own = {n: p[0] for n, p in params.items() if n.startswith("labels.")}
    hidden = torch.nn.functional.gelu(
        own["labels.hidden.weight"] @ mean + own["labels.hidden.bias"]
    )
    start = own["labels.start.weight"] @ hidden + own["labels.start.bias"]
    start = start.view(tags - 1, size + 1)
    assert made["decoder.weight"].shape == (1, 1, tags, size)
    torch.testing.assert_close(made["decoder.weight"][0, 0, 1:], start[:, :-1] / size**0.5)
    torch.testing.assert_close(made["decoder.bias"][0, 0, 1:], start[:, -1])
    assert not made["decoder.weight"][0, 0, 0].any() and made["decoder.bias"][0, 0, 0] == 0


def test_a_head_of_several_labels_has_the_tags_of_each() -> None:
    tagger = describing()
    model = Model(tagger, tiny.params(tagger))
    both = described_decoder(model, TagSet("new", ("A", "B")), {"B": "two"})
    one = described_decoder(model, TagSet("new", ("A",)), {})
    other = described_decoder(model, TagSet("new", ("B",)), {"B": "two"})
    tags = TagSet("new", ("A", "B")).tags
    assert tags == ("O", "B-A", "I-A", "B-B", "I-B")
    for name in both:
        whole = torch.cat((one[name][:, :, :1], one[name][:, :, 1:], other[name][:, :, 1:]), dim=2)
        torch.testing.assert_close(both[name], whole)


def test_a_model_without_a_label_encoder_says_so() -> None:
    tagger = tiny.tagger("transformer")
    with pytest.raises(HardnerError, match="makes no types of their names"):
        described_decoder(Model(tagger, tiny.params(tagger)), TagSet("new", ("A",)), {})
    with pytest.raises(HardnerError, match="IOB2, not IOBES"):
        other = describing()
        described_decoder(Model(other, tiny.params(other)), TagSet("n", ("A",), "IOBES"), {})


def test_the_loss_is_that_of_what_is_known() -> None:
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 4, 5, 3, generator=rng, dtype=torch.float64)
    gold = torch.randint(3, (2, 3, 4, 5), generator=rng)
    known = torch.rand(2, 3, 4, 5, generator=rng) < 0.3
    found = label_loss(scores, gold, known)
    for task in range(2):
        losses = [
            scores[task, b, t, n].logsumexp(0) - scores[task, b, t, n, gold[task, b, t, n]]
            for b, t, n in known[task].nonzero()
        ]
        assert found[task].item() == pytest.approx(torch.stack(losses).mean().item())
    assert label_loss(scores, gold, torch.zeros_like(known)).tolist() == [0, 0]


def test_scores_are_those_of_the_decoders_one_by_one() -> None:
    rng = torch.Generator().manual_seed(0)
    words = torch.randn(2, 3, 4, 6, generator=rng)
    for tasks in (1, 2):
        decoders = {
            "weight": torch.randn(tasks, 5, 3, 6, generator=rng),
            "bias": torch.randn(tasks, 5, 3, generator=rng),
        }
        found = label_scores(words, decoders)
        for task in range(2):
            weight, bias = (p[min(task, tasks - 1)] for p in decoders.values())
            for label in range(5):
                own = words[task] @ weight[label].T + bias[label]
                torch.testing.assert_close(found[task, :, :, label], own)


SETS = (
    TagSet("c/A", ("A",)),
    TagSet("c/B", ("B",)),
    TagSet("d/A", ("A",)),
    TagSet("e", ("A", "B")),
)


def test_targets_say_what_a_corpus_has_looked_for() -> None:
    """Its own label everywhere; another of the same sentences where a mention is not of it."""
    bare = tiny.tagger("transformer", "softmax").with_domains(SETS)
    labels = [label for t in SETS for label in t.labels]
    texts = bare.store([label_sentence(label) for label in labels * 2])
    same = {"c/A": "c", "c/B": "c", "d/A": "d", "e": "e"}
    asked = LabelTexts.of(texts, SETS, same)
    of_a = Sentence(("x", "y", "z"), (Span(0, 2, "A"),))
    both = Sentence(("x", "y"), (Span(0, 1, "A"), Span(1, 2, "B")))
    store = bare.store([of_a, of_a, both], [0, 2, 3])
    rows = torch.tensor([[0, -1], [1, -1], [2, -1]])
    gold, known = asked.targets(store.batch(rows, store.widths(rows.numpy())))
    assert labels == ["A", "B", "A", "A", "B"]
    # c/A: its own A from first word to last; of c/B only that the mention is none.
    assert known[0, 0].T.tolist() == [[True] * 3, [True, True, False], *[[False] * 3] * 3]
    assert gold[0, 0, :, 0].tolist() == [1, 2, 0] and not gold[0, 0, :, 1].any()
    # d/A: another corpus, of whose sentences c knows nothing.
    assert known[1, 0].any(0).tolist() == [False, False, True, False, False]
    # e: one decoder for two labels, each of which is known everywhere.
    assert known[2, 0, :2].all(0).tolist() == [False, False, False, True, True]
    assert gold[2, 0, :2, 3].tolist() == [1, 0] and gold[2, 0, :2, 4].tolist() == [0, 1]
    assert not known[:, 1].any()


@pytest.mark.parametrize("kind", ["transformer", "bilstm"])
def test_gradients_of_the_label_loss_by_finite_differences(kind: str) -> None:
    tagger = describing(kind)
    params, batch = tiny.params(tagger), tiny.batch(tagger, 2, 2)

    def loss(params: Params) -> torch.Tensor:
        torch.manual_seed(0)  # the same names and descriptions each time
        return tagger.losses(params, batch, ["label"])["label"].sum()

    leaves = {n: p.clone().requires_grad_() for n, p in params.items()}
    slopes = torch.autograd.grad(loss(leaves), [*leaves.values()], allow_unused=True)
    grads = dict(zip(leaves, slopes, strict=True))
    rng = torch.Generator().manual_seed(1)
    moved = [n for n in params if n.startswith(("labels.", "encoder."))]
    for name in moved:
        step = torch.randn(params[name].shape, generator=rng, dtype=torch.float64)
        h = 1e-6
        ahead, behind = (loss(params | {name: params[name] + s * step}) for s in (h, -h))
        own = grads[name]
        assert own is not None
        expected = ((ahead - behind) / (2 * h)).item()
        assert (own * step).sum().item() == pytest.approx(expected, rel=1e-5, abs=1e-8), name
    assert all(grads[n] is None for n in params if n.startswith("decoder."))


def test_tasks_with_encoders_of_their_own_read_the_labels_by_them() -> None:
    tagger = describing()
    params, batch = tiny.params(tagger, 2), tiny.batch(tagger, 2, 2)
    torch.manual_seed(0)
    both = tagger.losses(params, batch, ["label"])["label"]
    for task in range(2):
        torch.manual_seed(0)
        own = {n: p[task : task + 1] for n, p in params.items()}
        alone = tagger.losses(own, batch, ["label"])["label"]
        torch.testing.assert_close(both[task], alone[task])


def test_a_folder_keeps_the_label_encoder(tmp_path: Path) -> None:
    tagger = describing()
    params = tiny.params(tagger, dtype=torch.float32)
    save_model(tmp_path / "model", tagger, params)
    other, found = load_model(tmp_path / "model")
    assert other.label_encoder == tagger.label_encoder and other.label_texts is None
    device = TagSet("new", ("Device",))
    for name, value in described_decoder(Model(tagger, params), device, {}).items():
        same = described_decoder(Model(other, found), device, {})[name]
        torch.testing.assert_close(value, same)
    save_model(tmp_path / "int8", tagger, params, dtype=torch.int8)
    assert load_model(tmp_path / "int8")[0].label_encoder == tagger.label_encoder


def test_a_label_encoder_of_another_size_is_refused(tmp_path: Path) -> None:
    tagger = replace(describing(), label_encoder=LabelEncoder(8))
    save_model(tmp_path / "model", tagger, tagger.init())
    with pytest.raises(HardnerError, match="reads other vectors"):
        load_model(tmp_path / "model")
