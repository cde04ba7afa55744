"""Labelled sentences: what is refused, in one line that says what to do, and what is not."""

import pytest
from adapted import labelled

from hardner.adapt.examples import (
    LONGEST_LEARNT,
    examples,
    read_labelled,
    read_unlabelled,
)
from hardner.errors import HardnerError
from hardner.formats import Report, write
from hardner.types import Document, Entity, Sentence, Span

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
    assert found.labels == ("Device",)
    spans = {s.tokens[1]: s.spans for s in found.sentences}
    assert spans == {"stent": (Span(1, 2, "Device"),), "fever": (), "went": ()}
    assert found.mentions("Device") == 1
    assert found.notes == ()


def test_a_single_label_needs_no_name():
    assert examples(labelled(STENT, NONE)).labels == ("Device",)


def test_several_labels_are_all_learnt_unless_some_are_named():
    spans = (Span(0, 2, "Product"), Span(0, 3, "Product"), Span(1, 2, "Device"))
    given = [*labelled(STENT, FEVER), Sentence(("a", "stent", "here"), spans)]
    found = examples(given)
    assert found.labels == ("Device", "Product", "Sign")
    assert {s.spans for s in found.sentences} == {
        (Span(1, 2, "Device"),),
        (Span(1, 2, "Sign"),),
        (Span(0, 3, "Product"), Span(1, 2, "Device")),  # another label's may overlap, its own not
    }
    assert [found.mentions(label) for label in found.labels] == [2, 1, 1]
    assert "1 mentions that lie in or across a longer one were left out" in found.notes
    two = examples(given, ["Sign", "Device", "Sign"])
    assert (two.labels, two.mentions("Product")) == (("Device", "Sign"), 0)
    assert {s.spans for s in two.of("Sign")} == {(), (Span(1, 2, "Sign"),)}
    for wrong in ([], [1], ["Sign", "Sing"]):
        with pytest.raises(HardnerError):
            examples(given, wrong)


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
        "'stent' and 'a stent'; fix one of them"
    )
    assert "'stent' and nothing" in refused(labelled(STENT, ("a stent was placed", "O O O O")))


def test_two_labels_for_one_span_do_not_matter_to_who_learns_one():
    spans = (Span(1, 2, "Device"), Span(1, 2, "Product"))
    sentence = Sentence(("a", "stent"), spans, id="s1")
    assert examples([sentence], "Device").sentences[0].spans == spans[:1]
    assert examples([sentence], "Product").sentences[0].spans == spans[1:]


def test_the_order_of_the_sentences_does_not_matter():
    given = labelled(STENT, FEVER, NONE, ("a tube", "O B-Device"), ("an old pacemaker", "O O O"))
    one = examples(given, "Device").sentences
    assert examples(given[::-1], "Device").sentences == one
    assert examples(given[2:] + given[:2], "Device").sentences == one


def test_a_long_sentence_is_learnt_in_parts_and_no_mention_is_cut():
    words = tuple(f"w{i}" for i in range(950))
    mentions = (Span(0, 2, "X"), Span(98, 103, "X"), Span(197, 198, "X"), Span(949, 950, "X"))
    found = examples([Sentence(words, mentions), Sentence(("a",))])
    parts = [s for s in found.sentences if len(s) > 1]
    assert max(map(len, parts)) <= LONGEST_LEARNT
    assert sorted(word for part in parts for word in part.tokens) == sorted(words)
    said = {" ".join(p.tokens[s.start : s.end]) for p in parts for s in p.spans}
    assert said == {" ".join(words[s.start : s.end]) for s in mentions}
    assert "1 sentences of more than 100 words are learnt in parts" in found.notes


def test_a_mention_longer_than_a_part_stays_whole():
    long = Sentence(tuple(f"w{i}" for i in range(700)), (Span(10, 500, "X"),))
    parts = examples([long]).sentences
    assert sorted(map(len, parts)) == [10, 100, 100, 490]


TEXT = "The p53s were seen. A stent was placed. He went home."


