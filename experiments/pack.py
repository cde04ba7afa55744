"""Makes the bundled model of a run of bundled.toml: python experiments/pack.py RUN CORPORA [OUT]

The run has a decoder for each type of each corpus. Decoders are linear, so that the mean of
several is what they say together; those of one kind of mention become one. Their scores are then
calibrated on devel sentences of the corpora.
"""

import sys
from itertools import chain
from pathlib import Path

import torch

from hardner import checkpoint
from hardner.batch import TagSet
from hardner.corpora import load
from hardner.learn.material import relabelled, with_labels
from hardner.model.describe import describe, files_of, load_model
from hardner.model.layers import Params, part_of
from hardner.model.tagger import Tagger
from hardner.predict.calibrate import calibrated
from hardner.predict.folder import TEMPERATURES
from hardner.predict.predictor import Predictor
from hardner.types import Sentence

HEADS = {
    "Disease": ("NCBI-disease/Disease", "BC5CDR-disease/Disease"),
    "Chemical": ("BC5CDR-chem/Drug", "BC4CHEMD/Drug"),
    "Gene": ("BC2GM/Gene", "JNLPBA/Gene"),
    "Species": ("LINNAEUS/Species", "S800/Species"),
    "CellType": ("JNLPBA-5/cell_type",),
    "CellLine": ("JNLPBA-5/cell_line",),
}
"""What the bundled model knows, and the decoders that say it together."""
EACH = 500
"""Devel sentences of a corpus that a temperature is chosen on."""
OUT = Path(__file__).parents[1] / "src" / "hardner" / "assets" / "model"


def packed(tagger: Tagger, params: Params) -> tuple[Tagger, Params]:
    """The tagger with the bundled heads alone."""
    sets = tuple(TagSet(label, (label,), tagger.tag_sets[0].scheme) for label in HEADS)
    tags = len(sets[0].tags)
    rows = [[tagger.domains.index(name) for name in names] for names in HEADS.values()]
    kept: Params = {}
    for name, value in params.items():
        if part_of(name) == "decoder":
            merged = torch.cat([value[:, own].mean(1, keepdim=True) for own in rows], dim=1)
            wide = name.endswith("transitions")
            kept[name] = merged[:, :, :tags, :tags] if wide else merged[:, :, :tags]
        elif part_of(name) == "encoder":
            kept[name] = value
    return tagger.with_domains(sets), kept


def devel(root: Path, label: str) -> list[Sentence]:
    """Devel sentences of a head's corpora, as many of each, with its mentions alone."""
    drawn = []
    for name in HEADS[label]:
        corpus, _, theirs = name.partition("/")
        found = with_labels(load(corpus, root), {theirs}).devel
        drawn.append(found[:: max(1, len(found) // EACH)])
    return [relabelled(sentence, label) for sentence in chain(*drawn)]


def main() -> None:
    run, root = Path(sys.argv[1]), Path(sys.argv[2])
    out = Path(sys.argv[3]) if len(sys.argv) > 3 else OUT
    model = run / "model" if (run / "model").is_dir() else run
    tagger, params = packed(*load_model(model))
    ready = calibrated(Predictor(tagger, params), {label: devel(root, label) for label in HEADS})
    warmth = dict(zip(tagger.domains, ready.temperatures, strict=True))
    config = {**describe(tagger), TEMPERATURES: warmth}
    checkpoint.save(out, params, config, files_of(tagger), dtype=torch.float16)
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"{out}: {size / 1e6:.1f} MB, temperatures {warmth}")


if __name__ == "__main__":
    main()
