"""Tables against expectations written by hand, and their numbers against the statistics module."""

import csv
import io
from dataclasses import replace
from statistics import mean, stdev

import pytest
from evaluate.made import of_f1, result
from shared import SHARED

from hardner.config import merged
from hardner.errors import HardnerError
from hardner.evaluate.protocols import (
    PROTOCOLS,
    best_published,
    published_mean,
    published_names,
    published_values,
)
from hardner.evaluate.render import RENDERERS, as_csv
from hardner.evaluate.results import record_config
from hardner.evaluate.significance import compare, holm
from hardner.evaluate.table import TableRow, build_tables, select_rows
from hardner.evaluate.trainings import read_trainings

PUBLISHED = SHARED / "published"

SMALL = [
    *(of_f1(f, corpus="A", sample=i) for i, f in enumerate((2, 4))),
    *(of_f1(f, corpus="B", sample=i) for i, f in enumerate((6, 6))),
    *(of_f1(f, corpus="A", sample=i, method="MAML") for i, f in enumerate((1, 1))),
]


def test_text_by_hand():
    assert RENDERERS["text"](build_tables(SMALL)) == (
        "few_shot: F1, 5 shots\n"
        "method             A             B          mean\n"
        "MAML    .100 ± .000†       not run       not run\n"
        "HGDA    .300 ± .141†  .600 ± .000†  .450 ± .071†\n"
        "mean ± standard deviation of 2 samples\n"
        "† of fewer samples than the 20 that the protocol draws\n"
    )


def test_markdown_by_hand():
    assert RENDERERS["md"](build_tables(SMALL, "recall")) == (
        "**few_shot: recall, 5 shots**\n\n"
        "| method | A | B | mean |\n"
        "|---|---|---|---|\n"
        "| MAML | .100 ± .000† | not run | not run |\n"
        "| HGDA | .300 ± .141† | .600 ± .000† | .450 ± .071† |\n"
        "\n- mean ± standard deviation of 2 samples\n"
        "- † of fewer samples than the 20 that the protocol draws\n"
    )


def test_latex_by_hand():
    assert RENDERERS["latex"](build_tables(SMALL)) == (
        "\\begin{table}\n"
        "\\caption{few\\_shot: F1, 5 shots}\n"
        "\\begin{tabular}{lrrr}\n"
        "\\toprule\n"
        "method & A & B & mean \\\\\n"
        "\\midrule\n"
        "MAML & .100 $\\pm$ .000$^{\\dagger}$ & not run & not run \\\\\n"
        "HGDA & .300 $\\pm$ .141$^{\\dagger}$ & .600 $\\pm$ .000$^{\\dagger}$ & "
        ".450 $\\pm$ .071$^{\\dagger}$ \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\par\\footnotesize mean $\\pm$ standard deviation of 2 samples\n"
        "\\par\\footnotesize $^{\\dagger}$ of fewer samples than the 20 that the protocol draws\n"
        "\\end{table}\n"
    )


def test_csv_by_hand():
    found = as_csv(build_tables([of_f1(5, corpus="A")]))
    assert found == (
        "protocol,metric,size,method,encoder,preset,natural,unlabelled,corpus,samples,mean,deviation,"
        "published,source,difference,baseline,gain,low,high,effect,p,p_holm\n"
        "few_shot,f1,5,HGDA,bilstm,paper,False,0,A,1,0.5,,,,,,,,,,,\n"
        "few_shot,f1,5,HGDA,bilstm,paper,False,0,mean,1,0.5,,,,,,,,,,,\n"
    )


def test_rows_with_unlabelled_text_stand_beside_those_without():
    results = [
        of_f1(f, sample=i, unlabelled=n, config=str(bool(n)))
        for n, found in ((1200, (5, 7)), (False, (4, 5)), (300, (4, 6)))
        for i, f in enumerate(found)
    ]
    (table,) = build_tables(results, baseline="HGDA")
    assert [table.label(row) for row in table.rows] == [
        "HGDA",
        "HGDA + 300 unlabelled",
        "HGDA + 1,200 unlabelled",
    ]
    means = [table.cells[5, row, "NCBI-disease"].mean for row in table.rows]
    assert means == pytest.approx([0.45, 0.5, 0.6])
    assert table.cells[5, table.rows[2], "NCBI-disease"].comparison.difference == pytest.approx(
        0.15
    )
    theirs = [table.cells[5, row, "NCBI-disease"].published for row in table.rows]
    assert [figure is not None for figure in theirs] == [True, False, False]