def test_a_sentence_whose_mention_cuts_a_token_is_left_out_and_counted():
    """It would teach that it holds no mention."""
    report = Report()
    given = [(TEXT, [(4, 7, "Gene"), (22, 27, "Device")])]
    found = read_labelled(given, report=report)
    assert [s.tokens[0] for s in found] == ["A", "He"]
    (line,) = report.lines()
    assert line == "given: document '0': a mention cuts a token: its sentence is left out"
    kept = read_labelled(given, "Device")  # of no concern to who learns another label
    assert [s.tokens[0] for s in kept] == ["The", "A", "He"]


def test_a_mention_in_pieces_and_one_across_sentences_are_left_out_with_their_sentences():
    pieces = Entity(4, 13, "X", "p53s were", fragments=((4, 8), (14, 18)))
    across = Entity(22, 42, "X", TEXT[22:42])
    found = read_labelled([Document("d", TEXT, (pieces, Entity(43, 47, "X", "went")))])
    assert [s.tokens[0] for s in found] == ["A", "He"]
    found = read_labelled([Document("d", TEXT, (across, Entity(4, 8, "X", "p53s")))])
    assert [s.tokens[0] for s in found] == ["The"]


def test_a_mention_of_two_types_is_learnt_as_the_one_that_is_named():
    both = (Entity(2, 7, "Device", "stent"), Entity(2, 7, "Thing", "stent"))
    given = read_labelled([Document("d", "A stent was placed.", both)], "Device")
    (one,) = examples(given, "Device").sentences
    assert one.spans == (Span(1, 2, "Device"),)


def test_text_without_spaces_is_refused_with_the_reason():
    with pytest.raises(HardnerError, match=r"'支架' cuts a token, .* without spaces \(Chinese"):
        read_labelled([("患者接受了支架植入术", [(5, 7, "Device")])])


def test_what_sentences_are_made_of(tmp_path):
    document = Document("d", "A stent was placed.", (Entity(2, 7, "Device", "stent"),))
    path = tmp_path / "d.jsonl"
    write([document], path)
    pair = (document.text, [(2, 7, "Device")])
    (one,) = {
        (s.tokens, s.spans)
        for given in ([document], [pair], path, str(path))
        for s in read_labelled(given)
    }
    assert one == (("A", "stent", "was", "placed", "."), (Span(1, 2, "Device"),))
    sentence = Sentence(*one)
    assert read_labelled([sentence, document])[0] is sentence
    for given in ([document], [document.text], path, str(path), [sentence]):
        assert [(s.tokens, s.spans) for s in read_unlabelled(given)] == [(one[0], ())]


@pytest.mark.parametrize(
    "item", ["a stent", None, ("a", 1), ("a", [(0, 9, "X")]), ("a", [(0, 0, "X")]), ("ab", [(0,)])]
)
def test_what_is_no_labelled_text_is_one_line(item):
    with pytest.raises(HardnerError, match="item 1 of the labelled data is not a Sentence, a D"):
        read_labelled([("a stent", []), item])


def test_nothing_that_can_be_gone_through_is_one_line():
    with pytest.raises(HardnerError, match="expected a path or labelled sentences, got None"):
        read_labelled(None)


def test_repeats_and_nested_mentions_are_left_out_and_said():
    nested = Sentence(("a", "b", "c"), (Span(0, 3, "X"), Span(1, 2, "X")))
    found = examples([nested, nested, Sentence(("d",))])
    assert len(found.sentences) == 2
    assert [s.spans for s in found.sentences if len(s) == 3] == [(Span(0, 3, "X"),)]
    assert found.notes == (
        "2 mentions that lie in or across a longer one were left out",
        "1 sentences that repeat another were left out",
    )


def test_a_single_sentence_is_let_through_with_a_word():
    assert "too few" in examples(labelled(STENT)).notes[0]


def test_sentences_without_a_mention_are_asked_for():
    other = ("the tube was removed", "O B-Device O O")
    assert "every sentence holds a mention" in examples(labelled(STENT, other)).notes[0]
