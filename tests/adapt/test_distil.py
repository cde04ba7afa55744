"""A small network that is taught by a large one."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from tag.small_models import predictor

from hardner.adapt.distil import (
    _LONGEST,
    Distillation,
    _batches,
    _drop_words,
    _Lesson,
    distil_predictor,
    distil_tagger,
)
from hardner.adapt.students import Student, choose_text, layers_of, lower_layers
from hardner.errors import HardnerError
from hardner.evaluate.score import score
from hardner.model.characters import Characters
from hardner.model.layers import SCORING, Params
from hardner.model.tagger import Model, Tagger
from hardner.schemes import TagSet
from hardner.tag.added_heads import add_heads
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, Span

TEXTS = tiny.everything()[0][::4]
SMALL = Student(500, 24, Characters(embedding=8, filters=16, widths=(2, 3)), 32)
TEACHER = predictor("transformer")


def student() -> Tagger:
    return SMALL.tagger(TEXTS, TEACHER.tagger.tag_sets)


def spans(model: Predictor) -> list[list[Span]]:
    return [[span for span, _ in row] for row in model.spans(TEXTS)]


def taught(how: Distillation, told: list[tuple[int, float]] | None = None) -> Params:
    on_progress = None if told is None else lambda step, loss: told.append((step, loss))
    return distil_tagger(
        (TEACHER.tagger, TEACHER.params), student(), TEXTS, how, on_progress=on_progress
    )


def test_the_student_learns_what_the_teacher_says() -> None:
    told: list[tuple[int, float]] = []
    how = Distillation(steps=250, batch=32, rate=1e-2, dropout=0.0, unseen=0.0)
    tagger = student()
    after = Predictor(tagger, taught(how, told))
    before = Predictor(tagger, tagger.init(0))
    right = spans(TEACHER)
    assert sum(map(len, right)) > 30
    assert score(right, spans(before)).f1 < 0.3
    assert score(right, spans(after)).f1 > 0.9
    assert [step for step, _ in told] == [50, 100, 150, 200, 250]
    assert told[-1][1] < told[0][1]


HOW = Distillation(steps=100, batch=16, rate=5e-3, dropout=0.0)


def test_a_teacher_that_is_cut_off_learns_what_it_has_lost() -> None:
    whole = Model(TEACHER.tagger, TEACHER.params)
    assert layers_of(whole.tagger) == 2
    cut = lower_layers(whole, 1)
    assert layers_of(cut.tagger) == 1
    right = spans(TEACHER)
    before = score(right, spans(Predictor(*cut))).f1
    taught = distil_predictor(TEACHER, TEXTS, HOW, 1)
    after = score(right, spans(taught)).f1
    assert after > 0.7 > 0.5 > before
    assert layers_of(taught.tagger) == 1
    same = [n for n, p in taught.params.items() if torch.equal(p, cut.params[n])]
    assert same == ["encoder.pieces"]  # the subwords stay; the start is not written over
    assert sum(p.numel() for p in taught.params.values()) < sum(
        p.numel() for p in TEACHER.params.values()
    )


def test_heads_that_read_copies_begin_with_their_own_weights() -> None:
    first = predictor("transformer", decoder="softmax")
    other = {n: p * 1.1 if ".layer1." in n else p for n, p in first.params.items()}
    renamed = [replace(t, domain=f"{t.domain}+") for t in first.tagger.tag_sets]
    both = add_heads(
        Model(first.tagger, first.params),
        Model(first.tagger.with_domains(renamed), other),
    )
    assert layers_of(both.tagger) == 2
    cut = lower_layers(both, 1)
    one = lower_layers(Model(first.tagger, first.params), 1)
    for name, value in cut.params.items():
        if name.startswith("encoder"):
            assert torch.equal(value, one.params[name])
    heads = len(first.tagger.tag_sets)
    weight = cut.params["decoder.weight"]
    assert torch.equal(weight[:, :heads], one.params["decoder.weight"])
    assert torch.equal(weight[:, heads:], other["decoder.weight"])
    taught = distil_predictor(Predictor(*both), TEXTS, replace(HOW, steps=2), 1)
    assert len(taught.labels) == len(TEACHER.labels)


def test_text_is_what_the_teacher_finds_something_in_and_as_much_else() -> None:
    told: list[tuple[int, int]] = []
    bare = [Sentence(("the", "of", "and") * n) for n in range(1, 200)]
    bare = [s for s in bare if not TEACHER.spans([s])[0]]
    bearing = [s for s in TEXTS if TEACHER.spans([s])[0]]
    chosen = choose_text(TEACHER, [*bare, *bearing], lambda done, total: told.append((done, total)))
    assert chosen[: len(bearing)] == bearing
    assert len(chosen) == min(2 * len(bearing), len(bearing) + len(bare))
    assert told == [(len(bare) + len(bearing),) * 2]
    with pytest.raises(HardnerError, match="the teacher finds nothing in"):
        choose_text(TEACHER, bare)


def test_vectors_are_learnt_beside_tags() -> None:
    cut = lower_layers(Model(TEACHER.tagger, TEACHER.params), 1)
    texts = [Sentence(s.tokens) for s in TEXTS[:5]]
    stores = TEACHER.tagger.store(texts), cut.tagger.store(texts)
    lesson = _Lesson(TEACHER.tagger, TEACHER.params, stores[0], cut.tagger, stores[1], HOW, True)
    rows = torch.arange(5)
    widths = lesson.widths(rows.numpy())
    loss = lesson.loss(cut.params, rows, widths)
    told = lesson.loss(cut.params, rows, widths)  # of what was said, in half precision
    assert told.item() == pytest.approx(loss.item(), rel=1e-3)
    heads, words = len(TEACHER.tagger.tag_sets), sum(map(len, texts))
    tags = replace(lesson, cut=False, heard={}).loss(cut.params, rows, widths)
    apart = 0.0
    for row in range(5):
        one = lesson.widths(np.array([row]))
        pair = [
            model.encoder(params, store.batch(torch.tensor([[row]]), width), SCORING).words[0, 0]
            for model, params, store, width in (
                (TEACHER.tagger, TEACHER.params, stores[0], one[0]),
                (cut.tagger, cut.params, stores[1], one[1]),
            )
        ]
        length = len(texts[row])
        apart += float((pair[0][:length] - pair[1][:length]).square().mean(-1).sum())
    wanted = tags.item() * heads + apart / words
    assert loss.item() == pytest.approx(wanted, rel=5e-3)  # the student computes in bfloat16


def test_the_loss_is_the_cross_entropy_of_the_marginals() -> None:
    texts = [Sentence(s.tokens) for s in TEXTS[:5]]
    tagger = student()
    params = tagger.init(1)
    how = Distillation(dropout=0.0, unseen=0.0)
    teacher = predictor("bilstm", decoder="softmax")
    lesson = _Lesson(
        teacher.tagger,
        teacher.params,
        teacher.tagger.store(texts),
        tagger,
        tagger.store(texts),
        how,
    )
    rows = torch.arange(5)
    shown, read = lesson.widths(rows.numpy())
    loss = lesson.loss(params, rows, (shown, read))
    assert sorted(lesson.heard) == [0, 1, 2, 3, 4]
    again = lesson.loss(params, rows, (shown, read))  # of what was said the first time
    assert again.item() == pytest.approx(loss.item(), rel=1e-6)
    wide = [{n: w + 9 for n, w in own.items()} for own in (shown, read)]
    for wider in ((wide[0], read), (shown, wide[1])):
        lesson.heard.clear()
        assert lesson.loss(params, rows, wider).item() == pytest.approx(loss.item(), rel=1e-6)
    total = words = 0.0
    for row in range(5):
        wide = lesson.widths(np.array([row]))
        wanted = _tag_probabilities(teacher, lesson.shown, row, wide[0])
        own = _tag_probabilities(Predictor(tagger, params), lesson.read, row, wide[1], free=True)
        total -= float((wanted * own.log()).sum())
        words += own.shape[0] * own.shape[1]
    assert float(loss) == pytest.approx(total / words, rel=1e-4)


@torch.inference_mode()
def _tag_probabilities(
    model: Predictor, store: object, row: int, widths: object, free: bool = False
) -> torch.Tensor:
    """Of each head, word and tag: [D, T, C]; ``free`` of what the scheme forbids."""
    batch = store.batch(torch.tensor([[row]]), widths)  # type: ignore[attr-defined]
    encoded = model.tagger.encoder(model.params, batch, SCORING)
    heads = torch.arange(4)
    scores, lengths, chain = model.tagger.emissions(model.params, encoded, batch, heads)
    if free:
        return scores[:, 0].double().softmax(-1)
    length = int(lengths[0, 0])
    found = torch.zeros(4, length, scores.shape[-1], dtype=torch.float64)
    for head in range(4):
        emit = scores[head, 0].double().exp()
        move, start, end = (c[head].double().exp() for c in chain)
        left = [start * emit[0]]
        for t in range(1, length):
            left.append((left[-1] @ move) * emit[t])
        right = [end]
        for t in range(length - 1, 0, -1):
            right.insert(0, move @ (right[0] * emit[t]))
        both = torch.stack(left) * torch.stack(right)
        found[head] = both / both.sum(-1, keepdim=True)
    return found


def test_the_same_seed_gives_the_same_student() -> None:
    how = Distillation(steps=3, batch=8, seed=5)
    first, second = taught(how), taught(how)
    other = taught(Distillation(steps=3, batch=8, seed=6))
    assert all(torch.equal(first[n], second[n]) for n in first)
    assert any(not torch.equal(first[n], other[n]) for n in first)


def test_the_vocabulary_is_the_words_seen_most() -> None:
    texts = [Sentence(("a", "a", "b", "b", "b", "c", "d", "d"))]
    assert Student(2).tagger(texts, TEACHER.tagger.tag_sets).encoder.vocabulary == ("b", "a")
    assert Student(9).tagger(texts, TEACHER.tagger.tag_sets).encoder.vocabulary == ("b", "a", "d")


def test_batches_hold_every_sentence_once_a_pass() -> None:
    store = student().store([Sentence(s.tokens) for s in TEXTS])
    drawn = _batches(store, Distillation(batch=7))
    passes = len(TEXTS) // 7
    rows = np.concatenate([next(drawn) for _ in range(passes)])
    assert len(set(rows.tolist())) == passes * 7
    widths = [np.ptp(store.tags.widths[next(drawn)]) for _ in range(passes)]
    assert np.mean(widths) < np.ptp(store.tags.widths[:-1]) / 2


def test_words_are_forgotten_at_random() -> None:
    batch = tiny.batch(tiny.tagger("bilstm"), rows=20)
    torch.manual_seed(0)
    words = batch.inputs["words"]
    kept = _drop_words(batch, 0.3).inputs["words"]
    share = float(((kept == 0) & (words > 0)).sum() / (words > 0).sum())
    assert 0.2 < share < 0.4
    assert torch.equal(kept[kept > 0], words[kept > 0])


def test_the_rate_rises_and_falls() -> None:
    shares = [Distillation(steps=100).share(step) for step in range(100)]
    assert shares[0] < 0.3 and max(shares) > 0.9 and shares[-1] == pytest.approx(0.01)
    assert shares.index(max(shares)) == 4


def test_what_cannot_be_taught_is_one_clear_line() -> None:
    other = SMALL.tagger(TEXTS, (TagSet("X", ("X",)),))
    with pytest.raises(HardnerError, match="has 2 layers, so its student has 1 to 1"):
        lower_layers(Model(TEACHER.tagger, TEACHER.params), 2)
    bilstm = predictor("bilstm")
    with pytest.raises(HardnerError, match="only hardner's own transformer can be cut off"):
        lower_layers(Model(bilstm.tagger, bilstm.params), 1)
    with pytest.raises(HardnerError, match="must have the teacher's heads"):
        distil_tagger((TEACHER.tagger, TEACHER.params), other, TEXTS, Distillation(steps=1))
    long = [Sentence(("a",) * (_LONGEST + 1)), Sentence(())]
    with pytest.raises(HardnerError, match="no sentences to learn from"):
        distil_tagger((TEACHER.tagger, TEACHER.params), student(), long, Distillation(steps=1))
