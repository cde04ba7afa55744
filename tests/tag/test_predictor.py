"""Text and tokens in, entities out: exact offsets, right scores, whatever the batch."""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import small_models as models
import tiny
import torch
from sequences import truth
from shared import CORPORA

import hardner
from hardner.errors import HardnerError
from hardner.formats import Report, read
from hardner.schemes import tags_to_spans
from hardner.tag.predictor import Predictor
from hardner.types import Document, Passage, Sentence

TEXT = (
    "Aspirin may worsen asthma in mice. BRCA1 is a gene; p53 is one too.\n\n"
    "Naïve β-cells 🧬 die when the 👩🏽‍🔬 adds 5-fluorouracil. المريض يعاني من الربو. "
    "Cafe\u0301 au lait spots\x07\x1b[31m are\u200b harmless."
)
ODD = (
    "",
    " ",
    "\n\n",
    ".",
    "a",
    "\x01\x02",
    "\u0301",
    "😀" * 40,
    "\u202eright to left\u202c",
    "שלום עולם.",
)


@pytest.mark.parametrize("scheme", ["IOB2", "IOBES", "IO"])
@pytest.mark.parametrize("decoder", ["crf", "softmax"])
def test_spans_and_scores_are_those_of_all_tag_sequences(scheme: str, decoder: str) -> None:
    temperatures = (0.5, 1.0, 2.0, 4.0)
    predictor = replace(models.predictor("bilstm", scheme, decoder), temperatures=temperatures)
    found = 0
    for tokens in [("Aspirin", "helps", "mice", "."), ("BRCA1",), ("the", "p53", "gene")]:
        (spans,) = predictor.spans([Sentence(tokens)])
        expected = []
        for head, tag_set in enumerate(predictor.tagger.tag_sets):
            paths = truth(predictor, tokens, head)
            read_as = {
                path: tags_to_spans([tag_set.tags[t] for t in path], scheme)[0]
                for path, p in paths.items()
                if p > 0 and max(path) < len(tag_set.tags)
            }
            best = max(paths, key=paths.__getitem__)
            for span in read_as[best]:
                score = sum(paths[path] for path, held in read_as.items() if span in held)
                expected.append((span, score))
        assert [span for span, _ in spans] == sorted(span for span, _ in expected)
        scores = dict(expected)
        assert all(abs(score - scores[span]) < 1e-4 for span, score in spans)
        found += len(spans)
    assert found > 1


def test_hardness_is_the_entropy_of_all_tag_sequences() -> None:
    predictor = replace(models.predictor("bilstm"), temperatures=(0.5, 1.0, 2.0, 4.0))
    for tokens in [("Aspirin", "helps", "mice", "."), ("BRCA1",)]:
        every = [truth(predictor, tokens, head).values() for head in range(4)]
        expected = [-sum(p * torch.tensor(p).log().item() for p in ps if p) for ps in every]
        (found,) = predictor.hardness([Sentence(tokens)])
        assert found == pytest.approx(sum(expected), abs=1e-4)
        (found,) = predictor.hardness([Sentence(tokens)], labels=["Gene"])
        assert found == pytest.approx(expected[2], abs=1e-4)
    assert predictor.hardness([Sentence(())]) == [0.0]


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_every_entity_reads_as_the_text_where_it_stands(kind: str) -> None:
    predictor = models.predictor(kind)
    found = predictor(TEXT)
    assert {entity.label for entity in found} > {"Gene", "Species"}
    assert all(entity.text == TEXT[entity.start : entity.end] for entity in found)
    assert all(0 < entity.score <= 1 for entity in found)
    places = [(entity.start, entity.end, entity.label) for entity in found]
    assert places == sorted(places)


def test_odd_texts() -> None:
    predictor = models.predictor()
    found = list(predictor.pipe(ODD))
    assert len(found) == len(ODD)
    assert found[:3] == [[], [], []]
    for text, entities in zip(ODD, found, strict=True):
        assert all(entity.text == text[entity.start : entity.end] for entity in entities)


