"""Whether an installed hardner works, away from its checkout: python installed.py.

It needs nothing but the library, so that a fresh environment with the wheel alone can run it.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import hardner
from hardner import formats
from hardner.text import sentences

TEXT = "Mutations in BRCA1 increase the risk of breast cancer."
CALL = [sys.executable, "-m", "hardner"]


def main() -> None:
    place = Path(hardner.__file__).parent
    assert "site-packages" in place.parts, f"hardner is not installed but lies at {place}"
    assert (place / "py.typed").is_file()
    assert said("--version") == f"hardner {hardner.__version__}\n"
    assert re.search(r"BRCA1\[Gene 0\.\d\d\]", said("tag", "-", "--to", "text", text=TEXT))
    tagger = hardner.load()
    assert isinstance(tagger, hardner.Predictor)
    assert ("BRCA1", "Gene") in [(e.text, e.label) for e in tagger(TEXT)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "found.jsonl")
        formats.write([hardner.Document("1", TEXT, tuple(tagger(TEXT)))], path)
        (document,) = formats.read(path)
        said("example", f"{folder}/examples")
        assert len(list(formats.read(f"{folder}/examples/devices-train.jsonl"))) == 20
    assert len(sentences(document)) == 1
    print(f"hardner {hardner.__version__} at {place} works")


def said(*words: str, text: str = "") -> str:
    done = subprocess.run([*CALL, *words], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    main()
