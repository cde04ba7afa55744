"""Makes the bundled model of a run of bundled.toml: python experiments/pack.py RUN [OUT]

The run has a decoder for each type of each corpus. Decoders are linear, so that the mean of
several is what they say together; those of one kind of mention become one.
"""

import sys
from pathlib import Path

import torch

from hardner.batch import TagSet
from hardner.model.describe import load_model, save_model
from hardner.model.layers import Params, part_of
from hardner.model.tagger import Tagger

HEADS = {
    "Disease": ("NCBI-disease/Disease", "BC5CDR-disease/Disease"),
    "Chemical": ("BC5CDR-chem/Drug", "BC4CHEMD/Drug"),
    "Gene": ("BC2GM/Gene", "JNLPBA/Gene"),
    "Species": ("LINNAEUS/Species", "S800/Species"),
    "CellType": ("JNLPBA-5/cell_type",),
    "CellLine": ("JNLPBA-5/cell_line",),
}
"""What the bundled model knows, and the decoders that say it together."""
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


def main() -> None:
    run = Path(sys.argv[1])
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else OUT
    model = run / "model" if (run / "model").is_dir() else run
    save_model(out, *packed(*load_model(model)), dtype=torch.float16)
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"{out}: {', '.join(HEADS)}; {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
