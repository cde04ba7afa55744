"""All trials of a command."""

import contextlib
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from crash.bench import Bench, Server, can_mount
from crash.commands import COMMANDS, Command
from crash.serving import stopped, two_workbenches
from crash.trials import (
    full_device,
    full_disk,
    killed,
    read_only,
    too_large,
    two_at_once,
)
from scale.made import QUICK

Trial = tuple[str, int, Counter[str]]
"""How the command was stopped, how often, and how often each problem was found."""
MAKE = "import sys; from crash.commands import make_inputs; make_inputs(sys.argv[1])"


def all_trials(
    work: Path, names: Collection[str], kills: int, seed: int
) -> Iterator[tuple[str, str, int, Counter[str]]]:
    """The trials of these commands, and of the workbench where ``serve`` is among them."""
    for ray in (False, True):
        chosen = [c for c in COMMANDS if c.name in names and c.needs_ray == ray]
        served = "serve" in names and not ray
        if not chosen and not served:
            continue
        (own := work / str(ray)).mkdir()
        with opened(own, ray) as bench:
            for command in chosen:
                for trial in hunt(bench, command, kills, seed):
                    yield command.name, *trial
            for trial in hunt_workbench(bench, kills, seed) if served else ():
                yield "serve", *trial


@contextlib.contextmanager
def opened(work: Path, ray: bool = False) -> Iterator[Bench]:
    """A bench with its inputs, made in a process of their own so that none of it lasts."""
    inputs = work / "inputs"
    tests = Path(__file__).parents[1]
    subprocess.run([sys.executable, "-c", MAKE, inputs], cwd=tests, check=True)
    with contextlib.ExitStack() as stack:
        environment = {"RAY_ADDRESS": stack.enter_context(_cluster())} if ray else {}
        server = Server(environment)
        stack.callback(server.close)
        yield Bench(server, inputs, work / "trial")


@contextlib.contextmanager
def _cluster() -> Iterator[str]:
    """The address of a Ray cluster of two nodes on this machine."""
    command = [sys.executable, str(Path(__file__).parents[1] / "scale" / "cluster.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=QUICK, text=True, **pipes) as cluster:
        assert cluster.stdout is not None
        yield cluster.stdout.readline().strip()
        cluster.communicate()


def hunt_workbench(bench: Bench, kills: int, seed: int) -> Iterator[Trial]:
    """Stop the workbench in every way there is."""
    few = max(1, kills // 10)
    for number, times in ((signal.SIGKILL, kills), (signal.SIGTERM, few), (signal.SIGINT, few)):
        name = f"serve {number.name} {seed}"
        yield (
            number.name,
            times,
            Counter(p for n in range(times) for p in stopped(bench, Random(f"{name} {n}"), number)),
        )
    yield "two at once", 1, Counter(two_workbenches(bench))


def hunt(bench: Bench, command: Command, kills: int, seed: int) -> Iterator[Trial]:
    """Stop a command in every way there is: so often by SIGKILL, less often in the others."""
    if command.old:
        bench.make_old(command)
    new = bench.reference(command)
    assert bench.reference(command).after == new.after, f"{command.name} is not repeatable"
    over = bench.reference(command, old=True) if command.old else new
    new = bench.with_early(command, new) if command.early else new
    few = max(1, kills // 10)

    def several(name: str, times: int, once: Callable[[Random], list[str]]) -> Trial:
        found: Counter[str] = Counter()
        for n in range(times):
            found.update(once(Random(f"{command.name} {name} {seed} {n}")))
        return name, times, found

    for number, times in ((signal.SIGKILL, kills), (signal.SIGTERM, few), (signal.SIGINT, few)):

        def stop(rng: Random, number: int = number) -> list[str]:
            old = bool(command.old) and rng.random() < 0.5
            return killed(bench, command, over if old else new, rng, old, number)

        yield several(number.name, times, stop)
    yield several("a file too large", few, lambda rng: too_large(bench, command, over, rng))
    yield several("/dev/full", 1, lambda rng: full_device(bench, command, new))
    if can_mount(bench.folder):
        yield several("a full disk", few, lambda rng: full_disk(bench, command, new, rng))
        yield several("a read-only folder", 1, lambda rng: read_only(bench, command, over))
    if command.other:
        bench.reset()
        other = bench.reference(replace(command, arguments=command.other))
        yield several("two at once", few, lambda rng: two_at_once(bench, command, new, other))
