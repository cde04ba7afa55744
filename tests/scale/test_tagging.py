"""Plan, shards, receipts and manifest: on the local engine, which shares all of it with Ray."""

import errno
import hashlib
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from scale.made import content, ids, lines, model, receipts, tag, texts

from hardner.errors import FileError, HardnerError
from hardner.formats import Report, read, write
from hardner.scale import Summary, plan, shard_worker, tagging
from hardner.scale.resume import sole_writer
from hardner.tag.predictor import Predictor
from hardner.types import Document

FIXTURE = Path(__file__).parents[1] / "formats" / "pubmed-fixture.xml"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return lines(tmp_path / "in.jsonl", texts(50))


def out_of(path: Path) -> list[Document]:
    """The documents of all shards, in order."""
    return [document for shard in sorted(path.glob("part-*")) for document in read(shard)]


def test_shards_hold_what_the_predictor_finds(network: Path, source: Path, tmp_path: Path) -> None:
    on_progress: list[tuple[int, int]] = []
    said = tag(
        [source],
        tmp_path / "out",
        model=network,
        shard=12,
        on_progress=lambda done: on_progress.append((done.shards, done.total)),
    )
    expected = list(Predictor.load(network).documents(read(source)))
    assert out_of(tmp_path / "out") == expected
    entities = sum(len(document.entities) for document in expected)
    assert entities > 0
    assert said == Summary(5, 50, entities, 0, {})
    assert on_progress == [(n, 5) for n in range(6)]


def test_the_manifest_tells_the_files_as_they_are(
    network: Path, source: Path, tmp_path: Path
) -> None:
    tag([source], tmp_path / "out", model=network, shard=20)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [(row["name"], row["first"], row["documents"]) for row in manifest["shards"]] == [
        ("part-000000.jsonl", 1, 20),
        ("part-000001.jsonl", 21, 20),
        ("part-000002.jsonl", 41, 10),
    ]
    for row in manifest["shards"]:
        found = (tmp_path / "out" / row["name"]).read_bytes()
        assert (len(found), hashlib.sha256(found).hexdigest()) == (row["bytes"], row["sha256"])
    assert manifest["settings"]["shard"] == 20
    assert not (tmp_path / "out" / "bad.jsonl").exists()


