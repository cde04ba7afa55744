"""Labelled sentences: what is refused, in one line that says what to do, and what is not."""

import pytest
from adapted import labelled

from hardner.adapt.examples import examples
from hardner.errors import HardnerError
from hardner.types import Sentence, Span

STENT = ("a stent was placed", "O B-Device O O")
FEVER = ("no fever was seen", "O B-Sign O O")
NONE = ("he went home", "O O O")


def refused(sentences, label=None):
    with pytest.raises(HardnerError) as error:
        examples(sentences, label)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_only_the_chosen_label_is_kept():
    found = examples(labelled(STENT, FEVER, NONE), "Device")
    assert found.label == "Device"
    assert [s.spans for s in found.sentences] == [(Span(1, 2, "Device"),), (), ()]
    assert found.mentions == 1
    assert found.notes == ()


def test_a_single_label_needs_no_name():
    assert examples(labelled(STENT, NONE)).label == "Device"


def test_several_labels_need_one():
    said = refused(labelled(STENT, STENT, FEVER))
    assert said == "the sentences have several labels, say which to learn: Device (2), Sign (1)"


def test_a_label_that_is_not_there():
    said = refused(labelled(STENT, FEVER), "device")
    assert said == "no mention is labelled 'device'; the labels are Device (1), Sign (1)"


def test_no_mention_at_all():
    assert refused(labelled(NONE)) == "the sentences hold no mention at all; label at least one"
    assert "no mention at all" in refused(labelled(NONE), "Device")
    assert refused([]) == refused([Sentence(())]) == "there is no labelled sentence"


def test_a_sentence_labelled_in_two_ways():
    twice = labelled(STENT, ("a stent was placed", "B-Device I-Device O O"))
    said = refused(twice)
    assert said == (
        "sentence 'a stent was placed': it occurs twice and is labelled differently, "
        "'stent' and 'a stent'; mend one"
    )
    assert "'stent' and nothing" in refused(labelled(STENT, ("a stent was placed", "O O O O")))


def test_two_labels_for_one_span():
    spans = (Span(1, 2, "Device"), Span(1, 2, "Product"))
    sentence = Sentence(("a", "stent"), spans, id="s1")
    said = refused([sentence], "Device")
    assert said == "sentence 's1' (a stent): 'stent' is labelled both Device and Product; keep one"
    other = Sentence(("a", "stent", "x"), (*spans, Span(2, 3, "Sign")))
    assert examples([other], "Sign").mentions == 1  # of no concern there


def test_repeats_and_nested_mentions_are_left_out_and_said():
    nested = Sentence(("a", "b", "c"), (Span(0, 3, "X"), Span(1, 2, "X")))
    found = examples([nested, nested, Sentence(("d",))])
    assert len(found.sentences) == 2
    assert found.sentences[0].spans == (Span(0, 3, "X"),)
    assert found.notes == (
        "2 mentions that lie in or across a longer one were left out",
        "1 sentences that repeat another were left out",
    )


def test_a_single_sentence_is_let_through_with_a_word():
    assert "too few" in examples(labelled(STENT)).notes[0]


def test_sentences_without_a_mention_are_asked_for():
    other = ("the tube was removed", "O B-Device O O")
    assert "every sentence holds a mention" in examples(labelled(STENT, other)).notes[0]
