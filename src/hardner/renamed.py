"""Keys that had other names in version 0.1: its experiments, runs and result lines still load.

A configuration is hashed under the first names of its keys, so that a renamed field does not make a
new configuration of an old one.
"""

from typing import Any

_FIRST_NAMES = {
    "restarts": "soup",
    "iterate_averaging": "tail",
    "sqrt_rate_scaling": "calm",
    "o_bias": "caution",
    "o_bias_density": "rarity",
    "o_bias_size": "boldness",
    "negatives": "background",
    "replacements": "swaps",
    "self_training": "pupil",
    "pseudo_label_weight": "trust",
    "weight_interpolation": "blend",
}
_NEW_NAMES = {old: new for new, old in _FIRST_NAMES.items()}


def with_new_names(value: Any) -> Any:
    """Nested tables with the keys that the code uses now."""
    return _renamed(value, _NEW_NAMES)


def with_first_names(value: Any) -> Any:
    """Nested tables with the keys of version 0.1."""
    return _renamed(value, _FIRST_NAMES)


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if not isinstance(value, dict):
        return value
    return {names.get(key, key): _renamed(held, names) for key, held in value.items()}
