"""Fit only the upper layers of a transformer: the frozen lower ones read each sentence once.

The upper tagger reads cached outputs of the lower layers in place of subwords. Its parameters keep
their names, so that what is fitted to it are parameters of the whole tagger.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from hardner.batch import Batch, Ragged, Store
from hardner.errors import HardnerError
from hardner.features import Features, group_by_width
from hardner.model.encoders import Encoded
from hardner.model.layers import SCORING, Mode, Params, Precision, fit_autocast, scoped
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder, in_windows, lay_out, padding_mask, taken
from hardner.types import Sentence

LOWER = "table.lower"
_SUBWORDS_AT_ONCE = 1 << 15
"""Subwords that are padded alike, counting padding."""
_CPU_SUBWORDS = 1 << 9
"""Those of them that go through the lower layers at once on a CPU; more take memory, not less time.
"""


@dataclass(frozen=True)
class UpperLayers:
    """An encoder whose lower layers' outputs are cached in the store."""

    whole: PieceEncoder
    first: int
    """The lowest layer that is fitted."""

    @property
    def size(self) -> int:
        """As the whole encoder's."""
        return self.whole.size

    def init(self, rng: torch.Generator) -> Params:
        """As the whole encoder's."""
        return self.whole.init(rng)

    def features(self, sentences: Sequence[Sentence]) -> Features:
        """As the whole encoder's; `cache_lower_layers` then replaces the subwords in the store."""
        return self.whole.features(sentences)

    def __call__(self, params: Params, batch: Batch, mode: Mode) -> Encoded:
        """The upper layers; a word's vector is that of its first subword."""
        layout = lay_out(batch, "places", self.whole.pieces.limit)
        x = functional.embedding(layout.pieces, batch.inputs[LOWER])  # [M, W, P, D]
        own, transformer = scoped(params, "encoder"), self.whole.transformer
        layers = range(self.first, transformer.layers)
        x = transformer.layers_on(own, x, layout.mask, layers, mode)
        return taken(transformer.finish(own, x), layout, mode)


def upper_tagger(tagger: Tagger, params: Params, layers: int) -> Tagger:
    """The tagger with only the top ``layers`` of its transformer to be fitted."""
    encoder = tagger.encoder
    if not isinstance(encoder, PieceEncoder):
        raise HardnerError("only hardner's own transformer can be fitted layer by layer")
    first = max(0, encoder.transformer.layers - layers)  # all layers where there are no more
    made = replace(tagger, encoder=UpperLayers(encoder, first))
    if any(params[name].shape[0] > 1 for name in cached_names(made)):
        raise HardnerError("the frozen lower layers differ between samples; they must be shared")
    return made


def cached_names(tagger: Tagger) -> list[str]:
    """The names of the parameters whose outputs are cached."""
    upper = tagger.encoder
    assert isinstance(upper, UpperLayers)
    with torch.device("meta"):
        names = upper.whole.init(torch.Generator("cpu"))
    starts = ("encoder.pieces", *(f"encoder.layer{i}." for i in range(upper.first)))
    return [name for name in names if name.startswith(starts)]


@torch.no_grad()
def cache_lower_layers(
    tagger: Tagger, params: Params, store: Store, precision: Precision = "float32"
) -> Store:
    """The store with the lower layers' output for each subword; unchanged if it has them.

    A GPU computes it in single precision; a CPU as the fit, and then the tagger, compute.
    """
    upper = tagger.encoder
    assert isinstance(upper, UpperLayers)
    if LOWER in store.tables:
        return store
    pieces, limit = store.streams["pieces"], upper.whole.pieces.limit
    transformer, own = upper.whole.transformer, scoped(params, "encoder")
    flat = len(pieces.values)
    on_cpu = store.device.type == "cpu"
    table = torch.zeros(1 + flat, upper.size, device=store.device, dtype=own["pieces"].dtype)
    for rows in group_by_width(pieces.widths[:-1], _SUBWORDS_AT_ONCE):
        width = int(pieces.widths[rows].max())
        if width > limit:  # longer than the encoder's window: it fills several
            width = -(-width // limit) * limit
        size = max(1, _CPU_SUBWORDS // width) if on_cpu else len(rows)
        # In parts of a like width, so that they are padded, and rounded, as the whole is.
        for start in range(0, len(rows), size):
            at = torch.from_numpy(rows[start : start + size]).to(store.device)
            windows = in_windows(pieces.gather(at, width).unsqueeze(0), limit)  # [1, W, P]
            mask = padding_mask(windows > 0)
            with fit_autocast(precision if on_cpu else "float32", store.device):
                x = transformer.begin(own, windows, SCORING)
                x = transformer.layers_on(own, x, mask, range(upper.first), SCORING)
            x = x.reshape(len(at), width, -1)  # [B, P, D]
            position = torch.arange(width, device=store.device)
            there = position < pieces.lengths[at].unsqueeze(1)  # [B, P]
            place = (1 + pieces.starts[at].unsqueeze(1) + position)[there]
            table[place] = x[there].to(table.dtype)
    places = torch.where(pieces.values > 0, torch.arange(1, flat + 1, device=store.device), 0)
    raised = copy(store)
    raised.streams = {
        "places": Ragged(places, pieces.starts, pieces.lengths, pieces.widths),
        "heads": store.streams["heads"],
    }
    raised.tables = {LOWER: table}
    raised.packed = "places"
    return raised


def mean_decoder(tagger: Tagger, params: Params) -> dict[str, Tensor]:
    """The mean of all decoders for a single label, [1, 1, ...]."""
    single = [i for i, t in enumerate(tagger.tag_sets) if len(t.labels) == 1]
    if not single:
        raise HardnerError("the model has no decoder for a single label")
    tags = len(tagger.tag_sets[single[0]].tags)
    found = {n: p[:, single].mean(1, keepdim=True) for n, p in scoped(params, "decoder").items()}
    return {
        f"decoder.{n}": p[:, :, :tags, :tags] if n == "transitions" else p[:, :, :tags]
        for n, p in found.items()
    }