def test_published_values_stand_below_ours():
    shown = RENDERERS["text"](build_tables([result(counts=(3, 7, 7))])).splitlines()
    corpora = list(PROTOCOLS["few_shot"].targets)
    assert shown[1].split() == ["method", *corpora, "mean"]
    ours, theirs, difference, best = shown[2:6]
    assert ours.split()[:2] == ["HGDA", ".300†"]
    assert ours.count("not run") == 8
    assert theirs.split() == [
        "-",
        "published",
        *[".300", ".270", ".610", ".246", ".369", ".333", ".175", ".284", ".323"],
    ]
    assert difference.split() == ["-", "difference", "-.000"]
    assert best.split() == ["best", "published:", "HGDA", *theirs.split()[2:]]
    assert shown[-1] == "published HGDA: HGDA, Table 3"


def test_encoders_have_their_own_published_rows():
    """HGDA writes HGDA* for BERT, and BioBERT for plain fine-tuning."""
    assert published_names("few_shot", "HGDA", "bert") == ["HGDA*"]
    assert published_names("few_shot", "FineTuning", "transformer") == ["BioBERT"]
    assert published_names("few_shot", "encoder alone", "transformer") == ["BioBERT"]
    assert published_names("heterogeneous", "FineTuning", "bert") == ["FineTuning"]
    (table,) = build_tables([result(encoder="bert")])
    assert table.cells[5, table.rows[0], "NCBI-disease"].published.value == 0.2285


def test_what_only_the_first_form_published_says_so():
    found = RENDERERS["text"](build_tables([result(size=100)]))
    assert "published HGDA: MetaBioNER, Table 3, as MetaBioNER" in found


def test_the_best_published_means_are_those_of_the_papers():
    corpora = PROTOCOLS["few_shot"].targets
    best = {}
    for shots in (5, 10, 20, 50, 100):
        name = best_published("few_shot", "f1", shots, corpora)
        best[shots] = round(published_mean("few_shot", "f1", shots, corpora, [name]).value, 3)
    assert best == {5: 0.323, 10: 0.442, 20: 0.539, 50: 0.618, 100: 0.641}


def test_cells_hold_what_the_statistics_module_says():
    values = (3, 5, 6, 2, 4)
    (table,) = build_tables([of_f1(f, sample=i) for i, f in enumerate(values)])
    cell = table.cells[5, table.rows[0], "NCBI-disease"]
    assert cell.mean == pytest.approx(mean(v / 10 for v in values))
    assert cell.deviation == pytest.approx(stdev(v / 10 for v in values))
    assert cell.difference == pytest.approx(0.4 - 0.3001)


def test_comparisons_are_paired_and_corrected():
    base, better, same = (
        (4, 3, 5, 4, 3, 4, 5, 3),
        (6, 5, 8, 6, 5, 7, 8, 6),
        (4, 4, 5, 3, 3, 4, 5, 4),
    )
    results = [
        of_f1(f, corpus="A", method=name, sample=i)
        for name, values in (("MAML", base), ("HGDA", better), ("HGDA-NEs", same))
        for i, f in enumerate(values)
    ]
    (table,) = build_tables(reversed(results), baseline="MAML")
    rows = {row.method: row for row in table.rows}
    raw = {
        name: compare([v / 10 for v in values], [v / 10 for v in base]).p
        for name, values in (("HGDA", better), ("HGDA-NEs", same))
    }
    # the mean over one corpus is that corpus again: each test is there twice
    fair = holm([raw["HGDA"], raw["HGDA"], raw["HGDA-NEs"], raw["HGDA-NEs"]])
    assert table.cells[5, rows["HGDA"], "A"].p_holm == pytest.approx(fair[0])
    assert table.cells[5, rows["HGDA-NEs"], "A"].p_holm == pytest.approx(fair[2])
    assert table.cells[5, rows["MAML"], "A"].p_holm is None
    shown = RENDERERS["text"]([table])
    assert ".637 ± .119*" in shown
    assert "* differs from MAML: p < 0.05 in a paired permutation test" in shown
    assert "Holm's correction for 4 tests" in shown
    (line, *_) = [r for r in csv.DictReader(io.StringIO(as_csv([table]))) if r["method"] == "HGDA"]
    assert float(line["gain"]) == pytest.approx(0.25)
    assert float(line["p_holm"]) == pytest.approx(fair[0], rel=1e-5)
    assert line["baseline"] == "MAML"


