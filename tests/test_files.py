"""Reading and writing files: every way they can be wrong is one clear error, nothing half-done."""

import errno
import gzip
import io
import lzma
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hardner import files
from hardner.errors import FileError
from hardner.files import (
    atomic_binary,
    atomic_write,
    chunks,
    head,
    lines,
    open_binary,
    read_json,
    read_text,
    stem,
)
from hardner.folders import atomic_folder

TEXT = "naïve\ttokens\nзвук 漢字 😀\n\nlast"


def packed(path: Path, data: bytes) -> Path:
    opener = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(opener(data))
    return path


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.tsv.xz"])
def test_plain_and_compressed_read_alike(tmp_path: Path, name: str) -> None:
    path = packed(tmp_path / name, TEXT.encode())
    assert read_text(path) == TEXT
    assert list(lines(path)) == list(enumerate(TEXT.split("\n"), 1))
    with open_binary(path) as file:
        assert file.read() == TEXT.encode()


def test_compressed_without_the_ending_is_known_by_its_content(tmp_path: Path) -> None:
    for name, compress in (("a", gzip.compress), ("b.tsv", lzma.compress)):
        (tmp_path / name).write_bytes(compress(TEXT.encode()))
        assert read_text(tmp_path / name) == TEXT


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("final", [True, False])
def test_line_ends_and_byte_order_mark(tmp_path: Path, end: str, final: bool) -> None:
    rows = ["one", "", "three"]
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbf" + (end.join(rows) + end * final).encode())
    assert list(lines(path)) == list(enumerate(rows, 1))


def test_read_text_keeps_every_character(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\r\nb\rc\n\n")
    assert read_text(path) == "a\r\nb\rc\n\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_lines_whatever_the_size_of_the_blocks_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(files, "_BLOCK", size)
    content = "a\r\n\r\nbc😀\n\n\nd\u2028e\x85f\r\ng"
    path = tmp_path / "a"
    path.write_bytes(content.encode())
    expected = list(io.StringIO(content, newline=None).read().split("\n"))
    assert list(lines(path)) == list(enumerate(expected, 1))
    assert "".join(chunks(path)) == content


def error_of(path: Path | str) -> str:
    with pytest.raises(FileError) as caught:
        list(lines(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_latin1_bytes_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"fine\n" * 70_000 + "naïve".encode("latin-1"))
    assert error_of(path).startswith(f"{path}:70001: byte 0xEF is not UTF-8")


def test_nul_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"fine\nbad\0\n")
    assert error_of(path).startswith(f"{path}:2: a NUL byte")


@pytest.mark.parametrize("name", ["a.gz", "a.xz"])
@pytest.mark.parametrize("cut", [3, 20, -4])
def test_truncated(tmp_path: Path, name: str, cut: int) -> None:
    path = packed(tmp_path / name, os.urandom(400_000).hex().encode())
    path.write_bytes(path.read_bytes()[:cut])
    assert error_of(path) == f"{path}: compressed data is cut short or damaged"


def test_not_compressed_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.xz"
    path.write_text("plain")
    assert error_of(path) == f"{path}: compressed data is cut short or damaged"


def test_missing_and_folder(tmp_path: Path) -> None:
    assert error_of(tmp_path / "no") == f"{tmp_path / 'no'}: no such file or folder"
    assert error_of(tmp_path) == f"{tmp_path}: is a folder, not a file"


@pytest.mark.parametrize("read", [lambda p: list(lines(p)), read_text])
def test_long_lines_stop_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: object
) -> None:
    monkeypatch.setattr(files, "LINE_LIMIT", 1000)
    monkeypatch.setattr(files, "_BLOCK", 64)
    path = tmp_path / "a"
    path.write_bytes(b"x" * 1000 + b"\n" + b"y" * 1100 + b"\n")
    with pytest.raises(FileError, match=r"a:2: a line longer than 1,000 characters"):
        read(path)  # type: ignore[operator]


def test_an_endless_line_does_not_fill_the_memory(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="only Unix can limit a process's memory")
    path = tmp_path / "a.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(100):
            file.write(b"x" * 2_000_000)
    script = (
        "import resource, sys; from hardner.files import lines\n"
        "resource.setrlimit(resource.RLIMIT_AS, (300_000_000, 300_000_000))\n"
        "try: list(lines(sys.argv[1]))\n"
        "except Exception as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True)
    assert run.stdout.strip() == f"{path}:1: a line longer than 10,000,000 characters", run.stderr


def test_text_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "TEXT_LIMIT", 5)
    path = tmp_path / "a"
    path.write_text("ab\ncd\n")
    with pytest.raises(FileError, match="split it"):
        read_text(path)


def test_head_survives_a_cut_character(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("\ufeffaé".encode())
    assert head(path, 5) == "a"


@pytest.mark.parametrize("content", ["[1]", "3", '"ab"', "[" * 100_000, "{", "9" * 5000])
def test_json_that_is_no_object(tmp_path: Path, content: str) -> None:
    (tmp_path / "a").write_text(content)
    with pytest.raises(FileError, match=r"a: damaged, not JSON: |a: damaged: not a JSON object"):
        read_json(tmp_path / "a")


def test_a_name_that_is_too_long() -> None:
    assert error_of("x" * 5000).endswith("File name too long")


def test_a_text_that_begins_with_a_byte_order_mark(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as file:
        file.write("")
        file.write("\ufeffa")
        file.write("\ufeffb")
    assert read_text(tmp_path / "a") == "\ufeffa\ufeffb"


def test_stem() -> None:
    assert [stem(name) for name in ("a/b.tsv.xz", "c", "-", ".gz")] == [
        "b",
        "c",
        "stdin",
        "document",
    ]


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.tsv.xz"])
def test_written_as_named_and_deterministic(tmp_path: Path, name: str) -> None:
    contents = []
    for _ in range(2):
        with atomic_write(tmp_path / name) as file:
            file.write(TEXT + "\r\n")
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    assert read_text(tmp_path / name) == TEXT + "\r\n"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, FileError("a", "b")])
def test_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, failure: BaseException | type[BaseException]
) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(failure if isinstance(failure, type) else type(failure)):  # noqa: SIM117
        with atomic_write(path) as file:
            file.write("new")
            raise failure
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="no space left"), atomic_write(tmp_path / "a") as file:
        file.write("new")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_device_is_written_to_not_replaced() -> None:
    with pytest.raises(FileError, match="no space left"), atomic_write("/dev/full") as file:
        file.write("new")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)  # noqa: PTH116


def test_targets_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for target, reason in (
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "a", "no such file or folder"),
        (tmp_path / "file" / "a", "is a file, not a folder|no such file or folder"),
    ):
        with pytest.raises(FileError, match=reason), atomic_binary(target):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere"
)
def test_read_only_target(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch(0o444)
    with pytest.raises(FileError, match="permission denied"), atomic_write(path):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_links_and_permissions_are_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.touch()
    real.chmod(0o640)
    link.symlink_to(real)
    with atomic_write(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o640


def test_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    with pytest.raises(ValueError, match="stop"), atomic_folder(target) as folder:
        (folder / "a").write_text("new")
        raise ValueError("stop")
    assert not list(tmp_path.iterdir())
    for content in ("one", "two"):
        with atomic_folder(target) as folder:
            (folder / content).write_text(content)
        assert [path.name for path in target.iterdir()] == [content]
    assert list(tmp_path.iterdir()) == [target]
