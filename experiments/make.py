"""Writes every experiment file beside it from one template: python experiments/make.py"""

from pathlib import Path

from hardner.meta.config import ConfigTable, merged, toml

HERE = Path(__file__).parent
TARGETS = ("Disease", "Drug", "Gene", "Species")
PRETRAINED = {"encoder": {"kind": "transformer", "folder": "experiments/encoder"}}
ACROSS = {"inner": {"steps": 2}}
"""Methods that learn from some domains and judge on another meet each of the former once."""

METHODS: dict[str, ConfigTable] = {
    "hgda": {},
    "hgda-nes": {},
    "hgda-both": {},
    "metaner": ACROSS,
    "metaner-without-critic": ACROSS,
    "metaner-new-only": ACROSS,
    "metaner-maml": ACROSS,
    "maml": {},
    "multitask": {},
    "finetuning": {"method": "multitask", "decoder": {"per": "all"}},
    "dann": {},
    "wpz": {
        "decoder": {"kind": "softmax"},
        # No paper gives them; a loss averaged over words needs more than HGDA's rate for sentences.
        "train": {"optimizer": "adamw", "rate": 1e-3, "scaled": False},
    },
}
"""Experiments by name: a method of that name, unless they say another."""
TYPES: ConfigTable = {
    "method": "multitask",
    "preset": "best",
    "decoder": {"kind": "softmax", "per": "type"},
    "data": {
        "corpora": [
            *("NCBI-disease", "BC5CDR-disease", "BC5CDR-chem", "BC4CHEMD", "JNLPBA", "BC2GM"),
            *("LINNAEUS", "S800", "JNLPBA-5", "BioNLP09", "BioNLP11EPI", "BioNLP11ID"),
            *("BioNLP13CG", "BioNLP13GE", "BioNLP13PC", "CRAFT", "Ex-PTM"),
        ]
    },
    "train": {"iterations": 1_500, "tasks": 8, "shots": 16},
    "devel": {"every": 0},
}
"""Every type of every biomedical corpus is a domain."""
BUNDLED: ConfigTable = {
    "data": {
        "corpora": [*TYPES["data"]["corpora"][:8], "JNLPBA-5"],
        "labels": ["Disease", "Drug", "Gene", "Species", "cell_type", "cell_line"],
        "joined": 0.9,
    },
    "train": {"iterations": 10_000},
}
"""The types that are found out of the box; the rest of the devel data is for calibration."""
MAKESHIFT: ConfigTable = {
    "inner": {"steps": 5, "rate": 1e-3, "optimizer": "adamw", "decoder": 20.0, "fresh": True},
    "train": {"iterations": 1_000, "tasks": 8, "shots": 10, "rate": 5e-5},
}
"""Meta-training that rehearses what adaptation to a new type does."""
TRANSFORMER = ("hgda", "hgda-nes", "multitask")

GENERAL = ("CoNLL2003", "WNUT17", "wikigold")
HETEROGENEOUS = (
    "metaner",
    "metaner-without-critic",
    "metaner-new-only",
    "metaner-maml",
    "multitask",
    "finetuning",
    "dann",
    "wpz",
)
ABLATIONS: dict[str, ConfigTable] = {
    "without-letters": {"encoder": {"filters": 0}},
    **{f"lambda-{weight}": {"inner": {"weight": weight}} for weight in (0.2, 0.4, 0.6, 0.8)},
}
"""MetaNER's Figure 8 beside the methods above; lambda is 1 elsewhere."""
THREE = ["BC2GM", "BC5CDR-chem", "NCBI-disease"]
GRANULARITIES: dict[str, ConfigTable] = {
    "": {},
    "cls-": {"granularity": {"pooling": "cls"}},
    "mean-": {"granularity": {"pooling": "mean"}},
    "without-mtcls-": {"granularity": {"mtcls": 0.0}},
    "without-bcls-": {"granularity": {"bcls": 0.0}},
    "without-mcls-": {"granularity": {"mcls": 0.0}},
    "alternating-": {"method": "multigranularity-alternating"},
    "ner-alone-": {"method": "multitask"},
}
"""Multi-granularity, Tables 2 to 4."""


