"""Does memory grow with the text? Resident memory over a stream of a million sentences.

    python benchmarks/memory.py [--sentences N] [--model DIR] [--kind words|pieces]
    python benchmarks/memory.py --model src/hardner/assets/model --text FILE.txt.xz --sentences N

Sentences are made up, so that no two are alike and new words keep coming; a text holds five. Memory
is read at every tenth of the stream. Caches of bounded size (the words last seen, and the kernels
that torch keeps for shapes last seen, some 100 MB) fill up in the first half. Without a model the
network is a small random one: what is measured is whether anything is kept, not the network.

With --text, the first N lines of a file are the texts; the most memory that there was is recorded
at a tenth, half and all of them, and the words that a second of a core takes.
"""

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch
from record import record
from tokenizers import Tokenizer, models, pre_tokenizers

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from hardner.features import Pieces
from hardner.files import open_binary
from hardner.model.characters import Characters
from hardner.model.encoders import Encoder, WordEncoder
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder, Transformer
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor

SYLLABLES = (
    "ba",
    "co",
    "di",
    "fe",
    "ga",
    "hu",
    "in",
    "ka",
    "lo",
    "mi",
    "na",
    "or",
    "pa",
    "qui",
    "ra",
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
SENTENCES_A_TEXT = 5
ALLOWED = 1.03
"""Growth between the half and the end that counts as none."""


def texts(sentences: int) -> Iterator[str]:
    rng = random.Random(0)
    for start in range(0, sentences, SENTENCES_A_TEXT):
        some = range(start, min(start + SENTENCES_A_TEXT, sentences))
        yield " ".join(sentence(rng) for _ in some)


def sentence(rng: random.Random) -> str:
    lengths = [rng.randint(1, 4) for _ in range(rng.randint(3, 30))]
    words = ["".join(rng.choices(SYLLABLES, k=length)) for length in lengths]
    return f"{words[0].capitalize()} {' '.join(words[1:])} {rng.randint(0, 10**6)}."


def small(kind: str) -> Predictor:
    """A random network over one or the other kind of encoder."""
    encoder: Encoder
    if kind == "words":
        encoder = WordEncoder(("the",), 16, characters=Characters(8, 8, (2, 3)), hidden=16)
    else:
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        listed = (*SPECIAL, *letters, *(f"##{c}" for c in letters), *(f"##{s}" for s in SYLLABLES))
        table = {piece: index for index, piece in enumerate(listed)}
        tokenizer = Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        encoder = PieceEncoder(Transformer(len(listed), 32, 2, 2, 64), Pieces.by(tokenizer))
    tagger = Tagger(encoder, (TagSet("Drug", ("Drug",)), TagSet("Gene", ("Gene",))))
    params = tagger.init(0)
    params["decoder.weight"] *= 30  # so that it finds something here and there
    params["decoder.bias"][..., 0] += 3
    return Predictor(tagger, params)


def resident() -> float:
    """MB now; where the system does not say, the most there was."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def over_lines(predictor: Predictor, name: str, device: str, file: Path, count: int) -> None:
    """Tag the first lines of a file, and record the peaks and the speed."""
    with open_binary(file) as opened:
        lines = [line.decode().strip() for line in islice(opened, count)]
    started = time.process_time()
    for number, _ in enumerate(predictor.pipe(lines), 1):
        if number in (len(lines) // 10, len(lines) // 2, len(lines)):
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            record("memory", f"{name}, {number:,} lines, peak", device, peak, None, "", "MB")
    speed = sum(len(line.split()) for line in lines) / (time.process_time() - started)
    case = f"{name}, {len(lines):,} lines, speed of a core"
    record("memory", case, device, speed, None, "", "words/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--model")
    parser.add_argument("--kind", choices=("words", "pieces"), default="words")
    parser.add_argument("--text", type=Path)
    args = parser.parse_args()
    predictor = Predictor.load(args.model) if args.model else small(args.kind)
    name = args.model or f"a small network over {args.kind}"
    device = f"CPU, {torch.get_num_threads()} cores"
    if args.text:
        over_lines(predictor, name, device, args.text, args.sentences)
        return
    every = max(1, args.sentences // SENTENCES_A_TEXT // 10)
    found, seen, started = 0, [], time.perf_counter()
    for number, entities in enumerate(predictor.pipe(texts(args.sentences)), 1):
        found += len(entities)
        if number % every == 0:
            seen.append(resident())
            print(f"  {number * SENTENCES_A_TEXT:,} sentences: {seen[-1]:.0f} MB", file=sys.stderr)
    seconds = time.perf_counter() - started
    case = f"{name}, {args.sentences:,} sentences, end against half"
    line = record("memory", case, device, seen[-1], seen[4], "half", "MB")
    print(json.dumps({"entities": found, "seconds": round(seconds), "MB": list(map(round, seen))}))
    if line["ours"] > ALLOWED * seen[4]:
        sys.exit(f"memory grew by {100 * (seen[-1] / seen[4] - 1):.1f} %")


if __name__ == "__main__":
    main()
