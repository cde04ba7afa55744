"""How long `hardner adapt` takes with the twenty example sentences, and how much memory.

    python benchmarks/adapt.py

The whole command, its start and cross-validation included, without a test file. Appends to
benchmarks/results.jsonl.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from record import record

ROOT = Path(__file__).parents[1]
DEVICE = "cpu, 2 cores"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hardner", "adapt", "examples/devices-train.jsonl"]
        began = time.perf_counter()
        subprocess.run([*command, "--out", f"{folder}/model"], cwd=ROOT, check=True)
        seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    record("adapt", "20 sentences, bundled model", DEVICE, seconds, None, "", "s")
    record("adapt", "20 sentences, bundled model, memory", DEVICE, memory, None, "", "MB")


if __name__ == "__main__":
    main()
