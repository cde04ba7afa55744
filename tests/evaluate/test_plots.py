"""Figures: nothing is cut, nothing overlaps, the same file each time."""

import pytest
from evaluate.made import of_f1

from hardner.catalogue import BENCHMARK
from hardner.errors import FileError, HardnerError
from hardner.evaluate.plots import FIGURES, RC_PARAMS, write_figure

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")

FEW = [
    of_f1(min(9, 2 + i + k + s), method=method, corpus=corpus, size=size, sample=s)
    for i, method in enumerate(("MetaNER w/o critic", "HGDA"))
    for corpus in BENCHMARK
    for k, size in enumerate((5, 10, 20))
    for s in range(2)
]
RATIOS = [
    of_f1(f, method=method, corpus=corpus, size=size, protocol="ratios")
    for method, curve in (("In-Domain", (3, 6)), ("MetaNER", (5, 8)))
    for corpus in ("re3d", "MIT-movie")
    for size, f in zip((0.5, 1.0), curve, strict=True)
]
MANY = [
    of_f1(5, method=f"a method with a rather long name, {i}", corpus=corpus, size=size)
    for i in range(21)
    for corpus in BENCHMARK
    for size in (5, 10)
]
"""As many rows as a table of results may have after a while."""
GIVEN = {"shots": FEW, "ratios": RATIOS, "errors": FEW}


@pytest.mark.parametrize("kind", FIGURES)
def test_both_kinds_of_file(kind, tmp_path):
    svg, png = write_figure(lambda: FIGURES[kind](GIVEN[kind]), tmp_path / "figure")
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    text = svg.read_text()
    for name in {r.method for r in GIVEN[kind]}:
        assert name in text
    first = svg.read_bytes()
    write_figure(lambda: FIGURES[kind](GIVEN[kind]), svg)
    assert svg.read_bytes() == first


def drawn(figure):
    """All text that is to be seen."""
    yield from figure.legends[0].get_texts()
    yield from filter(None, (figure._supxlabel, figure._supylabel))
    for axes in filter(lambda axes: axes.get_visible(), figure.axes):
        yield axes.title
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if low <= tick.get_loc() <= high and tick.label1.get_visible():
                    yield tick.label1


@pytest.mark.parametrize(
    ("kind", "given"),
    [*GIVEN.items(), ("shots", MANY), ("errors", MANY)],
    ids=[*GIVEN, "shots of many rows", "errors of many rows"],
)
def test_all_text_lies_within_the_page_and_apart(kind, given):
    with matplotlib.rc_context(RC_PARAMS):
        figure = FIGURES[kind](given)
        figure.draw_without_rendering()
        boxes = {item: item.get_window_extent() for item in drawn(figure) if item.get_text()}
    page = figure.bbox
    assert len(boxes) > 10
    for item, box in boxes.items():
        assert page.x0 <= box.x0 and box.x1 <= page.x1, item.get_text()
        assert page.y0 <= box.y0 and box.y1 <= page.y1, item.get_text()
    items = list(boxes)
    for place, item in enumerate(items):
        for other in items[place + 1 :]:
            assert not boxes[item].overlaps(boxes[other]), (item, other)


def test_rows_are_told_apart_however_many_there_are():
    with matplotlib.rc_context(RC_PARAMS):
        axes, *_ = FIGURES["shots"](MANY).axes
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.get_lines()}
    assert len(looks) == 21


@pytest.mark.parametrize("kind", ["shots", "errors"])
def test_a_dollar_in_a_name_is_no_formula(kind, tmp_path):
    given = [of_f1(3, method="costs $x_{", corpus="A"), of_f1(4, method="MAML", corpus="A")]
    (svg,) = write_figure(lambda: FIGURES[kind](given), tmp_path / "figure.svg")
    assert "costs $x_{" in svg.read_text()


def test_only_what_was_run_has_a_panel():
    with matplotlib.rc_context(RC_PARAMS):
        figure = FIGURES["ratios"](RATIOS)
    assert {axes.get_title() for axes in figure.axes} == {"re3d", "MIT-movie"}


def test_curves_are_not_cut():
    with matplotlib.rc_context(RC_PARAMS):
        figure = FIGURES["shots"](FEW)
        tops = {axes.get_ylim()[1] for axes in figure.axes}
        highest = max(
            max(line.get_ydata())
            for axes in figure.axes
            for line in axes.get_lines()
            if len(line.get_ydata())
        )
    assert min(tops) >= highest


def test_what_cannot_be_drawn_is_one_line(tmp_path):
    with pytest.raises(FileError, match=r"an .svg or a .png file"):
        write_figure(lambda: FIGURES["shots"](FEW), tmp_path / "figure.pdf")
    with pytest.raises(
        HardnerError, match="one protocol with shares of the data; the files hold none"
    ):
        write_figure(lambda: FIGURES["ratios"](FEW), tmp_path / "figure.svg")
    with pytest.raises(HardnerError, match="several protocols: few_shot, ratios"):
        write_figure(lambda: FIGURES["errors"](FEW + RATIOS), tmp_path / "figure.svg")
