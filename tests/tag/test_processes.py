"""A tagger in other processes: forked, spawned, handed over; with a bound on the time."""

import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import small_models as models
import tiny

SCRIPT = """
import multiprocessing, sys, warnings
import torch
import hardner

warnings.simplefilter("ignore")  # Python 3.12 warns of any fork beside threads

def keep(given):
    global tagger
    tagger = given

def work(text):
    return list(tagger(text))

if __name__ == "__main__":
    torch.set_num_threads(2)
    torch.ones(600, 600) @ torch.ones(600, 600)  # OpenMP has threads now
    own = hardner.load(sys.argv[1])
    texts = ["Aspirin may worsen asthma in mice. BRCA1 is a gene."] * 6
    expected = [own(text) for text in texts]
    with multiprocessing.get_context(sys.argv[2]).Pool(2, keep, (own,)) as pool:
        found = pool.map_async(work, texts).get(timeout=200)
    assert found == [list(e) for e in expected] and found[0]
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes_tags_as_one_does(tmp_path: Path, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    script = tmp_path / "pool.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(models.folder("transformer")), method]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_tagger_can_be_pickled(kind: str) -> None:
    predictor = models.predictor(kind).with_thresholds({"Gene": 0.3})
    again = pickle.loads(pickle.dumps(predictor))
    text = "Aspirin may worsen asthma in mice. BRCA1 is a gene."
    assert again.thresholds == predictor.thresholds
    assert again(text) == predictor(text)
    assert again(text, min_score=0.0) != []
