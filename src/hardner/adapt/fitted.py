"""The fitted parameters of many samples: taken apart, averaged, made more cautious."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from hardner.model.layers import Params


def add_o_bias(params: Params, o_bias: NDArray[np.float64]) -> Params:
    """The parameters of M samples, with a bias [M, D] added to the logit of ``O`` of each head."""
    if not o_bias.any():
        return params
    bias = params["decoder.bias"].clone()  # [M, D, C]
    bias[..., 0] += torch.from_numpy(o_bias).to(bias)
    return params | {"decoder.bias": bias}


def params_of_sample(params: Params, sample: int) -> Params:
    """The parameters of one of M samples."""
    return {n: p if p.shape[0] == 1 else p[sample : sample + 1] for n, p in params.items()}


def average_params(fits: Sequence[Params]) -> Params:
    """The mean of fits that began alike: weight averaging. What they share stays shared."""
    first, *others = fits
    found = dict(first)
    for name, value in first.items():
        if any(other[name] is not value for other in others):
            found[name] = torch.stack([fit[name] for fit in fits]).mean(0)
    return found
