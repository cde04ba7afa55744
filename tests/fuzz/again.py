"""One kept input once more, with its traceback: PYTHONPATH=tests python -m fuzz.again KIND PATH."""

import sys
import tempfile
import traceback
from pathlib import Path

from fuzz.judge import judge
from fuzz.kinds import contents
from fuzz.registry import all_kinds

if __name__ == "__main__":
    name, given = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as work:
        (kind,) = all_kinds(Path(work), {name})
        files = contents(given) if given.is_dir() else {given.name: given.read_bytes()}

        def take(path: Path) -> None:
            try:
                kind.take(path)
            except Exception:
                traceback.print_exc()
                raise

        print(judge(take, files, Path(work, "input")))