def tables() -> dict[str, ConfigTable]:
    """The values of each file, by its name without ending."""
    made: dict[str, ConfigTable] = {}
    for name, values in METHODS.items():
        for target in TARGETS:
            table = merged({"method": name, "target": target}, values)
            made[f"{name}-{target.lower()}"] = table
            if name in TRANSFORMER:
                table = merged(merged(table, {"preset": "best"}), PRETRAINED)
                made[f"{name}-transformer-{target.lower()}"] = table
    for target in TARGETS:
        own = merged(merged(TYPES, {"target": target}), PRETRAINED)
        made[f"types-{target.lower()}"] = merged(own, {"train": {"weight_interpolation": 0.5}})
        meta = merged(own, {"method": "hgda-both", **MAKESHIFT})
        began = {"encoder": {"folder": f"runs/types-{target.lower()}/model"}}
        made[f"types-hgda-{target.lower()}"] = merged(meta, began)
    made["start"] = merged(merged(TYPES, {"train": {"weight_interpolation": 0.5}}), PRETRAINED)
    made["bundled"] = merged(merged(TYPES, BUNDLED), PRETRAINED)
    for name in HETEROGENEOUS:
        table = {
            "preset": "metaner",
            "data": {"corpora": list(GENERAL)},
            "train": {"iterations": 1_000, "tasks": 32},  # the paper does not say how long
        }
        made[f"{name}-heterogeneous"] = merged(merged({"method": name}, METHODS[name]), table)
    for name in ("multitask", "metaner"):
        table = {
            "preset": "best",
            "data": {"root": "runs/genes", "layout": "folders"},  # of experiments/genes.py
            "encoder": {"train_words": True, "skip": False},
            "train": {"iterations": 250, "shots": 10},
            "devel": {"every": 0},
        }
        made[f"{name}-genes"] = merged(merged({"method": name}, METHODS[name]), table)
    for name, iterations in (("multitask", 2_000), ("metaner", 800)):
        table = {
            "preset": "best",
            "encoder": {"train_words": True, "skip": False},
            # As many as the GPU takes at once; a fifth and less of HGDA's iterations.
            "train": {"iterations": iterations, "tasks": 32, "rate": 4e-3},
            "devel": {"every": 0},
        }
        made[f"{name}-full"] = merged(merged({"method": name}, METHODS[name]), table)
    for name, values in ABLATIONS.items():
        made[f"metaner-{name}-heterogeneous"] = merged(made["metaner-heterogeneous"], values)
    for name, values in _khan().items():
        made[f"mtbioner-{name}"] = merged({"method": "multitask", "preset": "mtbioner"}, values)
    for corpus in THREE:
        table = {
            "method": "multigranularity",
            "preset": "multigranularity",
            "data": {"corpora": [corpus]},
            # 4, 10 and 9 passes in mini-batches of 32; the paper takes 50, 50 and 100.
            "train": {"iterations": 1_500},
        }
        for name, values in GRANULARITIES.items():
            own = merged(merged(table, values), PRETRAINED)
            made[f"multigranularity-{name}{corpus.lower()}"] = own
    return made


def _khan() -> dict[str, ConfigTable]:
    """MT-BioNER: three and four corpora, both algorithms, several encoders, one that is frozen."""
    # Four of the paper's eight passes.
    three = {"data": {"corpora": THREE}, "train": {"iterations": 3_828}}
    four = {"data": {"corpora": [*THREE, "JNLPBA-5"]}, "train": {"iterations": 6_148}}
    return {
        "three": merged(three, PRETRAINED),
        "four": merged(four, PRETRAINED),
        "four-in-turn": merged(merged(four, {"method": "multitask-in-turn"}), PRETRAINED),
        "four-frozen": merged(merged(four, {"encoder": {"frozen": True}}), PRETRAINED),
        "four-bert": merged(four, {"encoder": {"folder": "bert-base-cased"}}),
        # The paper's rate is for BERT.
        "four-bilstm": merged(four, {"encoder": {"kind": "bilstm"}, "train": {"rate": 1e-3}}),
    }


def text(name: str, table: ConfigTable) -> str:
    """A file: its command, then what it sets."""
    order = (
        "method",
        "preset",
        "target",
        "data",
        "encoder",
        "decoder",
        "inner",
        "train",
        "devel",
        "granularity",
    )
    whole = merged({"preset": "paper"}, table)
    return f"# hardner train experiments/{name}.toml\n" + toml(
        {key: whole[key] for key in order if key in whole}
    )


def main() -> None:
    for name, table in tables().items():
        (HERE / f"{name}.toml").write_text(text(name, table), "utf-8")


if __name__ == "__main__":
    main()
