"""Files of results that a full disk, an editor or another program has had its hands on."""

import json
import signal
from dataclasses import asdict
from pathlib import Path

import pytest
from evaluate.made import of_f1

from hardner.errors import FileError
from hardner.evaluate.errors import read_predictions
from hardner.evaluate.results import ResultFile, read_configs, read_results
from hardner.evaluate.table import build_tables

HELD = json.loads(json.dumps(asdict(of_f1(3))))
LONG = "[" * 100_000
FORECASTS = ("expected", "expected_on_text")
NEWER = {"unlabelled", "vectors_hash", "encoder_hash", "bearing", "tested", *FORECASTS}
"""What the first results did not have."""
CHANGES = [
    *({name: None} for name in HELD if name not in ("share", "unlabelled")),
    *({name: [1]} for name in HELD if name not in ("bearing", *FORECASTS)),
    {"bearing": ["many"]},
    {"bearing": [-1]},
    *({name: ["much"]} for name in FORECASTS),
    {"tp": -1},
    {"tp": True},
    {"fn": 10**400},
    {"shots": 1e9},
    {"share": 7.0},
    {"share": 0.0},
    {"share": float("nan")},
    {"method": "\ud800"},
    {"kinds": {}},
    {"kinds": HELD["kinds"] | {"missed": "many"}},
    {"labels": {"Gene": [1, 2, 10**30]}},
    {"versions": {"torch": 2}},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_line_with_another_value_is_one_line_of_error(tmp_path, change):
    path = tmp_path / "few_shot.jsonl"
    path.write_text(json.dumps(HELD) + "\n" + json.dumps(HELD | change) + "\n")
    with pytest.raises(FileError, match=r"few_shot\.jsonl:2: not a ") as caught:
        build_tables(read_results(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", HELD)
def test_a_line_that_lacks_a_key_is_one_line_of_error(tmp_path, name):
    path = tmp_path / "few_shot.jsonl"
    left = {key: value for key, value in HELD.items() if key != name}
    path.write_text(json.dumps(left) + "\n")
    if name in NEWER:
        assert len(list(read_results(path))) == 1
        return
    with pytest.raises(FileError, match=rf"few_shot\.jsonl:1: not a Result: .*{name} is missing"):
        list(read_results(path))


@pytest.mark.parametrize("line", ["null", '"text"', "[1]", "7" * 5000, LONG, "", '{"a": 1}{}'])
def test_a_line_that_holds_no_object_is_one_line_of_error(tmp_path, line):
    path = tmp_path / "few_shot.jsonl"
    path.write_text(f"{line}\n{json.dumps(HELD)}")
    with pytest.raises(FileError, match=r"few_shot\.jsonl:1: not a (line of JSON|JSON object)$"):
        list(read_results(path))


def test_a_damaged_line_is_told_although_the_last_is_unfinished(tmp_path):
    path = tmp_path / "few_shot.jsonl"
    path.write_text(f'{json.dumps(HELD)}\n{{"tp"\n{json.dumps(HELD)[:50]}')
    with pytest.raises(FileError, match=r"few_shot\.jsonl:2: not a line of JSON"):
        list(read_results(path))


@pytest.mark.parametrize("text", ["[]", "7", "{", LONG])
def test_damaged_configurations_are_one_line_of_error(tmp_path, text):
    (tmp_path / "configs.json").write_text(text)
    with pytest.raises(FileError, match=r"configs\.json: damaged"):
        read_configs(tmp_path)


WRONG = [
    {"tokens": 7},
    {"tokens": [1, 2]},
    {"gold": [[0, 1]]},
    {"gold": [[0, 9, "Gene"]]},
    {"found": [[1, 0, "Gene"]]},
    {"found": [["0", 1, "Gene"]]},
    {"found": [[0, 1, None]]},
    {"found": None},
]


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_wrong_lines_of_predictions_are_one_line_of_error(tmp_path, change):
    path = tmp_path / "predictions.jsonl"
    right = {"id": "1", "tokens": ["a", "b"], "gold": [[0, 1, "Gene"]], "found": []}
    path.write_text(json.dumps(right) + "\n" + json.dumps(right | change) + "\n")
    with pytest.raises(FileError, match=r"predictions\.jsonl:2: not a line of predictions"):
        list(read_predictions(path))


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    """The system takes a part of what is written, as a disk does that is nearly full."""
    resource = pytest.importorskip("resource", reason="Windows has no limit of a file's size")
    path = tmp_path / "few_shot.jsonl"
    file = ResultFile(path)
    file.append([of_f1(1)])
    before = path.read_bytes()
    more = [of_f1(2, sample=i) for i in range(1, 9)]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    heard = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) * 4, limits[1]))
    try:
        with pytest.raises(FileError, match=r"few_shot\.jsonl: \w+"):
            file.append(more)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, heard)
    assert path.read_bytes() == before
    file.append(more)
    assert [r.sample for r in read_results(path)] == list(range(9))


def test_a_write_that_is_cut_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "few_shot.jsonl"
    opened = Path.open

    class Short:
        """A file that takes ten bytes at a time."""

        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, data):
            return self.file.write(data[:10])

    monkeypatch.setattr(Path, "open", lambda *a, **k: Short(opened(*a, **k)))
    ResultFile(path).append([of_f1(1), of_f1(2, sample=1)])
    monkeypatch.undo()
    assert [r.sample for r in read_results(path)] == [0, 1]
