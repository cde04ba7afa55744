"""Five corpora of genes as folders of one label, for the protocol `homogeneous`.

    python experiments/genes.py CORPORA OUT

ACE2005, whose six domains share their labels, is not free. These corpora share a label too, and
differ in what they are about and in what their guidelines call a gene.
"""

import sys
from pathlib import Path

from hardner import corpora
from hardner.catalogue import SPLITS
from hardner.evaluate.training import write_folders
from hardner.meta.source_data import relabelled, with_labels

GENES = {
    "BC2GM": "Gene",
    "JNLPBA": "Gene",
    "BioNLP11ID": "Protein",
    "BioNLP13PC": "Gene_or_gene_product",
    "CRAFT": "GGP",
}
"""By corpus, what it calls them."""
MOST = {"train": 1_500, "devel": 300, "test": 1_500}
"""Sentences of a split."""


def main(root: str, out: str) -> None:
    for name, label in GENES.items():
        corpus = with_labels(corpora.load_corpus(name, root), {label})
        splits = []
        for split in SPLITS:
            found = getattr(corpus, split)
            step = -(-len(found) // MOST[split])
            splits.append([relabelled(sentence, "Gene") for sentence in found[::step]])
        write_folders(Path(out), {f"genes-{name}": splits})


if __name__ == "__main__":
    main(*sys.argv[1:])
