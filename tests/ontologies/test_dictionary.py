"""Labelling text by the names of ontologies: the terms, the folds without a domain, the matches."""

import lzma
import random
from collections import Counter
from pathlib import Path

import label
import pytest
from common import frequent_words, is_common
from dictionary import Dictionary, Match
from entity_types import MENTIONS, NAMES, choose_types
from terms import DOMAINS, Kind, Term, ancestors, read_kinds, read_terms, without_domain

from hardner.errors import FileError, HardnerError

HEAD = "id\tname\texact_synonyms\trelated_synonyms\tdefinition\tparents"
ONTOLOGIES = Path(__file__).parents[3] / "shared" / "ontologies"


def term(ident: str, *names: str, kind: str = "anatomy", parents: tuple[str, ...] = ()) -> Term:
    return Term(ident, kind, names, "", parents)


def write_table(folder: Path, ontology: str, *rows: str) -> None:
    text = "\n".join([HEAD, *rows]) + "\n"
    (folder / f"{ontology}.tsv.xz").write_bytes(lzma.compress(text.encode()))


def test_terms_are_read_with_their_synonyms_and_parents(tmp_path: Path) -> None:
    write_table(tmp_path, "CL", "CL:1\tT cell\tT-lymphocyte|T lymphocyte\t\tA cell.\tCL:0|CL:9")
    (found,) = read_terms(tmp_path, [Kind("cell", ("CL",), frozenset())]).values()
    names = ("T cell", "T-lymphocyte", "T lymphocyte")
    assert found == Term("CL:1", "cell", names, "A cell.", ("CL:0", "CL:9"))


def test_a_missing_or_foreign_table_is_said(tmp_path: Path) -> None:
    kind = Kind("cell", ("CL",), frozenset())
    with pytest.raises(HardnerError, match=r"CL\.tsv\.xz is missing"):
        read_terms(tmp_path, [kind])
    (tmp_path / "CL.tsv.xz").write_bytes(lzma.compress(b"id\tname\n"))
    with pytest.raises(FileError, match="its columns are not"):
        read_terms(tmp_path, [kind])


def test_every_ontology_is_of_one_kind(tmp_path: Path) -> None:
    path = tmp_path / "kinds.toml"
    path.write_text('[a]\nontologies = ["X"]\n[b]\nontologies = ["X"]\n', "utf-8")
    with pytest.raises(FileError, match="X in b and in another kind"):
        read_kinds(path)
    path.write_text('[a]\nontologies = ["X"]\ntouches = ["Diseases"]\n', "utf-8")
    with pytest.raises(FileError, match="touches Diseases, no domain"):
        read_kinds(path)


def test_ancestors_end_at_missing_parents_and_go_round_cycles_once() -> None:
    rows = [term("a", "x", parents=("b", "gone")), term("b", "y", parents=("c",))]
    rows += [term("c", "z", parents=("a",)), term("d", "w")]
    found = ancestors({row.id: row for row in rows})
    assert found == {i: frozenset("abc") for i in "abc"} | {"d": frozenset("d")}


def test_a_fold_has_no_name_that_its_domain_has() -> None:
    kinds = {
        "food": Kind("food", ("FOODON",), frozenset()),
        "chemical": Kind("chemical", ("CHEBI",), frozenset({"Drug"})),
    }
    rows = [term("f1", "Caffeine", "coffee extract", kind="food"), term("f2", "sugar", kind="food")]
    rows += [term("c1", "caffeine", kind="chemical"), term("c2", "SUGAR", kind="chemical")]
    found = without_domain({row.id: row for row in rows}, kinds, "Drug")
    assert [row.names for row in found.values()] == [("coffee extract",)]


def longest_by_hand(names: list[list[str]], tokens: list[str]) -> list[Match]:
    found, start = [], 0
    while start < len(tokens):
        ends = [start + len(n) for n in names if tokens[start : start + len(n)] == n]
        if ends:
            found.append(Match(start, max(ends), names.index(tokens[start : max(ends)])))
        start = max(ends, default=start + 1)
    return found


