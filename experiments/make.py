"""Writes every experiment file beside it from one template: python experiments/make.py"""

from pathlib import Path

from hardner.learn.tables import Table, merged, toml

HERE = Path(__file__).parent
TARGETS = ("Disease", "Drug", "Gene", "Species")
PRETRAINED = {"encoder": {"kind": "transformer", "folder": "runs/pretrain/model"}}
ACROSS = {"inner": {"steps": 2}}
"""Methods that learn from some domains and judge on another meet each of the former once."""

METHODS: dict[str, Table] = {
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
THREE = ["BC2GM", "BC5CDR-chem", "NCBI-disease"]
PASSES = {"BC2GM": 19_650, "BC5CDR-chem": 7_150, "NCBI-disease": 17_000}
"""50, 50 and 100 passes in mini-batches of 32."""


def tables() -> dict[str, Table]:
    """The values of each file, by its name without ending."""
    made: dict[str, Table] = {}
    for name, values in METHODS.items():
        for target in TARGETS:
            table = merged({"method": name, "target": target}, values)
            made[f"{name}-{target.lower()}"] = table
            if name in TRANSFORMER:
                table = merged(merged(table, {"preset": "best"}), PRETRAINED)
                made[f"{name}-transformer-{target.lower()}"] = table
    for name in HETEROGENEOUS:
        data = {"data": {"corpora": list(GENERAL)}, "preset": "metaner"}
        made[f"{name}-heterogeneous"] = merged(merged({"method": name}, METHODS[name]), data)
    for name, values in _khan().items():
        table = merged({"method": "multitask", "preset": "mtbioner"}, values)
        made[f"mtbioner-{name}"] = merged(table, PRETRAINED)
    for corpus, iterations in PASSES.items():
        table = {
            "method": "multigranularity",
            "preset": "multigranularity",
            "data": {"corpora": [corpus]},
            "train": {"iterations": iterations},
        }
        name = corpus.lower()
        made[f"multigranularity-{name}"] = merged(table, PRETRAINED)
        apart = merged(table, {"method": "multigranularity-alternating"})
        made[f"multigranularity-alternating-{name}"] = merged(apart, PRETRAINED)
    return made


def _khan() -> dict[str, Table]:
    """MT-BioNER: three and four corpora, both algorithms, and an encoder that does not learn."""
    three = {"data": {"corpora": THREE}, "train": {"iterations": 7_656}}
    four = {"data": {"corpora": [*THREE, "JNLPBA-5"]}}
    return {
        "three": three,
        "four": four,
        "four-in-turn": merged(four, {"method": "multitask-in-turn"}),
        "four-frozen": merged(four, {"encoder": {"frozen": True}}),
    }


def text(name: str, table: Table) -> str:
    """A file: its command, then what it sets."""
    order = ("method", "preset", "target", "data", "encoder", "decoder", "inner", "train")
    whole = merged({"preset": "paper"}, table)
    return f"# hardner train experiments/{name}.toml\n" + toml(
        {key: whole[key] for key in order if key in whole}
    )


def main() -> None:
    for name, table in tables().items():
        (HERE / f"{name}.toml").write_text(text(name, table), "utf-8")


if __name__ == "__main__":
    main()
