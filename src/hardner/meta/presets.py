"""Named sets of values that lie under an experiment's own: for any encoder, then for its kind.

The defaults of `hardner.meta.experiment` are HGDA's for a BiLSTM (its appendix); a preset says
what differs from them.
"""

from hardner.config import ConfigTable, merged

TRAINING_PRESETS: dict[str, dict[str, ConfigTable]] = {
    # HGDA, appendix: with BERT the base rate is 1e-5 and the tags come from a linear layer.
    "paper": {
        "bert": {
            "decoder": {"kind": "softmax"},
            "inner": {"rate": 1e-5},
            "train": {"rate": 1e-5},
        },
        "transformer": {
            "decoder": {"kind": "softmax"},
            "inner": {"rate": 1e-5},
            "train": {"rate": 1e-5},
        },
    },
    # MetaNER, section 5.1.2: GloVe vectors that learn, letters by convolution alone, a BiGRU. The
    # paper names no optimiser.
    "metaner": {
        "any": {
            "encoder": {
                "kind": "bigru",
                "dimension": 300,
                "train_words": True,
                "filters": 100,
                "recurrent": 0,
            },
            "decoder": {"scheme": "IOBES"},
            "inner": {"rate": 1e-4},
            "train": {"rate": 1e-3, "scaled": False, "dropout": 0.5, "optimizer": "adamw"},
        },
    },
    # MT-BioNER, section 4.2: eight passes over 1,537 mini-batches of 32.
    "mtbioner": {
        "any": {
            "encoder": {"kind": "bert", "limit": 128},
            "decoder": {"kind": "softmax", "per": "corpus"},
            "train": {
                "iterations": 12_296,
                "tasks": 1,
                "shots": 32,
                "rate": 5e-5,
                "scaled": False,
                "optimizer": "adamw",
                "weight_decay": 0.01,
                "warmup": 0.4,
                "clip": 1.0,
                "dropout": 0.1,
            },
        },
        "transformer": {"train": {"rate": 2e-4, "precision": "bfloat16"}},
    },
    # Multi-granularity, section 4.2. Its Eq. 3 sums over the words of a sentence, some 25, of whose
    # losses the mean is taken here.
    "multigranularity": {
        "any": {
            "encoder": {"kind": "bert"},
            "decoder": {"kind": "softmax", "per": "corpus"},
            "granularity": {"tag": 25.0, "mtcls": 25.0},
            "train": {
                "tasks": 1,
                "shots": 32,
                "rate": 5e-5,
                "scaled": False,
                "optimizer": "adamw",
                "weight_decay": 0.01,
                "warmup": 0.1,
                "clip": 1.0,
                "dropout": 0.1,
            },
        },
        "transformer": {"train": {"rate": 2e-4, "precision": "bfloat16"}},
    },
    # What works better than the papers' own.
    "best": {
        "any": {
            "train": {
                "scaled": False,
                "optimizer": "adamw",
                "rate": 1e-3,
                "weight_decay": 0.01,
                "warmup": 0.05,
                "clip": 1.0,
            },
            "devel": {"patience": 10},
        },
        "bilstm": {"encoder": {"skip": True}},
        "transformer": {
            "inner": {"rate": 1e-3},
            "train": {"rate": 2e-4, "dropout": 0.1, "precision": "bfloat16"},
        },
        "bert": {
            "inner": {"rate": 1e-3},
            "train": {"rate": 5e-5, "dropout": 0.1, "precision": "bfloat16"},
        },
    },
}


def training_preset(name: str, encoder: str) -> ConfigTable:
    """The values of a preset for a kind of encoder; none for a name that is no preset."""
    layers = TRAINING_PRESETS.get(name, {})
    return merged(layers.get("any", {}), layers.get(encoder, {}))
