"""python experiments/study/sizes.py > results/sizes.json: bytes of the weights of encoders."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("experiments/encoder",)

if __name__ == "__main__":
    sizes = {
        name: sum(file.stat().st_size for file in (ROOT / name).glob("*.safetensors"))
        for name in FOLDERS
    }
    print(json.dumps(sizes))