@pytest.mark.shared("BC5CDR-disease")
def test_offsets_are_exact_on_a_whole_test_set() -> None:
    predictor = models.predictor()
    path = CORPORA / "BC5CDR-disease" / "test.tsv.xz"
    given = [replace(d, sentences=()) for d in read(path, "conll", report=Report())]
    mentions = 0
    for before, after in zip(given, predictor.documents(given), strict=True):
        assert (after.id, after.text) == (before.id, before.text)
        assert all(e.text == after.text[e.start : e.end] for e in after.entities)
        mentions += len(after.entities)
    assert len(given) > 4_000
    assert mentions > len(given)


@pytest.mark.parametrize("kind", ["bilstm", "transformer", "bert"])
def test_the_size_of_a_batch_changes_nothing(kind: str) -> None:
    predictor = models.predictor(kind)
    sentences = [*tiny.everything("test")[0], *tiny.everything("train")[0][:60]]
    texts = [" ".join(sentence.tokens) for sentence in sentences]
    texts[5] = " ".join(texts)  # longer than a piece
    first, *others = (list(predictor.pipe(texts, batch_size=size)) for size in (64, 1, 8))
    assert all(other == first for other in others)
    alone = [predictor(text) for text in texts[:12]]
    assert alone == first[:12]
    assert predictor.hardness(sentences, batch_size=1) == pytest.approx(
        predictor.hardness(sentences), rel=1e-12
    )


def test_texts_are_read_as_they_are_needed() -> None:
    predictor = models.predictor()
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        for number in itertools.count():
            taken += 1
            yield f"Patient {number} has asthma."

    stream = predictor.pipe(endless(), batch_size=2)
    assert len(list(itertools.islice(stream, 100))) == 100
    assert taken < 200


def test_labels_and_scores_can_be_chosen() -> None:
    predictor = models.predictor()
    every = predictor(TEXT)
    (genes,) = predictor.pipe([TEXT], labels=["Gene"])
    assert genes == [entity for entity in every if entity.label == "Gene"] != []
    (sure,) = predictor.pipe([TEXT], min_score=0.6)
    assert sure == [entity for entity in every if entity.score >= 0.6]
    assert 0 < len(sure) < len(every)
    assert predictor(TEXT, labels=["Gene"]) == genes
    assert predictor(TEXT, min_score=0.6) == sure
    with pytest.raises(HardnerError, match="no label 'Device'; its labels are Disease, Chemical"):
        next(predictor.pipe([TEXT], labels=["Device"]))


def test_given_tokens_are_kept() -> None:
    predictor = models.predictor()
    path = tiny.ROOT / "Gene" / "test.tsv"
    given = list(read(path))
    for before, after in zip(given, predictor.documents(given), strict=True):
        (old,), (new,) = before.sentences, after.sentences
        assert (new.tokens, new.offsets, new.id) == (old.tokens, old.offsets, old.id)
        ((*spans,),) = predictor.spans([old])
        assert [tuple(span) for span in new.spans] == [tuple(span) for span, _ in spans]
        assert [e.text for e in after.entities] == [
            " ".join(new.tokens[start:end]) for start, end, _ in new.spans
        ]
        assert [e.score for e in after.entities] == [score for _, score in spans]


def test_a_document_of_many_sentences_keeps_each_ones_spans() -> None:
    predictor = models.predictor()
    first, second = tiny.sentences("Gene", "test")[:2]
    both = Document("d", "", sentences=(first, second, Sentence(())))
    (after,) = predictor.documents([both])
    assert after.entities == ()  # no offsets were given
    apart = predictor.spans([first, second])
    assert [list(s.spans) for s in after.sentences[:2]] == [[s for s, _ in own] for own in apart]


