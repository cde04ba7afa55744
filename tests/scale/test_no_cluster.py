"""Where there is no Ray to work on: one line, soon, and nothing written."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from scale.made import lines, model, tag, texts

from hardner.corpora import Corpora
from hardner.errors import HardnerError
from hardner.evaluate.protocols import protocol
from hardner.scale import engines
from hardner.scale.evaluation import independent_parts


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Something that listens and is not Ray."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def refused(address: str) -> str:
    with pytest.raises(HardnerError) as caught, engines.cluster(address):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_ray(tmp_path: Path) -> None:
    source, network = lines(tmp_path / "in.jsonl", texts(3)), model(tmp_path / "model")
    script = "import sys; sys.modules['ray'] = None; from hardner.cli import main; main()"
    options = ["--model", network, "--engine", "ray", "--out", tmp_path / "out"]
    command = [sys.executable, "-c", script, "tag", source, *options]
    run = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode == 1
    assert run.stderr == "hardner: Ray is not installed; run: pip install 'hardner[ray]'\n"
    assert not (tmp_path / "out").exists()


def test_nobody_listens(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is an extra (hardner[ray])")
    with socket.create_server(("127.0.0.1", 0)) as made:
        address = f"127.0.0.1:{made.getsockname()[1]}"
    assert refused(address).startswith(f"no Ray cluster answers at {address}: ")
    assert refused("127.0.0.1:99999").startswith("no Ray cluster answers at 127.0.0.1:99999")
    source, network = lines(tmp_path / "in.jsonl", texts(3)), model(tmp_path / "model")
    with pytest.raises(HardnerError, match="no Ray cluster answers"):
        tag([source], tmp_path / "out", model=network, engine="ray", address=address)
    assert not (tmp_path / "out").exists()


def test_something_else_listens(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is an extra (hardner[ray])")
    monkeypatch.setattr(engines, "_TIMEOUT", 0.5)
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    assert "timed out" in refused(address)


def test_cells_apart_share_no_training() -> None:
    plan = protocol("few-shot")

    def parts(train: str, trains: bool, name: str = "few-shot") -> list[tuple[int, int]]:
        system, corpora = SimpleNamespace(train=train), Corpora.under("nowhere")
        found = independent_parts(protocol(name), system, trains, corpora)  # type: ignore[arg-type]
        return [(len(part.targets), len(part.sizes)) for part in found]

    assert parts("sources", trains=False) == [(1, 1)] * len(plan.targets) * len(plan.sizes)
    assert parts("target", trains=True) == [(1, 1)] * len(plan.targets) * len(plan.sizes)
    assert parts("sources", trains=True) == [(2, len(plan.sizes))] * 4
    assert len(parts("sources", trains=True, name="heterogeneous")) == 1
    assert len(parts("sources and target", trains=True, name="multitask-3")) == 1