def test_matches_are_the_longest_from_left_to_right() -> None:
    draw = random.Random(0)
    words = ["alpha", "gamma", "kappa", "sigma"]
    for _ in range(200):
        rows = {tuple(draw.choices(words, k=draw.randint(1, 3))) for _ in range(4)}
        names = [list(row) for row in sorted(rows, key=" ".join)]
        made = Dictionary(term(str(i), " ".join(name)) for i, name in enumerate(names))
        tokens = draw.choices(words, k=12)
        assert made.find(tokens) == longest_by_hand(names, tokens)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("spinal cord", "The Spinal Cord is", True),
        ("spinal cord", "the spinal cords are", True),
        ("CAT", "a cat sat", False),
        ("CAT", "the CAT gene", True),
        ("BRCA1", "the brca1 gene", False),
        ("cat", "a cat sat", False),  # a short word of everyday language
        ("IL-6", "and IL - 6 levels", True),
        ("co", "a co factor", False),
    ],
)
def test_what_counts_as_the_same_name(name: str, text: str, found: bool) -> None:
    assert bool(Dictionary([term("x", name, kind="gene")]).find(text.split())) == found


def test_abbreviations_that_are_synonyms_are_taken_of_genes_alone() -> None:
    tokens = ["mean", "SEM", "of"]
    assert not Dictionary([term("x", "some syndrome", "SEM", kind="disease")]).find(tokens)
    assert Dictionary([term("x", "some gene", "SEM", kind="gene")]).find(tokens)


def test_a_name_of_several_terms_keeps_them_unless_they_are_too_many_kinds() -> None:
    same = [term("a", "raphe"), term("b", "raphe"), term("c", "raphe", kind="cell")]
    made = Dictionary(same)
    assert made.terms == [("a", "b", "c")]
    assert not Dictionary([*same, term("d", "raphe", kind="food")]).names


def test_common_words_are_no_names_and_capitals_do_not_hide_them() -> None:
    frequent = frequent_words([["this", "is", "This"]])
    assert frequent == {"this", "is"}
    assert is_common("This", (), frequent) and is_common("scale", {"scale"}, ())
    assert not is_common("heart", {"scale"}, frequent) and not is_common("This one", (), frequent)


def test_types_have_enough_names_and_say_something_that_narrower_ones_do_not() -> None:
    rows = [term("root", "body part"), term("only", "organ", parents=("root",))]
    rows += [term(f"x{i}", f"name {i}", parents=("only",)) for i in range(NAMES)]
    rows += [term(f"y{i}", f"other {i}", parents=("root",)) for i in range(NAMES)]
    terms = {row.id: row for row in rows}
    named = [(row.id,) for row in rows]
    many = dict.fromkeys(range(2, len(rows)), MENTIONS)
    chosen = {t.id for t in choose_types(terms, ancestors(terms), named, _counter(many))}
    assert chosen == {"root", "only"}
    few = {i: n for i, n in many.items() if i < NAMES + 2} | {NAMES + 2: 1}
    chosen = {t.id for t in choose_types(terms, ancestors(terms), named, _counter(few))}
    assert chosen == {"only"}  # nearly all that is a body part here is an organ


def _counter(values: dict[int, int]) -> Counter[int]:
    return Counter(values)


@pytest.mark.skipif(not ONTOLOGIES.is_dir(), reason="needs ../shared/ontologies")
def test_no_fold_of_the_real_ontologies_knows_its_domain() -> None:
    kinds = read_kinds()
    terms = read_terms(ONTOLOGIES, kinds.values())
    for domain in DOMAINS:
        barred = {
            name.casefold()
            for t in terms.values()
            if domain in kinds[t.kind].touches
            for name in t.names
        }
        fold = without_domain(terms, kinds, domain)
        assert len(fold) > 50_000
        assert not any(domain in kinds[t.kind].touches for t in fold.values())
        assert not barred & {name.casefold() for t in fold.values() for name in t.names}


def test_each_fold_has_a_dictionary_without_its_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {name: Kind(name, (), frozenset({name})) for name in DOMAINS}
    monkeypatch.setattr(label, "read_kinds", lambda: kinds)
    terms = {name: term(name, f"some {name}", kind=name) for name in DOMAINS}
    folds = label.make_folds(terms, [["this", "is"]])
    for fold, made in folds.items():
        assert sorted(made.dictionary.names) == sorted(
            f"some {n}".lower() for n in DOMAINS if n != fold
        )