def test_passages_end_sentences() -> None:
    predictor = models.predictor()
    text = "Aspirin and BRCA1 in mice with asthma"
    cut = text.index("in mice")
    whole = Document("d", text, passages=(Passage(0, cut, "title"), Passage(cut, len(text), "x")))
    (after,) = predictor.documents([whole])
    left, right = predictor.pipe([text[:cut], text[cut:]])
    shifted = [replace(e, start=e.start + cut, end=e.end + cut) for e in right]
    assert list(after.entities) == [*left, *shifted]


def test_heads_that_share_a_label_do_not_repeat_each_other() -> None:
    predictor = models.predictor()
    same = tuple(replace(t, labels=("Thing",)) for t in predictor.tagger.tag_sets)
    merged = replace(predictor, tagger=replace(predictor.tagger, tag_sets=same))
    assert merged.labels == ("Thing",)
    every = predictor(TEXT)
    found = merged(TEXT)
    places = {(e.start, e.end, e.score) for e in every}
    assert {(e.start, e.end, e.score) for e in found} < places
    assert all(left.end <= right.start for left, right in itertools.pairwise(found))
    best = max(every, key=lambda e: e.score)
    assert (best.start, best.end) in {(e.start, e.end) for e in found}


@pytest.mark.parametrize("kind", ["bilstm", "bert"])
def test_threads_may_share_a_predictor(kind: str) -> None:
    predictor = models.predictor(kind)
    texts = [" ".join(s.tokens) for s in tiny.everything("test")[0]]
    expected = [predictor(text) for text in texts]
    found: dict[int, list[list[object]]] = {}

    def work(number: int) -> None:
        found[number] = [list(predictor(text)) for text in texts]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[n] == expected for n in range(4))


def test_learning_is_possible_after_tagging() -> None:
    """What tagging leaves behind in caches must not stand in the way of gradients."""
    tagger = tiny.tagger("transformer", scheme="IOBES")
    params = tiny.params(tagger, dtype=torch.float32)
    Predictor(tagger, params)(TEXT)
    own = {name: value.clone().requires_grad_() for name, value in params.items()}
    loss = tagger.losses(own, tiny.batch(tagger), ["tag"])["tag"].sum()
    assert torch.autograd.grad(loss, own["decoder.transitions"])[0].abs().sum() > 0


def test_wrong_uses_are_one_clear_line() -> None:
    predictor = models.predictor()
    with pytest.raises(HardnerError, match="2 temperatures for 4 heads"):
        replace(predictor, temperatures=(1.0, 2.0))
    with pytest.raises(HardnerError, match="unknown device 'tpu'; it is auto, cpu or cuda"):
        hardner.load(models.folder(), device="tpu")
    for labels, said in (
        ("Gene", r"labels are a list or a set: labels=\['Gene'\]"),
        (["Device"], "no label 'Device'"),
    ):
        with pytest.raises(HardnerError, match=said):
            predictor(TEXT, labels=labels)
    with pytest.raises(HardnerError, match="min_score is a probability, from 0 to 1; got 5"):
        predictor(TEXT, min_score=5)
    with pytest.raises(HardnerError, match="pipe takes many texts, and this is one"):
        predictor.pipe(TEXT)
    for given in (None, b"text", ["text"]):
        with pytest.raises(HardnerError, match=f"is a string, got {type(given).__name__}"):
            predictor(given)  # type: ignore[arg-type]


def test_a_predictor_says_what_it_finds() -> None:
    assert repr(models.predictor()) == "Predictor(Disease, Chemical, Gene, Species; cpu)"


FORKED = """
import os, sys, torch, hardner
torch.set_num_threads(2)
torch.ones(600, 600) @ torch.ones(600, 600)
tagger, text = hardner.load(), "Aspirin may worsen asthma in mice. " * 20
expected = tagger(text)
child = os.fork()
if not child:
    os._exit(0 if torch.get_num_threads() == 1 and tagger(text) == expected else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_tags_too() -> None:
    """OpenMP's threads are not there any more: who waits for them waits for ever."""
    environment = {name: v for name, v in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", FORKED], env=environment, check=False, timeout=600)
    assert done.returncode == 0
