"""Figures of docs/reliability.md, from what `make fuzz` and `make crash` wrote."""

from collections.abc import Iterable, Iterator, Mapping

import lines

FILE = "benchmarks/reliability.jsonl"
NOT_READ = ("defect", "too slow", "too large")
WAYS = {
    "SIGKILL": "SIGKILL",
    "SIGTERM": "SIGTERM",
    "SIGINT": "SIGINT",
    "a full disk": "full disk",
    "a file too large": "quota",
    "a read-only folder": "read-only",
    "/dev/full": "`/dev/full`",
    "two at once": "two at once",
}

Line = Mapping[str, object]


def page() -> Iterator[str]:
    fuzzed: dict[object, Line] = {}
    stopped: dict[object, dict[object, Line]] = {}
    for line in lines.of(FILE):  # of what was tried twice, the last counts
        if line["test"] == "fuzz":
            fuzzed[line["kind"]] = line
        else:
            stopped.setdefault(line["command"], {})[line["stopped by"]] = line
    yield from damaged(fuzzed)
    yield from crashes(stopped)


def damaged(found: Mapping[object, Line]) -> Iterator[str]:
    yield "### Damaged inputs\n"
    yield "| kind | inputs | clean | one-line errors | defects | slowest | largest memory |"
    yield "|---|---|---|---|---|---|---|"
    for kind, line in found.items():
        counts = [_number(line, "inputs"), _number(line, "clean"), _number(line, "one-line error")]
        yield _row(str(kind), counts, _defects(line), line["slowest"], line["largest memory"])
    every = found.values()
    names = ("inputs", "clean", "one-line error")
    sums = [sum(_number(line, name) for line in every) for name in names]
    slowest, largest = (
        max((float(str(line[name])) for line in every), default=0)
        for name in ("slowest", "largest memory")
    )
    yield _row("**all**", sums, sum(map(_defects, every)), slowest, largest)
    yield _commits(every)


def crashes(found: Mapping[object, Mapping[object, Line]]) -> Iterator[str]:
    yield "### Commands stopped\n"
    yield "| command | " + " | ".join(WAYS.values()) + " | problems |"
    yield "|---" * (len(WAYS) + 2) + "|"
    for command, ways in found.items():
        times = [f"{_number(ways[way], 'times')}" if way in ways else "" for way in WAYS]
        problems = sum(_number(line, "problems") for line in ways.values())
        yield f"| `{command}` | " + " | ".join(times) + f" | {problems} |"
    yield _commits(line for ways in found.values() for line in ways.values())


def _row(kind: str, counts: list[int], defects: int, seconds: object, megabytes: object) -> str:
    cells = [*(f"{count:,}" for count in (*counts, defects)), f"{float(str(seconds)):.1f} s"]
    return f"| {kind} | " + " | ".join(cells) + f" | {float(str(megabytes)):,.0f} MB |"


def _defects(line: Line) -> int:
    return sum(_number(line, name) for name in NOT_READ)


def _number(line: Line, name: str) -> int:
    return int(str(line[name]))


def _commits(every: Iterable[Line]) -> str:
    commits = dict.fromkeys(str(line["commit"])[:12] for line in every)
    return f"\nCommits: {', '.join(commits)}.\n"
