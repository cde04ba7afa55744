"""How many files of the package somebody who follows a command in the code has to open.

    python benchmarks/visited_files.py

Counts the files of src/hardner of which at least one function is called while `hardner tag` tags
one sentence, and while `hardner adapt` learns from the 20 sentences of examples/. What runs because
a module is imported does not count. Prints the files and appends the counts to
benchmarks/results.jsonl.
"""

import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

from record import record

import hardner
from hardner.cli import main

PACKAGE = Path(hardner.__file__).parent
EXAMPLES = Path(__file__).parents[1] / "examples" / "devices-train.jsonl"


def visited_files(arguments: list[str]) -> list[str]:
    """The files of which a function is called, in any thread, while a command runs."""
    found: set[str] = set()
    local = threading.local()

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        importing = getattr(local, "importing", 0)
        if code.co_name == "<module>":
            local.importing = importing + (1 if event == "call" else -1)
        elif event == "call" and not importing:
            found.add(code.co_filename)

    sys.argv = ["hardner", *arguments]
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        main()
    except SystemExit as done:
        assert not done.code, f"hardner {arguments[0]} ended with {done.code}"
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    own = (Path(name) for name in found if name.startswith(f"{PACKAGE}/"))
    return sorted(path.relative_to(PACKAGE).as_posix() for path in own)


def count_files(case: str, arguments: list[str]) -> None:
    """Prints and records the files that a command visits."""
    found = visited_files(arguments)
    print(*found, sep="\n")
    record("visited files", case, "any", len(found), None, "", "files")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sentence, model = Path(folder, "sentence.txt"), Path(folder, "model")
        sentence.write_text("Aspirin may cause Reye syndrome in children.\n", encoding="utf-8")
        count_files("hardner tag, one sentence", ["tag", str(sentence)])
        learning = ["adapt", str(EXAMPLES), "--label", "Device", "--out", str(model)]
        count_files("hardner adapt, 20 sentences", learning)