def test_samples_that_only_one_has_are_not_paired():
    results = [of_f1(4, corpus="A", method="MAML", sample=i) for i in range(4)]
    results += [of_f1(5, corpus="A", sample=i) for i in range(2, 8)]
    (table,) = build_tables(results, baseline="MAML")
    assert table.cells[5, TableRow("HGDA", "bilstm", "paper"), "A"].comparison.pairs == 2


def test_the_baseline_must_be_a_row():
    with pytest.raises(HardnerError, match="must be one of the rows MAML, HGDA; got 'DANN'"):
        build_tables(SMALL, baseline="DANN")


def test_rows_are_told_apart():
    results = [result(), result(encoder="bert"), result(natural=True)]
    (table,) = build_tables(results)
    labels = [table.label(row) for row in table.rows]
    assert labels == ["HGDA (bert)", "HGDA (bilstm)", "HGDA (bilstm, natural)"]


def test_two_configurations_of_a_cell_are_refused():
    with pytest.raises(HardnerError, match=r"two results with different configurations, 0 and 1"):
        build_tables([result(), result(config="1")])


@pytest.mark.parametrize(("name", "said"), [("vectors", "word vectors"), ("encoder", "encoders")])
def test_two_trainings_that_differ_in_their_files_are_refused(name, said):
    def line(value, **changes):
        return result(**{f"{name}_hash": value}, **changes)

    with pytest.raises(HardnerError, match=f"two results with different {said}, aa and bb"):
        build_tables([line("aa"), line("bb", sample=1)])
    with pytest.raises(HardnerError, match=f"two results with different {said}, aa and bb"):
        build_tables([line("aa"), line("bb", size=10)])
    # Another seed is another training, and each target has a model of its own.
    elsewhere = line("aa" if name == "vectors" else "cc", corpus="S800", target_domain="Species")
    build_tables([line("aa"), line("bb", seed=1), elsewhere, line("")])
    with pytest.raises(HardnerError, match=f"two results with different {said}, aa and bb"):
        build_tables([line("aa"), line("bb", corpus="BC5CDR-disease")])


def test_two_configurations_are_not_averaged_over_their_samples():
    with pytest.raises(HardnerError, match=r"different configurations, 0 and 1"):
        build_tables([result(), result(sample=1, config="1")])


def test_a_row_of_several_configurations_says_so():
    results = [*SMALL, of_f1(5, corpus="B", method="MAML", config="1")]
    shown = RENDERERS["text"](build_tables(results))
    assert "of more than one configuration (see configs.json): MAML\n" in shown
    assert "of more than one" not in RENDERERS["text"](build_tables(SMALL))


def kept(tmp_path, *configs):
    """Configurations in a folder, as `hardner evaluate` keeps them, with their keys."""
    keys = [record_config(tmp_path, config) for config in configs]
    return keys, read_trainings([tmp_path / "few_shot.jsonl"])


def config(train="sources", *, shots=5, **more):
    experiment = {"train": {"shots": shots, "rate": 0.01}, "seed": 0, "encoder": {"folder": ""}}
    return {"experiment": merged(experiment, more), "train": train, "adaptation": {"steps": 200}}


