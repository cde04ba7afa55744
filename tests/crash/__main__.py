"""Commands stopped at random moments, and a table of what was lost.

    PYTHONPATH=tests python -m crash [--kills 100] [--seed 1] [--only convert,serve] [--record]

With --record, a line for each command and way of stopping it goes to benchmarks/reliability.jsonl,
of which docs/reliability.md is made.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from crash.commands import COMMANDS
from crash.hunt import all_trials
from fuzz.campaign import in_memory
from fuzz.lines import record


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100, help="of each command, by SIGKILL")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="commands, with commas between")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    names = set(filter(None, given.only.split(","))) or {*(c.name for c in COMMANDS), "serve"}
    bad = 0
    print("| command | stopped by | times | problems |")
    with tempfile.TemporaryDirectory(dir=in_memory(), prefix="hardner-crash-") as work:
        for command, how, times, found in all_trials(Path(work), names, given.kills, given.seed):
            problems = sum(found.values())
            print(f"| {command} | {how} | {times} | {problems} |", flush=True)
            for problem, count in found.most_common():
                print(f"{command}: {how}: {count}x {problem}", file=sys.stderr, flush=True)
            if given.record:
                line = {"command": command, "stopped by": how, "times": times, "problems": problems}
                record("crash", {**line, "seed": given.seed})
            bad += problems
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
