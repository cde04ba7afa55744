"""What the runs need on a machine that has nothing: corpora, and the vectors of their words.

    python experiments/carry.py pack build/carry --root CORPORA --vectors vectors.bin
    python experiments/carry.py unpack build/carry FOLDER    # FOLDER/corpora and FOLDER/vectors.bin

Vectors are kept for words that stand in the corpora, in half precision, which makes them a few tens
of megabytes; every machine that unpacks them has the same file, and so the same hash in its lines.
"""

import tarfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hardner.corpora import Corpora
from hardner.errors import HardnerError
from hardner.vectors import load_vectors

MOST = 64 << 20
"""Bytes of all that is packed."""
app = typer.Typer(add_completion=False)
Folder = Annotated[Path, typer.Argument()]


@app.command()
def pack(
    packed: Folder, root: Annotated[Path, typer.Option()], vectors: Path | None = None
) -> None:
    """Pack the corpora under a folder, and a file of vectors."""
    packed.mkdir(parents=True, exist_ok=True)
    with tarfile.open(packed / "corpora.tar", "w") as archive:  # their files are compressed
        archive.add(root.resolve(), "corpora")
    if vectors:
        corpora = Corpora.under(root)
        words: set[str] = set()
        for row in corpora.present():
            corpus = corpora.load(row.name)
            for sentence in (*corpus.train, *corpus.devel, *corpus.test):
                words |= {*sentence.tokens, *(token.lower() for token in sentence.tokens)}
        found = load_vectors(vectors, words)
        np.savez_compressed(
            packed / "vectors.npz",
            words=np.array("\n".join(found.words)),
            matrix=found.matrix.numpy().astype(np.float16),
        )
    size = sum(file.stat().st_size for file in packed.iterdir())
    if size > MOST:
        raise HardnerError(f"{packed}: {size:,} bytes, more than {MOST:,}")
    print(f"{packed}: {size:,} bytes")


@app.command()
def unpack(packed: Folder, out: Folder) -> None:
    """Unpack them into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(packed / "corpora.tar") as archive:
        archive.extractall(out, filter="data")
    if (packed / "vectors.npz").exists():
        held = np.load(packed / "vectors.npz")
        words, matrix = str(held["words"]).split("\n"), held["matrix"].astype(np.float32)
        with (out / "vectors.bin").open("wb") as file:
            file.write(f"{len(words)} {matrix.shape[1]}\n".encode())
            for word, row in zip(words, matrix, strict=True):
                file.write(word.encode() + b" " + row.tobytes() + b"\n")
    print(out)


if __name__ == "__main__":
    app()