def test_a_row_of_two_trainings_is_refused(tmp_path):
    (one, other), trainings = kept(tmp_path, config(), config(more={}, encoder={"skip": True}))
    mixing = [result(config=one), result(config=other, corpus="BC5CDR-disease")]
    with pytest.raises(HardnerError, match=f"HGDA .bilstm, paper. mixes two trainings: {one} on"):
        build_tables(mixing, trainings=trainings)
    assert "of more than one configuration" in RENDERERS["text"](build_tables(mixing))
    build_tables([mixing[0], replace(mixing[1], preset="best")], trainings=trainings)


def test_what_the_models_of_a_row_differ_in_anyway_is_no_other_training(tmp_path):
    same = (
        config(),
        config(seed=1),
        config(encoder={"folder": "runs/types-drug/model"}),
        config(encoder={"skip": False}),
    )
    keys, trainings = kept(tmp_path, *same)
    results = [result(config=key, corpus=str(i)) for i, key in enumerate(keys)]
    (table,) = build_tables(results, trainings=trainings)
    assert not table.mixed
    own = [config("target", data={"corpora": [name]}, more={}) for name in ("A", "B")]
    keys, trainings = kept(tmp_path / "own", *own)
    results = [result(config=key, corpus=str(i)) for i, key in enumerate(keys)]
    build_tables(results, trainings=trainings)


def test_a_row_may_have_a_model_for_each_number_of_shots(tmp_path):
    (five, ten), trainings = kept(tmp_path, config(), config(shots=10))
    row = [result(config=five), result(config=ten, size=10)]
    build_tables(row, trainings=trainings)
    with pytest.raises(HardnerError, match="mixes two trainings"):
        build_tables([*row, result(config=five, size=20)], trainings=trainings)


def test_several_seeds_are_compared_by_both(tmp_path):
    results = [
        of_f1(f + seed % 2, corpus="A", method=name, sample=i, seed=seed)
        for name, values in (("MAML", (4, 3, 5, 4)), ("HGDA", (7, 6, 8, 7)))
        for i, f in enumerate(values)
        for seed in range(4)
    ]
    (table,) = build_tables(results, baseline="MAML")
    found = table.cells[5, TableRow("HGDA", "bilstm", "paper"), "A"].comparison
    assert (found.seeds, found.pairs) == (4, 4)
    assert found.difference == pytest.approx(0.3)
    assert "in a bootstrap over samples and seeds" in RENDERERS["text"]([table])


def test_a_mean_of_fewer_samples_than_planned_is_marked():
    many = [of_f1(5, sample=i) for i in range(20)]
    few = [of_f1(5, sample=i, seed=seed, method="MAML") for i in range(10) for seed in (0, 1)]
    shown = RENDERERS["text"](build_tables([*many, *few])).splitlines()
    assert [("†" in line) for line in shown[2:4]] == [True, False]
    assert "† of fewer samples than the 20 that the protocol draws" in shown


def test_seeds_are_further_samples():
    (table,) = build_tables([of_f1(2, seed=0), of_f1(4, seed=1)])
    assert len(table.cells[5, table.rows[0], "NCBI-disease"].values) == 2


def test_protocols_have_tables_of_their_own():
    results = [result(), result(protocol="full", size=1.0)]
    assert [t.protocol for t in build_tables(results)] == ["few_shot", "full"]
    assert "full: F1, 100% of the data" in RENDERERS["text"](build_tables(results))


def test_where_methods_pass_in_domain():
    ratios = {
        "In-Domain": {0.5: 4, 1.0: 6},
        "FineTuning": {0.5: 5},
        "MetaNER": {0.5: 5, 1.0: 7},
        "DANN": {0.5: 3, 1.0: 5},
    }
    results = [
        of_f1(f, method=name, corpus="re3d", size=size, protocol="ratios")
        for name, curve in ratios.items()
        for size, f in curve.items()
    ]
    shown = (
        RENDERERS["text"](build_tables(results)).split("ratios: share of the data")[1].splitlines()
    )
    lines = [line.replace("not run", "unknown").split() for line in shown]
    unknown = ["unknown"] * 3
    assert lines[1] == ["method", *PROTOCOLS["ratios"].targets]
    assert lines[2] == ["FineTuning", *unknown, "unknown", "unknown"]
    assert lines[3] == ["DANN", *unknown, "-", "unknown"]
    assert lines[4] == ["MetaNER", *unknown, "75%", "unknown"]
    assert lines[5] == ["-", "published", "52%", "41%", "45%", "31%", "5%"]


