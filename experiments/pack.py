"""Makes what is bundled of two runs: python experiments/pack.py RUN START CORPORA [OUT]

RUN, of the experiment `bundled`, has a decoder for each type of each corpus. Decoders are linear,
so that the mean of several is what they say together; those of one kind of mention become one.
Their scores are then calibrated on devel sentences of the corpora that were not trained on. Of
START, of the experiment `start`, the encoder is kept: where adaptations begin. What makes decoders
of label names and descriptions is kept of both, where they were trained with it. OUT gets a folder
of each, in 8 bits, and one of the decoders that became one, for those who want the guidelines of
a single corpus.
"""

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from hardner.corpora import load_corpus
from hardner.meta.source_data import relabelled, with_labels
from hardner.model.describe import describe_tagger, files_of, load_model, save_model
from hardner.model.layers import Params, part_of, scoped
from hardner.model.tagger import Tagger
from hardner.schemes import TagSet
from hardner.tag.calibration import calibrated, fit_temperature
from hardner.tag.guidelines import GUIDELINES, GuidelineHead, replace_head, save_guidelines
from hardner.tag.predictor import Predictor
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
MENTIONS = 50
"""Without so many of them to choose on, a head has no temperature of its own."""
EACH = 500
"""Devel sentences of a corpus that a temperature is chosen on, at most."""
OUT = Path(__file__).parents[1] / "src" / "hardner" / "assets"


def packed(tagger: Tagger, params: Params) -> tuple[Tagger, Params]:
    """The tagger with the bundled heads alone."""
    sets = tuple(TagSet(label, (label,), tagger.tag_sets[0].scheme) for label in HEADS)
    tags = len(sets[0].tags)
    rows = [[tagger.domains.index(name) for name in names] for names in HEADS.values()]
    kept: Params = {}
    for name, value in params.items():
        if part_of(name) == "decoder":
            merged = torch.cat([value[:, own].mean(1, keepdim=True) for own in rows], dim=1)
            kept[name] = narrow(name, merged, tags)
        elif part_of(name) in ("encoder", "labels"):
            kept[name] = value
    return tagger.with_domains(sets), kept


def narrow(name: str, value: Tensor, tags: int) -> Tensor:
    """A decoder's numbers [1, D, C, ...] for the first tags alone."""
    cut = value[:, :, :tags]
    return cut[..., :tags] if name.endswith("transitions") else cut


def alone(tagger: Tagger, params: Params, root: Path, ready: Predictor) -> dict[str, GuidelineHead]:
    """The heads that others became one with, by corpus, calibrated on what is left of it.

    Where that is next to nothing, the temperature is that of the head they became.
    """
    tags = len(ready.tagger.tag_sets[0].tags)
    temperatures = dict(zip(ready.tagger.domains, ready.temperatures, strict=True))
    found = {}
    for label, names in HEADS.items():
        for name in names if len(names) > 1 else ():
            row = tagger.domains.index(name)
            own = {
                n: narrow(n, p[:, row : row + 1], tags).contiguous()
                for n, p in scoped(params, "decoder").items()
            }
            head = GuidelineHead(label, temperatures[label], own)
            left = devel(root, label, [name])
            if sum(len(sentence.spans) for sentence in left) >= MENTIONS:
                at = ready.tagger.domains.index(label)
                head = head._replace(
                    temperature=fit_temperature(replace_head(ready, head), left, at)
                )
            found[name.partition("/")[0]] = head
    return found


def devel(root: Path, label: str, names: Sequence[str]) -> list[Sentence]:
    """The last tenth of the devel sentences of a head's corpora, with its mentions alone.

    The others are trained on (``data.joined``).
    """
    drawn = []
    for name in names:
        corpus, _, theirs = name.partition("/")
        found = with_labels(load_corpus(corpus, root), {theirs}).devel
        rest = found[len(found) * 9 // 10 :]
        drawn.append(rest[:: -(-len(rest) // EACH) or 1])
    return [relabelled(sentence, label) for sentence in chain(*drawn)]


def started(tagger: Tagger, params: Params) -> tuple[Tagger, Params]:
    """The encoder, with a decoder that knows no label, since a tagger must have one."""
    alone = tagger.with_domains([TagSet("none", (), tagger.tag_sets[0].scheme)])
    parts = ("encoder", "labels")
    kept = {name: value for name, value in params.items() if part_of(name) in parts}
    fresh = alone.init_decoder(torch.Generator().manual_seed(0))
    return alone, kept | {name: torch.zeros_like(value) for name, value in fresh.items()}


def read(run: Path) -> tuple[Tagger, Params]:
    return load_model(run / "model" if (run / "model").is_dir() else run)


def encoder_of(tagger: Tagger) -> tuple[object, object]:
    """What two taggers must share to read each other's parameters."""
    return describe_tagger(tagger)["encoder"], files_of(tagger)


def main() -> None:
    runs, root = [Path(name) for name in sys.argv[1:3]], Path(sys.argv[3])
    out = Path(sys.argv[4]) if len(sys.argv) > 4 else OUT
    (tagger, params), (other, start) = (read(run) for run in runs)
    if encoder_of(tagger) != encoder_of(other):
        sys.exit(f"{runs[0]} and {runs[1]}: other encoders or tokenizers; train both from one")
    save_model(out / "start", *started(other, start), dtype=torch.int8)
    whole = tagger, params
    tagger, params = packed(tagger, params)
    save_model(out / "model", tagger, params, dtype=torch.int8)
    held_out = {label: devel(root, label, names) for label, names in HEADS.items()}
    ready = calibrated(Predictor.load(out / "model"), held_out)
    temperatures = dict(zip(tagger.domains, ready.temperatures, strict=True))
    save_model(out / "model", tagger, params, {"temperatures": temperatures}, dtype=torch.int8)
    save_guidelines(alone(*whole, root, ready), out / GUIDELINES)
    files = (path for name in ("model", "start", GUIDELINES) for path in (out / name).iterdir())
    print(f"{out}: {sum(path.stat().st_size for path in files) / 1e6:.1f} MB, {temperatures}")


if __name__ == "__main__":
    main()
