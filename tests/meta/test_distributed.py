"""Ranks: two and four end where one does, a lost one ends the others, and any number goes on."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import one_rank
import pytest
import tiny
import torch
from safetensors.torch import load_file

from hardner import checkpoint
from hardner.config import merged, toml
from hardner.errors import HardnerError
from hardner.meta.distributed import ALONE, Ranks, join_ranks
from hardner.meta.experiment import experiment
from hardner.meta.log import read_log
from hardner.meta.run import run_experiment
from hardner.model.layers import Mode, dropout

TINY: dict[str, Any] = {
    "target": "Disease",
    "device": "cpu",
    "data": {"root": str(tiny.ROOT), "layout": "folders"},
    "encoder": {"dimension": 8, "hidden": 6, "letters": 4, "filters": 4, "recurrent": 4},
    "train": {"iterations": 60, "tasks": 3, "shots": 2, "save": 4},
    "devel": {"every": 30, "episodes": 9},
}
QUIET = {"OMP_NUM_THREADS": "1", "COLUMNS": "400"}


def started(ranks: int, *words: str) -> list[subprocess.Popen[str]]:
    """Processes of a Python command that find each other on this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    paths = (str(Path(tiny.__file__).parent), os.environ.get("PYTHONPATH", ""))
    shared["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return [
        subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, **QUIET, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]


def ended(processes: Sequence[subprocess.Popen[str]]) -> list[tuple[int, list[str]]]:
    """The exit code and the lines of each."""
    try:
        said = [process.communicate(timeout=300)[1].splitlines() for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(p.returncode, lines) for p, lines in zip(processes, said, strict=True)]


def file_of(folder: Path, **values: Any) -> Path:
    path = folder / "tiny.toml"
    path.write_text(toml(merged(TINY, values)))
    return path


@pytest.fixture(scope="module")
def one() -> dict[str, dict[str, torch.Tensor]]:
    """Where a single process ends."""
    return {case: one_rank.trained(case) for case in one_rank.CASES}


@pytest.mark.parametrize("ranks", [2, 4])
def test_any_number_of_ranks_ends_where_one_does(
    ranks: int, one: dict[str, dict[str, torch.Tensor]], tmp_path: Path
) -> None:
    found = ended(started(ranks, one_rank.__file__, str(tmp_path), "cpu"))
    assert found == [(0, [])] * ranks
    for case, alone in one.items():
        ends = [load_file(tmp_path / f"{case}-{rank}.safetensors") for rank in range(ranks)]
        assert all(torch.equal(ends[0][n], end[n]) for end in ends for n in alone)
        for name, tensor in alone.items():
            torch.testing.assert_close(ends[0][name], tensor, rtol=0, atol=1e-6)
        assert len(alone["weights"][0, 0].unique()) == (
            1 if case in ("metaner", "multitask") else 5
        )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
def test_sums_over_ranks_are_captured_on_a_gpu(tmp_path: Path) -> None:
    """With as many ranks as there are GPUs, which may be one."""
    ranks = min(torch.cuda.device_count(), 4)
    found = ended(started(ranks, one_rank.__file__, str(tmp_path), "cuda"))
    assert [code for code, _ in found] == [0] * ranks, found
    for case in one_rank.CASES:
        alone = one_rank.trained(case, device="cuda")
        end = load_file(tmp_path / f"{case}-0.safetensors")
        for name, tensor in alone.items():
            torch.testing.assert_close(end[name], tensor, rtol=0, atol=1e-6)


def waits_for(path: Path) -> None:
    until = time.monotonic() + 300
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)


def test_two_ranks_told_to_stop_go_on_alone_to_the_same_end(tmp_path: Path) -> None:
    path, folders = file_of(tmp_path), [tmp_path / name for name in ("alone", "shared")]
    run_experiment(experiment(TINY), folders[0])
    words = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, "-m", *words, "-m", "hardner", "train", str(path), "--out"]
    launcher = subprocess.Popen(
        [*command, str(folders[1])], env={**os.environ, **QUIET}, stderr=subprocess.PIPE, text=True
    )
    waits_for(folders[1] / "state")
    launcher.send_signal(signal.SIGINT)
    said = ended([launcher])[0][1]
    mine = [line for line in said if " of 60" in line]
    assert mine[0].startswith("0 of 60: devel ")
    assert re.fullmatch(r"stopped after \d+ of 60 iterations; to go on: the same command", mine[-1])
    assert len([line for line in mine if "stopped" in line]) == 1
    done = list(read_log(folders[1] / "log.jsonl"))
    assert [e.iteration for e in done] == list(range(len(done)))
    assert 4 <= len(done) < 60

    assert run_experiment(experiment(TINY), folders[1]).finished
    logs = [list(read_log(folder / "log.jsonl")) for folder in folders]
    assert [e.domains for e in logs[0]] == [e.domains for e in logs[1]]
    ends = [checkpoint.load_checkpoint(folder / "state").tensors for folder in folders]
    for name, tensor in ends[0].items():
        torch.testing.assert_close(ends[1][name], tensor, rtol=0, atol=1e-3)


def test_a_killed_rank_ends_the_others_with_one_line(tmp_path: Path) -> None:
    path, folder = file_of(tmp_path, devel={"every": 0}), tmp_path / "run"
    words = ["-m", "hardner", "train", str(path), "--out", str(folder), "--train.iterations=9999"]
    ranks = started(3, *words)
    waits_for(folder / "state")
    ranks[1].send_signal(signal.SIGKILL)
    found = ended(ranks)
    assert [code for code, _ in found] == [1, -signal.SIGKILL, 1]
    for rank in (0, 2):
        assert len(found[rank][1]) == 1
        assert found[rank][1][0].startswith(f"hardner: rank {rank} of 3: another rank has ended")
        assert "the same command goes on from the last state" in found[rank][1][0]


def test_tasks_are_shared_out_evenly_and_each_once() -> None:
    for tasks in range(1, 12):
        for of in range(1, tasks + 1):
            shares = [range(tasks)[Ranks(rank, of).own(tasks)] for rank in range(of)]
            assert [task for share in shares for task in share] == list(range(tasks))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1
    with pytest.raises(HardnerError, match=r"train.tasks: 4 ranks cannot share 3; raise it"):
        Ranks(0, 4).own(3)


def test_one_that_is_alone_talks_to_nobody() -> None:
    with join_ranks("cpu") as ranks:
        assert ranks is ALONE
    values = [torch.ones(3)]
    assert ALONE.gathered(values, 0, 3) == values
    assert ALONE.summed({"a": values[0]})["a"] is values[0]
    assert (ALONE.total(2.5), ALONE.any(True), ALONE.told("so")) == (2.5, True, "so")


def test_what_is_dropped_does_not_depend_on_where_a_task_is() -> None:
    x = torch.rand(5, 2, 3, 4).transpose(1, 2)

    def dropped(rows: slice, among: tuple[int, int] | None) -> torch.Tensor:
        torch.manual_seed(3)
        return dropout(x[rows], Mode(0.4, among=among))

    whole = dropped(slice(0, 5), None)
    assert (whole == 0).any()
    for rows in (slice(0, 1), slice(1, 3), slice(3, 5)):
        assert torch.equal(dropped(rows, (rows.start, 5)), whole[rows])