def test_rows_by_their_name():
    results = [*SMALL, *(of_f1(3, corpus="A", sample=i, preset="best") for i in range(2))]
    assert [r.preset for r in select_rows(results, ["HGDA (best)"])] == ["best"] * 2
    assert {r.method for r in select_rows(results, ["HGDA"])} == {"HGDA"}
    assert len(select_rows(results, ["HGDA"])) == 6
    assert select_rows(results, ["MAML (paper)", "HGDA"]) == sorted(results, key=results.index)
    assert select_rows(results, []) == results
    with pytest.raises(HardnerError, match=r"no row 'WPZ'; there are HGDA \(best\), "):
        select_rows(results, ["HGDA", "WPZ"])


@pytest.mark.parametrize("shape", RENDERERS)
def test_every_format_shows_every_row(shape):
    shown = RENDERERS[shape](build_tables(SMALL))
    assert "MAML" in shown
    assert "HGDA" in shown


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"the published figures are not at {PUBLISHED}")
def test_published_figures_are_the_papers():
    """Every number of the two files that lie beside the corpora, under its table's name."""
    ours: dict[str, list[float]] = {}
    for found in published_values().values():
        for figure in found:
            ours.setdefault(figure.source, []).append(figure.value)
    theirs: dict[str, list[float]] = {}
    numbers = {"f1": 3, "precision": 4, "recall": 5}
    for row in csv.DictReader((PUBLISHED / "few_shot.csv").read_text().splitlines()):
        hgda = row["paper"] == "hgda"
        table = f"HGDA, Table {numbers[row['metric']]}" if hgda else "MetaBioNER, Table 3"
        theirs.setdefault(table, []).append(float(row["value"]))
        if row["corpus"] != "overall":
            key = ("few_shot", row["metric"], row["shots"], row["corpus"])
            values = {(f.method, f.source): f.value for f in published_values()[key]}
            assert values[row["method"], table] == float(row["value"])
    papers = {"metaner": "MetaNER", "mtbioner": "MT-BioNER"}
    for row in csv.DictReader((PUBLISHED / "other_tables.csv").read_text().splitlines()):
        paper, number, value = row["paper"], row["table"], float(row["value"])
        if number == "text":
            continue
        if paper.startswith("su2024"):
            theirs.setdefault("Su et al. 2024, abstract", []).append(value / 100)
        elif paper == "metabioner":
            theirs.setdefault("MetaBioNER, Table 5", []).append(value)
        elif paper == "multigranularity":
            theirs.setdefault("Multi-granularity, Tables 2 to 4", []).append(value / 100)
        else:
            place = "Figure 6" if number == "fig6" else f"Table {number}"
            theirs.setdefault(f"{papers[paper]}, {place}", []).append(value / 100)
    assert ours.keys() >= theirs.keys()
    for source, values in theirs.items():
        held = sorted(ours[source])
        for value in sorted(values):  # each once; the papers' texts have more than the files
            near = next(v for v in held if v == pytest.approx(value))
            held.remove(near)


def test_precision_and_recall_as_printed_give_f1_as_printed():
    """What was taken from the papers' texts; the few-shot values are means, which need not."""
    found = {}
    for (protocol, metric, size, corpus), figures in published_values().items():
        for figure in figures if protocol in ("shares", "multitask_3", "multitask_4") else ():
            found.setdefault((protocol, size, corpus, figure.method), {})[metric] = figure.value
    whole = [metrics for metrics in found.values() if len(metrics) == 3]
    assert len(whole) > 80
    for metrics in whole:
        p, r = metrics["precision"], metrics["recall"]
        assert metrics["f1"] == pytest.approx(2 * p * r / (p + r), abs=0.002)
