"""How long a curator waits for a model in the workbench: the first one, and the one that stays.

    python benchmarks/workbench_adapt.py

Runs the process that the workbench adapts in, with the twenty example sentences and the bundled
model's types kept, as a new project would. Run it while the machine has nothing else to do.
Appends to benchmarks/results.jsonl.
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from record import record

from hardner.formats import Report, read
from hardner.serve.runs import JOB_COMMAND, AdaptationOrder
from hardner.text import sentences

EXAMPLES = Path(__file__).parents[1] / "examples" / "devices-train.jsonl"


def main() -> int:
    found = [s for document in read(EXAMPLES, report=Report()) for s in sentences(document)]
    labelled = [replace(s, id=str(number)) for number, s in enumerate(found, 1)]
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        order = AdaptationOrder(labelled, [], [], keep=True, force=False, base=None)
        order.write(Path(folder))
        began = time.perf_counter()
        with subprocess.Popen(
            [*JOB_COMMAND, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as job:
            assert job.stdout is not None
            for line in job.stdout:
                for name in json.loads(line).keys() & {"first", "result"}:
                    seconds[name] = time.perf_counter() - began
    for name, case in (("first", "first model"), ("result", "all of it")):
        what = f"{len(labelled)} sentences, one type: {case}"
        record("workbench adapt", what, "cpu, 2 cores", round(seconds[name], 2), None, "", "s")
    return int(job.returncode)


if __name__ == "__main__":
    sys.exit(main())