def test_all_kinds_of_inputs(network: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    lines(folder / "a.jsonl", texts(5))
    found = [Document(f"p{n}", text) for n, text in enumerate(texts(7))]
    write(found, folder / "deep" / "b.parquet", report=Report())
    shutil.copy(FIXTURE, folder / "c.xml")
    (folder / "c.xml.md5").write_text("not ours")
    (folder / ".hidden.jsonl").write_text("not ours")
    (folder / "d.txt").write_text("A stent failed in London.")
    said = tag([folder], tmp_path / "out", model=network, shard=3)
    assert said.documents == 5 + 7 + 4 + 1
    assert said.notes["book or chapter left out"] == 1, "however many shards the file has"
    assert ids(tmp_path / "out") == Counter(
        [f"d{n}" for n in range(5)]
        + [f"p{n}" for n in range(7)]
        + [f"9000000{n}" for n in range(1, 5)]
        + ["d"]
    )
    patterns = [str(folder / "*.jsonl"), str(folder / "**" / "*.parquet")]
    assert tag(patterns, tmp_path / "two", model=network).documents == 12


def test_parquet_shards_hold_the_same(network: Path, source: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is an extra (hardner[ray])")
    tag([source], tmp_path / "a", model=network, shard=15)
    tag([source], tmp_path / "b", model=network, shard=15, to="parquet")
    assert out_of(tmp_path / "a") == out_of(tmp_path / "b")
    parts = sorted((tmp_path / "b").glob("part-*"))
    assert [path.suffix for path in parts] == [".parquet"] * 4


def test_what_is_missing_is_made_and_nothing_else(
    network: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    tag([source], out, model=network, shard=10)
    before, times = content(out), {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    (out / "part-000001.jsonl").unlink()
    (out / "part-000003.jsonl").write_text("cut short")
    (out / "receipts" / "part-000004.jsonl.json").unlink()
    (out / ".hardner-0123456789ab.tmp").write_text("half a shard")
    tag([source], out, model=network, shard=10)
    assert content(out) == before
    same = [path.name for path, at in times.items() if path.stat().st_mtime_ns == at]
    assert sorted(same) == ["part-000000.jsonl", "part-000002.jsonl"]
    assert not list(out.glob(".hardner-*"))


def test_a_shard_that_was_changed_is_made_again(
    network: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    tag([source], out, model=network, shard=10)
    before, shard = content(out), out / "part-000002.jsonl"
    shard.write_bytes(shard.read_bytes().replace(b'"id": "d', b'"id": "e', 1))
    assert content(out) != before
    assert shard.stat().st_size == len(before[shard.name])
    tag([source], out, model=network, shard=10)
    assert content(out) == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("receipts/part-000001.jsonl.json", "{", ""),
        ("receipts/part-000001.jsonl.json", "{", "[" * 100_000),
        ("receipts/part-000001.jsonl.json", '"sha256"', '"sha255"'),
        ("receipts/part-000001.jsonl.json", '"documents": 10', '"documents": "ten"'),
        ("receipts/part-000001.jsonl.json", '"documents": 10', '"documents": 1e999'),
        ("receipts/part-000001.jsonl.json", '"notes": {}', '"notes": []'),
        ("receipts/part-000001.jsonl.json", '"notes": {}', r'"notes": {"\ud800": 1}'),
        ("receipts/part-000001.jsonl.json", '"bad": []', '"bad": [{"file": "a"}]'),
        ("attempts/part-000002.jsonl.json", "{", '{"begun": 1e999}'),
        ("attempts/part-000002.jsonl.json", "{", '{"deaths": {"1": "two"}}'),
        ("attempts/part-000002.jsonl.json", "{", '{"deaths": 1}'),
        ("plan.json", "\n  50\n", "\n  -50\n"),
        ("plan.json", "\n  50\n", "\n  5000000000000\n"),
        ("plan.json", "\n  50\n", "\n  50, 50\n"),
        ("plan.json", '"inputs": [', '"inputs": [1, '),
        ("plan.json", '"counts"', '"count"'),
    ],
)
def test_notes_edited_by_hand_are_one_line(
    network: Path, source: Path, tmp_path: Path, file: str, old: str, new: str
) -> None:
    out = tmp_path / "out"
    tag([source], out, model=network, shard=10)
    (out / "part-000002.jsonl").unlink()
    path = out / file
    text = path.read_text() if path.exists() else old
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(FileError, match="damaged") as caught:
        tag([source], out, model=network, shard=10)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_two_at_once_in_one_folder(network: Path, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with sole_writer(out, is_dir=True):
        with pytest.raises(FileError, match="another process is writing it"):
            tag([source], out, model=network)
        assert not content(out)
    assert tag([source], out, model=network).documents == 50


@pytest.mark.parametrize("groups", [1, 2, 1000])
def test_a_group_of_shards_is_read_in_one_pass(
    network: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: int
) -> None:
    monkeypatch.setattr(plan, "_GROUPS", groups)
    source.write_text(source.read_text().replace('{"id": "d19"', '{"id" "d19"'))
    shutil.copy(FIXTURE, tmp_path / "z.xml")
    given, out = [source, tmp_path / "z.xml"], tmp_path / "out"
    opened: list[str] = []
    items = shard_worker._read_items
    monkeypatch.setattr(
        shard_worker, "_read_items", lambda *of: opened.append(of[0].path) or items(*of)
    )
    said = tag(given, out, model=network, shard=2)
    assert (said.shards, said.documents, said.bad) == (27, 53, 1)
    assert len(opened) == {1: 2, 2: 3, 1000: 27}[groups]
    whole = [*read(tmp_path / "z.xml", report=Report())]
    kept = [document.id for document in out_of(out)]
    assert kept == [f"d{n}" for n in range(50) if n != 19] + [document.id for document in whole]
    before = content(out)
    for number in (0, 9, 10, 26):
        (out / f"part-{number:06}.jsonl").unlink()
    tag(given, out, model=network, shard=2)
    assert content(out) == before


def test_bad_documents_go_aside(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = lines(tmp_path / "in.jsonl", texts(30))
    rows = source.read_text().splitlines()
    rows[3], rows[20] = '{"id": "half', '{"id": "textless"}'
    source.write_text("\n".join(rows) + "\n\n")
    whole = Predictor.documents

    def touchy(self, docs, **wish):  # type: ignore[no-untyped-def]
        given = list(docs)
        if any(document.id in ("d5", "d29") for document in given):
            raise RuntimeError("poison\nof two lines")
        return whole(self, given, **wish)

    monkeypatch.setattr(Predictor, "documents", touchy)
    said = tag([source], tmp_path / "out", model=network, shard=8)
    assert (said.documents, said.bad) == (26, 4)
    assert ids(tmp_path / "out") == {f"d{n}": 1 for n in range(30) if n not in (3, 5, 20, 29)}
    bad = [json.loads(line) for line in (tmp_path / "out" / "bad.jsonl").read_text().splitlines()]
    assert [(one["number"], one["id"]) for one in bad] == [
        (4, ""),
        (6, "d5"),
        (21, ""),
        (30, "d29"),
    ]
    assert "in.jsonl:4: not JSON" in bad[0]["error"]
    assert (bad[0]["text"], bad[1]["error"]) == (
        '{"id": "half',
        "RuntimeError: poison of two lines",
    )
    assert {one["file"] for one in bad} == {str(source)}


def test_a_fault_of_the_machine_is_no_fault_of_the_documents(
    network: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self, docs, **wish):  # type: ignore[no-untyped-def]
        raise RuntimeError("no GPU")

    monkeypatch.setattr(Predictor, "documents", broken)
    with pytest.raises(HardnerError, match=r"50 of 50 documents cannot be tagged.*no GPU$"):
        tag([source], tmp_path / "out", model=network)
    assert not content(tmp_path / "out")


class Death(BaseException):
    """As if the process had ended: nobody tidies up."""


def test_a_document_that_ends_its_worker_is_found(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = lines(tmp_path / "in.jsonl", texts(20)), tmp_path / "out"
    whole = Predictor.documents

    def deadly(self, docs, **wish):  # type: ignore[no-untyped-def]
        given = list(docs)
        if any(document.id == "d7" for document in given):
            raise Death
        return whole(self, given, **wish)

    monkeypatch.setattr(Predictor, "documents", deadly)
    for _ in range(4):
        with pytest.raises(Death):
            tag([source], out, model=network, shard=10)
    tag([source], out, model=network, shard=10)
    assert ids(out) == {f"d{n}": 1 for n in range(20) if n != 7}
    (bad,) = map(json.loads, (out / "bad.jsonl").read_text().splitlines())
    assert (bad["id"], bad["error"]) == ("d7", "ended each process that tried to tag it")
    assert not list((out / "attempts").iterdir())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"min_score": 0.5}, "min_score 0.0, now 0.5"),
        ({"labels": ["Disease"]}, 'labels null, now \\["Disease"\\]'),
        ({"to": "parquet"}, 'to "jsonl", now "parquet"'),
        ({"shard": 7}, "shard 10, now 7"),
    ],
)
def test_other_settings_are_refused(
    network: Path, source: Path, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    out = tmp_path / "out"
    same = {"given": [source], "out": out, "model": network, "shard": 10}
    tag(**same)  # type: ignore[arg-type]
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(HardnerError, match=f"out: was begun with other settings \\({said}\\)"):
        tag(**{**same, **change})  # type: ignore[arg-type]
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_other_inputs_are_refused(network: Path, source: Path, tmp_path: Path) -> None:
    out, more = tmp_path / "out", lines(tmp_path / "more.jsonl", texts(3))
    tag([source], out, model=network)
    with pytest.raises(HardnerError, match=r"settings \(without .*more\.jsonl\)"):
        tag([source, more], out, model=network)
    source.write_text(source.read_text() + "\n")
    with pytest.raises(HardnerError, match=r"settings \(.*in\.jsonl has changed since\)"):
        tag([source], out, model=network)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.xml", b"<PubmedArticleSet>\n<PubmedArticle>", r"a\.xml:2: not XML"),
        ("a.parquet", b"PAR1 not at all", r"a\.parquet: not Parquet"),
        ("a.jsonl.gz", b"\x1f\x8b cut", r"a\.jsonl\.gz: compressed data is cut short"),
        ("a.jsonl", b'{"text": "\xff"}', r"a\.jsonl:1: byte 0xFF is not UTF-8"),
        ("a.dat", b"\0\0", r"a\.dat: cannot tell its format"),
    ],
)
def test_an_input_that_cannot_be_read(
    network: Path, source: Path, tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(HardnerError, match=said) as caught:
        tag([source, tmp_path / name], tmp_path / "out", model=network)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_an_input_that_goes_bad_does_not_stop_the_others(
    network: Path, source: Path, tmp_path: Path
) -> None:
    other, out = tmp_path / "z.xml", tmp_path / "out"
    shutil.copy(FIXTURE, other)
    tag([other, source], out, model=network, shard=10)
    kept, at = other.read_bytes(), other.stat()
    for shard in ("part-000000.jsonl", "part-000003.jsonl"):
        (out / shard).unlink()
    damaged = kept[:1000] + b"&&&" + kept[1003:]
    other.write_bytes(damaged)
    os.utime(other, ns=(at.st_atime_ns, at.st_mtime_ns))
    with pytest.raises(HardnerError, match=r"z\.xml:\d+: not XML.*1 of 6 shards could not be made"):
        tag([other, source], out, model=network, shard=10)
    assert len(receipts(out)) == 6
    assert (out / "part-000003.jsonl").exists()
    other.write_bytes(kept)
    os.utime(other, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert tag([other, source], out, model=network, shard=10).documents == 54


def test_a_full_disk(
    network: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    left = 12

    def full(handle: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(HardnerError, match="no space left on the device") as caught:
            tag([source], out, model=network, shard=5)
    assert "\n" not in str(caught.value)
    assert 0 < len(receipts(out)) < 10
    assert not (out / "manifest.json").exists()
    assert tag([source], out, model=network, shard=5).documents == 50


def test_a_folder_whose_process_was_killed_before_its_plan_is_begun_anew(
    network: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for name in ("receipts", "attempts"):
        (out / name).mkdir(parents=True)
    (out / ".hardner-0.tmp").touch()
    assert tag([source], out, model=network, shard=5).documents == 50


def test_places_that_are_no_output(network: Path, source: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear to me")
    with pytest.raises(HardnerError, match=r"mine: exists and holds no plan\.json; name a new"):
        tag([source], tmp_path / "mine", model=network)
    with pytest.raises(HardnerError, match="exists and holds no plan"):
        tag([source], source, model=network)
    for given, said in (
        (["-"], "standard input"),
        ([tmp_path / "*.x"], "no file matches"),
        ([tmp_path / "nowhere"], "nowhere"),
        ([tmp_path / "empty"], "no files of a known format"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(HardnerError, match=said):
            tag(given, tmp_path / "out", model=network)
    with pytest.raises(HardnerError, match="has no label 'Gadget'"):
        tag([source], tmp_path / "out", model=network, labels=["Gadget"])
    assert not (tmp_path / "out").exists()


def test_the_output_is_never_an_input(network: Path, tmp_path: Path) -> None:
    lines(tmp_path / "in.jsonl", texts(5))
    for _ in range(2):
        assert tag([tmp_path], tmp_path / "out", model=network).documents == 5
    assert [
        Path(found).name for found in tagging.list_inputs([tmp_path], outside=tmp_path / "out")
    ] == ["in.jsonl"]


def test_names_are_those_of_the_reader(network: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "A b."}\n\n{"text": "C d."}\n{"text": "E f.", "id": "own"}\n')
    tag([path], tmp_path / "out", model=network, shard=1)
    assert sorted(ids(tmp_path / "out")) == sorted(document.id for document in read(path))
