"""Every table of the five papers can be shown, with all that they published in it."""

import json
import re
from pathlib import Path

import pytest
from evaluate.made import of_f1
from formats.command import Command

from hardner.evaluate.papers import paper_grids, paper_tables
from hardner.evaluate.protocols import published_values
from hardner.evaluate.render import GRID_RENDERERS
from hardner.evaluate.results import ResultFile

RESULTS = Path(__file__).parents[2] / "results"
NUMBER = re.compile(r"[\d.]+")


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capfd, monkeypatch)


def shown(name: str, folder: Path) -> str:
    return "\n".join(map(GRID_RENDERERS["text"], paper_grids(paper_tables()[name], folder)))


@pytest.mark.parametrize("name", paper_tables())
def test_each_can_be_shown_without_a_single_run(name: str, tmp_path: Path) -> None:
    text = shown(name, tmp_path)
    assert "not run" in text
    assert paper_tables()[name].title in text


def test_each_is_of_a_table_that_the_papers_have_and_none_is_left_out() -> None:
    """Table 1 to 5 of HGDA, MetaBioNER, MetaNER and multi-granularity, 1 to 3 of MT-BioNER."""
    tables = {
        (name.partition("/")[0], name.partition("/")[2].rstrip("ab")) for name in paper_tables()
    }
    for paper, last in (
        ("hgda", 5),
        ("metabioner", 5),
        ("metaner", 5),
        ("mtbioner", 3),
        ("multigranularity", 5),
    ):
        assert {(paper, str(number)) for number in range(1, last + 1)} <= tables
    assert {("metaner", f"figure-{number}") for number in range(4, 9)} <= tables


def test_all_published_values_are_in_a_table_of_their_paper(tmp_path: Path) -> None:
    """Counts and scores, each in the digits that are shown."""
    texts: dict[str, str] = {}
    for name in paper_tables():
        paper = paper_tables()[name].title.partition(",")[0]
        texts[paper] = texts.get(paper, "") + shown(name, tmp_path)
    numbers = {paper: set(NUMBER.findall(text.replace(",", ""))) for paper, text in texts.items()}
    elsewhere = ("Su et al.", "MetaNER, Figure 4")  # of ACE2005, which genes stand in for
    lacking = []
    for (protocol, metric, _, corpus), figures in published_values().items():
        for figure in figures:
            paper = figure.source.partition(",")[0]
            if figure.source.startswith(elsewhere) or corpus.startswith("ACE2005"):
                continue
            if protocol == "corpora":
                digits = f"{figure.value:.0f}"
            elif metric == "passing share" and corpus == "mean":
                continue  # the mean of shares that are shown
            elif metric == "passing share":
                digits = f"{figure.value:.0%}".rstrip("%")
            else:
                digits = f"{figure.value:.3f}".lstrip("0")
            if digits not in numbers[paper]:
                lacking.append((figure, metric, corpus))
    assert not lacking


def test_a_row_that_was_run_stands_beside_the_published_one(tmp_path: Path) -> None:
    run = [of_f1(5, sample=i, size=10) for i in range(20)]
    other = [of_f1(4, sample=i, size=10, preset="metabioner", config="1") for i in range(20)]
    ResultFile(tmp_path / "few_shot.jsonl").append([*run, *other])
    lines = {line[:45].strip(): line for line in shown("hgda/3", tmp_path).splitlines()}
    text = shown("hgda/3", tmp_path)
    assert "HGDA (bilstm, metabioner)" in text  # a method's name asks for all its rows
    at_10 = text.partition("(F1, 10 shots)")[2].partition("(F1, 20 shots)")[0].splitlines()
    (ours,) = [place for place, line in enumerate(at_10) if line.startswith("HGDA (bilstm, paper)")]
    assert ".500 ± .000" in at_10[ours]
    assert ".395" in at_10[ours + 1]
    assert "+.105" in at_10[ours + 2]
    assert "HGDA-NEs (bilstm, paper)" in lines
    assert ".500" not in text.partition("(F1, 10 shots)")[0]


def test_hardness_and_examples_are_read_from_what_was_kept(tmp_path: Path) -> None:
    ranked = (("Gene", 0.5, 2), ("Drug", 0.3, 1), ("Species", 0.2, 0))
    tasks = [
        {"iteration": 450, "weight": w, "domain": name, "bearing": n, "sentences": ["a", "b", "c"]}
        for name, w, n in ranked
    ]
    (tmp_path / "hardness.json").write_text(json.dumps({"tasks": tasks}))
    rows = [line.split() for line in shown("metabioner/4", tmp_path).splitlines()]
    assert ["450", "0.50", "Gene", "2", "of", "3"] in rows
    assert ["450", "0.20", "Species", "0", "of", "3"] in rows
    found = [{"corpus": "BC2GM", "row": "NER", "text": "[[TGF]] acts", "correct": "yes"}]
    (tmp_path / "examples.json").write_text(json.dumps({"shares": found}))
    assert "[[TGF]] acts" in shown("multigranularity/5", tmp_path)


def test_the_command(call: Command) -> None:
    assert call("table")[1].splitlines()[2].split()[:2] == ["hgda/3", "HGDA,"]
    code, out, _ = call("table", "hgda/2", "mtbioner/1", "--results", RESULTS)
    assert (code, out.count("- published")) == (0, 13)
    code, _, said = call("table", "hgda/2", "--format", "csv")
    assert (code, "shown by itself" in said) == (1, True)
    assert "hgda/9" in call("table", "hgda/9")[2]
