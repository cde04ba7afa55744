"""``hardner example``: the files of help and documentation, also where only the wheel is."""

from pathlib import Path

import pytest
from formats.command import Command

from hardner.formats import Report, read

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capfd, monkeypatch)


def test_the_files_are_those_of_the_checkout(
    call: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = call("example")
    assert (code, out) == (0, "")
    assert err == (
        "examples; next: hardner adapt examples/devices-train.jsonl --label Device --out "
        "device-model\n"
    )
    found = {p.relative_to("examples"): p for p in Path("examples").rglob("*") if p.is_file()}
    expected = {p.relative_to(EXAMPLES): p for p in EXAMPLES.rglob("*") if p.is_file()}
    assert found.keys() == expected.keys()
    assert all(path.read_bytes() == expected[name].read_bytes() for name, path in found.items())
    for name in ("devices-train.jsonl", "devices-test.jsonl", "abstract.txt"):
        assert list(read(tmp_path / "examples" / name, report=Report()))


def test_what_is_there_stays(call: Command, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    code, _, err = call("example", tmp_path / "mine")
    message = "exists already; name another folder"
    assert (code, err) == (1, f"hardner: {tmp_path / 'mine'}: {message}\n")
    assert call("example", tmp_path / "a folder" / "deep")[0] == 0
    assert (tmp_path / "a folder" / "deep" / "devices-train.jsonl").is_file()
