"""A command is stopped in some way, looked at, and run once more."""

import os
import re
import signal
import subprocess
import time
from random import Random

from crash.bench import Bench, Ended, Reference, Snapshot, mount, mounted, snapshot
from crash.commands import Command

from hardner.folders import TEMPORARY

_MILESTONE = re.compile(r"[\d,]+ of [\d,]+: ")
"""How the lines begin that a run says on the way; its speed is among them."""
_PLACE = re.compile(r'File ".*/hardner/([^"]+)", line (\d+)')


def is_leftover(name: str) -> bool:
    """Whether a name is one of what is not finished."""
    parts = name.rstrip("/").split("/")
    return any(
        part.startswith(TEMPORARY) or part.endswith((".part", ".part.job")) for part in parts
    )


def damage(command: Command, reference: Reference, now: Snapshot) -> list[str]:
    """What is lost or half-written after a command was stopped."""
    before, after, early = reference.before, reference.after, reference.early
    found = [f"lost: {name}" for name in before if name in after and name not in now]
    for name, content in now.items():
        if is_leftover(name) or name.startswith(command.growing or "?"):
            continue
        if content not in (before.get(name), after.get(name), early.get(name)):
            found.append(f"half-written: {name}")
    whole = (before, after, early)
    found += [
        f"neither the old nor the new: {place}"
        for place in command.old
        if _below(place, now) not in [_below(place, files) for files in whole]
    ]
    return found


def _below(place: str, files: Snapshot) -> Snapshot:
    return {n: c for n, c in files.items() if n == place or n.startswith(f"{place}/")}


def difference(reference: Reference, now: Snapshot) -> list[str]:
    """What is not as an undisturbed command leaves it."""
    after = reference.after
    return [
        *(f"left behind: {name}" for name in now if name not in after),
        *(f"missing: {name}" for name in after if name not in now),
        *(f"differs: {name}" for name in after if name in now and after[name] != now[name]),
    ]


def said_wrong(reference: Reference, ended: Ended, codes: tuple[int, ...]) -> list[str]:
    """A traceback, more than a line beside what is always said, or another exit code."""
    usual = set(reference.err.splitlines())
    lines = ended.err.splitlines()
    own = [line for line in lines if line not in usual and not _MILESTONE.match(line)]
    found = []
    if "Traceback" in ended.err:
        places = _PLACE.findall(ended.err)
        found.append(f"traceback: {lines[-1][:200]} at {' '.join(places[-1]) if places else '?'}")
    elif len(own) > 1:
        found.append(f"{len(own)} lines: {own[0]} ... {own[-1]}")
    if ended.code not in codes:
        found.append(f"exit {ended.code} instead of {' or '.join(map(str, codes))}")
    return found


def run_again(bench: Bench, command: Command, reference: Reference, resume: bool) -> list[str]:
    """The same command once more ends as if nothing had been."""
    ended = bench.run((*command.arguments, *(command.again if resume else ())))
    if ended.code and difference(reference, snapshot(bench.folder)):  # else it was done before
        return [f"run again: exit {ended.code}: {(ended.err.splitlines() or [''])[-1]}"]
    return [f"run again: {one}" for one in difference(reference, snapshot(bench.folder))]


def killed(
    bench: Bench, command: Command, reference: Reference, rng: Random, old: bool, number: int
) -> list[str]:
    """Stop it by a signal: at something that it does to files, or at any moment."""
    bench.reset(command, old)
    if rng.random() < 0.6 and reference.events:
        at = rng.randint(1, reference.events)
        ended = bench.run(command.arguments, at=at, signal=int(number))
    else:
        pid = bench.begin(command.arguments)
        time.sleep(rng.random() * reference.seconds)
        os.kill(pid, number)
        ended = bench.end(pid)
    if number == signal.SIGKILL:
        found = [] if ended.code in (0, -signal.SIGKILL) else [f"exit {ended.code}"]
    else:
        found = said_wrong(reference, ended, (0, 128 + number, -number))
    found += damage(command, reference, snapshot(bench.folder))
    resume = bool(command.again) and rng.random() < 0.5
    return found + run_again(bench, command, reference, resume)


def too_large(bench: Bench, command: Command, reference: Reference, rng: Random) -> list[str]:
    """No file may grow beyond a size, as where a quota or a disk ends."""
    bench.reset(command, bool(command.old))
    sizes = [len(c) for n, c in reference.after.items() if reference.before.get(n) != c and c]
    ended = bench.run(command.arguments, file_size=rng.randint(1, max(sizes)))
    return _refused(bench, command, reference, ended)


def full_disk(bench: Bench, command: Command, reference: Reference, rng: Random) -> list[str]:
    """A file system without room for all of it."""
    free = sum(len(c) for n, c in reference.after.items() if reference.before.get(n) != c)
    used = sum(-(-len(c) // 4096) * 4096 for c in reference.before.values())
    room = used + 4 * 4096 + rng.randrange(free + 4096)
    with mounted(bench.folder, f"size={room}"):
        bench.reset(command)
        ended = bench.run(command.arguments)
        found = _refused(bench, command, reference, ended, again=False)
        mount("-o", "remount,size=1g", str(bench.folder))
        return found + run_again(bench, command, reference, resume=False)


def read_only(bench: Bench, command: Command, reference: Reference) -> list[str]:
    """A folder that cannot be written."""
    bench.reset(command, bool(command.old))
    mount("--bind", str(bench.folder), str(bench.folder))
    try:
        mount("-o", "remount,ro,bind", str(bench.folder))
        ended = bench.run(command.arguments)
        found = said_wrong(reference, ended, (1,))
        found += [
            f"{one} (read-only)" for one in damage(command, reference, snapshot(bench.folder))
        ]
    finally:
        subprocess.run(["umount", bench.folder], check=True)
    return found + run_again(bench, command, reference, resume=False)


def full_device(bench: Bench, command: Command, reference: Reference) -> list[str]:
    """Standard output, or the file that is written, takes nothing."""
    bench.reset()
    found = said_wrong(reference, bench.run(command.arguments, out="/dev/full"), (0, 1))
    if command.to_device:
        bench.reset()
        found += said_wrong(reference, bench.run(command.to_device), (1,))
    return found


def _refused(
    bench: Bench, command: Command, reference: Reference, ended: Ended, again: bool = True
) -> list[str]:
    found = said_wrong(reference, ended, (0, 1))
    if ended.code == 0:
        return found + difference(reference, snapshot(bench.folder))
    found += damage(command, reference, snapshot(bench.folder))
    return found + (run_again(bench, command, reference, resume=False) if again else [])


def two_at_once(bench: Bench, command: Command, *references: Reference) -> list[str]:
    """Two for one output: one of them is refused by a line, or the last of them stays, whole."""
    bench.reset()
    both = {"one": command.arguments, "two": command.other}
    pids = [bench.begin(arguments, name) for name, arguments in both.items()]
    ended = [bench.end(pid, name) for pid, name in zip(pids, both, strict=True)]
    pairs = list(zip(references, ended, strict=True))
    found = [problem for pair in pairs for problem in said_wrong(*pair, (0, 1))]
    done = [reference for reference, end in pairs if end.code == 0]
    if not done:
        return [*found, "both were refused"]
    now = snapshot(bench.folder)
    if all(difference(reference, now) for reference in done):
        found += [f"neither's output: {one}" for one in difference(done[0], now)]
    return found
