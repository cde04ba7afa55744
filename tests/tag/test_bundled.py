"""What comes with the package: two folders in 8 bits, one to tag with and one to learn from."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

import hardner
from hardner.model.describe import describe_tagger, files_of, load_model, parameter_shapes
from hardner.tag import predictor as folder

TEXT = "Cisplatin was given to mice with breast cancer and a mutant BRCA1."
LARGEST = 48e6

pytestmark = pytest.mark.skipif(
    not folder.BUNDLED_MODEL.is_dir(), reason="no model comes with this checkout; make model"
)


def test_both_folders_are_small_and_in_8_bits() -> None:
    files = [
        path for part in (folder.BUNDLED_MODEL, folder.BUNDLED_START) for path in part.iterdir()
    ]
    assert sum(path.stat().st_size for path in files) <= LARGEST
    for part in (folder.BUNDLED_MODEL, folder.BUNDLED_START):
        stored = load_file(part / "weights.safetensors")
        small = sum(t.numel() for t in stored.values() if t.dtype == torch.int8)
        assert small > 0.99 * sum(t.numel() for t in stored.values())


def test_it_tags_and_knows_where_adapting_begins() -> None:
    model = hardner.load()
    assert model.start == folder.BUNDLED_START
    assert hardner.load(folder.BUNDLED_MODEL).start is None
    found = {(entity.text, entity.label) for entity in model(TEXT)}
    assert {("Cisplatin", "Chemical"), ("breast cancer", "Disease"), ("mice", "Species")} <= found


def test_the_start_is_another_encoder_of_the_same_kind_and_no_more() -> None:
    (model, own), (start, params) = (
        load_model(f) for f in (folder.BUNDLED_MODEL, folder.BUNDLED_START)
    )
    assert describe_tagger(start)["encoder"] == describe_tagger(model)["encoder"]
    assert files_of(start) == files_of(model)
    assert [tag_set.labels for tag_set in start.tag_sets] == [()]
    assert {n: tuple(p.shape) for n, p in params.items()} == parameter_shapes(start)
    assert not torch.equal(own["encoder.pieces"], params["encoder.pieces"])


def test_who_only_tags_does_not_read_the_start() -> None:
    program = (
        "import sys, hardner\n"
        "opened = []\n"
        "sys.addaudithook(lambda e, a: opened.append(str(a[0])) if e == 'open' else None)\n"
        f"hardner.load()({TEXT!r})\n"
        "folders = [p.rsplit('/', 2)[1] for p in opened if p.endswith('config.json')]\n"
        "print(sorted(set(folders) & {'model', 'start'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['model']\n"
