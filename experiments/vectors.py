"""Learns the word vectors that the BiLSTM's rows of docs/results.md start from, by gensim.

    python experiments/vectors.py vectors.bin ../shared/corpora ../shared/text/*.xz

Words are split as hardner splits them; devel and test sentences of the corpora do not enter.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from gensim.models import Word2Vec

from hardner.pretrain.text import Text, held_out
from hardner.pretrain.words import END, read

LINE = 5_000
"""Words; gensim reads no more of one."""


def main(out: str, corpora: str, *texts: str) -> None:
    found = read(Text(map(Path, texts), held_out(Path(corpora))), least=5)
    with TemporaryDirectory(dir=Path(out).parent) as folder:
        plain = Path(folder) / "text"
        words = np.array(found.words, dtype=object)
        with plain.open("w", encoding="utf-8") as file:
            for line in np.split(found.ids, np.flatnonzero(found.ids == END)):
                for first in range(1, len(line), LINE):  # behind the mark
                    file.write(" ".join(words[line[first : first + LINE]]) + "\n")
        learnt = Word2Vec(
            corpus_file=str(plain),
            sg=1,
            vector_size=200,
            window=5,
            negative=5,
            sample=1e-4,
            epochs=6,
            workers=2,
            seed=1,
        )
    learnt.wv.save_word2vec_format(out, binary=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
