"""Tagging speed and memory: hardner's forms against spaCy and BERT-base, text in, entities out.

    python benchmarks/tagging.py ../shared/corpora --model DIR [--fast DIR] [--sentences 2000]

Every tagger lives in a process of its own with two cores and tags the same sentences, given as
plain text; tokenising and decoding are included. Only one works at a time, and they take turns, so
that whatever else the machine does meets all of them. Words are the corpora's tokens; the best of
the rounds counts. Memory is the peak of that process.

Peers: spaCy's NER as `spacy.blank` makes it (HashEmbedCNN), with one process and with two; a
transformers pipeline with a network of BERT-base's size, as its users run it; the same network in
onnxruntime with 8-bit weights, in batches of like length. They have random weights, which cost the
same; their tokenizer is the model's own. Ours have F1 beside them, on mentions of the labels that
model and corpus share. Appends to benchmarks/results.jsonl.
"""

import argparse
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from record import record

from hardner import corpora
from hardner.evaluate.score import Score, score
from hardner.formats import Report
from hardner.types import Sentence

CORPORA = (
    *("NCBI-disease", "BC5CDR-disease", "BC5CDR-chem", "BC4CHEMD"),
    *("JNLPBA", "BC2GM", "LINNAEUS", "S800"),
)
CORES = 2
DEVICE = f"cpu, {CORES} cores"
BERT, SPACY = "BERT-base pipeline", "spaCy, 2 processes"

Tag = Callable[[Sequence[str]], int]
"""Tags texts and says how many mentions it found."""


class Case(NamedTuple):
    make: Callable[[str], Tag]
    given: str
    """The folder, or the number of processes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, help="the folder of the corpora")
    parser.add_argument("--model", type=Path, required=True, help="a model that reads pieces")
    parser.add_argument("--fast", type=Path, help="its distilled form; by default a random one")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="names of taggers, or parts of names")
    given = parser.parse_args()
    tests = test_sentences(given.root, given.sentences)
    texts = [" ".join(s.tokens) for own in tests.values() for s in own]
    words = sum(len(s) for own in tests.values() for s in own)
    with tempfile.TemporaryDirectory() as folder:
        forms = our_forms(given.model, given.fast, Path(folder), tests)
        cases = {name: Case(ours, str(path)) for name, path in forms.items()}
        cases |= {
            "spaCy": Case(spacy_ner, "1"),
            SPACY: Case(spacy_ner, "2"),
            BERT: Case(bert, str(given.model)),
            "BERT-base onnxruntime int8": Case(bert_int8, str(folder)),
        }
        write_bert_int8(Path(folder))
        shutil.copy(given.model / "tokenizer.json", folder)
        if given.only:
            cases = {n: c for n, c in cases.items() if any(part in n for part in given.only)}
        seconds, memory = measure(cases, texts, given.rounds)
        shown = {name: f1(path, tests) for name, path in forms.items() if name in cases}
    speed = {name: words / taken for name, taken in seconds.items()}
    for name in cases:
        peers = [p for p in (BERT, SPACY) if p in speed and p != name]
        for peer in peers or [""]:
            record("tagging", name, DEVICE, speed[name], speed.get(peer), peer, "words/s")
        record("tagging", f"{name}, memory", DEVICE, memory[name], memory.get(BERT), BERT, "MB")
        if name in shown:
            record("tagging", f"{name}, F1", DEVICE, shown[name], None, "", "of 1")


def test_sentences(root: Path, most: int) -> dict[str, list[Sentence]]:
    """The first test sentences of each corpus, as many of each."""
    share = -(-most // len(CORPORA))
    return {name: list(corpora.load_corpus(name, root, Report()).test[:share]) for name in CORPORA}


def our_forms(
    model: Path, fast: Path | None, folder: Path, tests: dict[str, list[Sentence]]
) -> dict[str, Path]:
    """The model, and the forms that are made of it."""
    import hardner
    from hardner.adapt.students import Student
    from hardner.export.onnx import to_onnx
    from hardner.tag.predictor import Predictor

    predictor = hardner.load(model)
    to_onnx(predictor).save(folder / "onnx")
    to_onnx(predictor, quantised=True).save(folder / "int8")
    if fast is None:
        fast = folder / "fast"
        shown = [s for own in tests.values() for s in own]
        tagger = Student().tagger(shown, predictor.tagger.tag_sets)
        params = tagger.init(0)
        params["decoder.bias"][..., 0] += 1  # as few mentions as in text
        Predictor(tagger, params).save(fast)
    return {
        "hardner": model,
        "hardner ONNX": folder / "onnx",
        "hardner ONNX int8": folder / "int8",
        "hardner fast": fast,
    }


def measure(
    cases: dict[str, Case], texts: Sequence[str], rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """The seconds and megabytes of each, all of them taking turns."""
    context = multiprocessing.get_context("spawn")
    seconds: dict[str, float] = {}
    lines: dict[str, Connection] = {}
    workers = []
    for name, case in cases.items():
        lines[name], other = context.Pipe()
        worker = context.Process(target=work, args=(case, other))
        worker.start()
        workers.append(worker)
        lines[name].send(texts[:50])
        lines[name].recv()
    for _ in range(rounds):
        for name, line in lines.items():
            line.send(texts)
            taken, found = line.recv()
            seconds[name] = min(seconds.get(name, taken), taken)
            print(f"{name}: {taken:.1f} s, {found:,} mentions", flush=True)
    memory = {}
    for name, line in lines.items():
        line.send(None)
        memory[name] = line.recv()
    for worker in workers:
        worker.join()
    return seconds, memory


def work(case: Case, line: Connection) -> None:
    """A tagger in a process of its own."""
    import torch

    torch.set_num_threads(CORES)
    multiprocessing.set_start_method("fork", force=True)  # the quicker way to spaCy's processes
    tag = case.make(case.given)
    while (texts := line.recv()) is not None:
        start = time.perf_counter()
        found = tag(texts)
        line.send((time.perf_counter() - start, found))
    status = Path("/proc/self/status").read_text("utf-8")
    line.send(int(status.split("VmHWM:")[1].split()[0]) / 1024)


def ours(folder: str) -> Tag:
    import hardner

    tagger = hardner.load(folder)
    return lambda texts: sum(len(found) for found in tagger.pipe(texts))


def spacy_ner(processes: str) -> Tag:
    import spacy

    nlp = spacy.blank("en")
    ner = nlp.add_pipe("ner")
    for label in ("Disease", "Drug", "Gene", "Species"):
        ner.add_label(label)
    nlp.initialize()
    return lambda texts: sum(len(d.ents) for d in nlp.pipe(texts, n_process=int(processes)))


def bert_tokenizer(folder: str) -> Any:
    """The model's tokenizer as transformers wants it."""
    from tokenizers import Tokenizer, processors
    from transformers import PreTrainedTokenizerFast

    pieces = Tokenizer.from_file(str(Path(folder, "tokenizer.json")))
    ends = [(name, pieces.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    pieces.post_processor = processors.BertProcessing(*ends)
    names = {name: f"[{name[:3].upper()}]" for name in ("pad_token", "unk_token")}
    names |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=pieces, model_max_length=512, **names)


def bert_base() -> Any:
    """A random network of BERT-base's size."""
    import torch
    from transformers import BertConfig, BertForTokenClassification

    tags = dict(enumerate(("O", "B-Disease", "I-Disease")))
    torch.manual_seed(0)
    model = BertForTokenClassification(BertConfig(vocab_size=28_000, id2label=tags)).eval()
    model.classifier.bias.data[0] += 1  # as few mentions as in text
    return model


def bert(folder: str) -> Tag:
    from transformers import pipeline

    tag = pipeline(
        "token-classification",
        bert_base(),
        tokenizer=bert_tokenizer(folder),
        device="cpu",
        aggregation_strategy="simple",
    )
    return lambda texts: sum(len(found) for found in tag(list(texts)))


def bert_int8(folder: str) -> Tag:
    """As one writes it by hand: batches of like length, the best tag of each piece."""
    import numpy as np
    import onnxruntime

    tokenizer = bert_tokenizer(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = CORES
    session = onnxruntime.InferenceSession(str(Path(folder, "bert.onnx")), options)

    def tag(texts: Sequence[str]) -> int:
        encoded = tokenizer(list(texts))["input_ids"]
        order = sorted(range(len(texts)), key=lambda row: len(encoded[row]))
        mentions = 0
        for start in range(0, len(order), 16):
            batch = tokenizer.pad(
                {"input_ids": [encoded[row] for row in order[start : start + 16]]},
                return_tensors="np",
            )
            (scores,) = session.run(None, {n: batch[n] for n in ("input_ids", "attention_mask")})
            mentions += int((scores.argmax(-1)[np.asarray(batch["attention_mask"]) > 0] == 1).sum())
        return mentions

    return tag


def write_bert_int8(folder: Path) -> None:
    """What `bert_int8` reads, by the usual tools."""
    import warnings

    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    plain = folder / "plain.onnx"
    example = torch.ones(2, 8, dtype=torch.long)
    free = {0: "rows", 1: "pieces"}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            bert_base(),
            (example, example),
            plain,
            dynamo=False,
            input_names=["input_ids", "attention_mask"],
            output_names=["logits"],
            dynamic_axes={"input_ids": free, "attention_mask": free, "logits": free},
        )
    small = folder / "bert.onnx"
    quantize_dynamic(plain, small, per_channel=True, weight_type=QuantType.QInt8)
    plain.unlink()


def f1(folder: Path, tests: dict[str, list[Sentence]]) -> float:
    """Of all corpora together, each on the labels that it shares with the model."""
    import hardner

    model = hardner.load(folder)
    total = Score()
    for own in tests.values():
        gold = [[s._replace(label=renamed(s.label, model.labels)) for s in t.spans] for t in own]
        labels = {span.label for spans in gold for span in spans} & set(model.labels)
        if labels:
            right = [[span for span in spans if span.label in labels] for spans in gold]
            found = model.spans(own, labels=labels)
            total += score(right, [[span for span, _ in row] for row in found])
    return total.f1


def renamed(label: str, known: Sequence[str]) -> str:
    """A corpus's label as the model calls it: the catalogue's drugs are any chemicals."""
    return "Chemical" if label == "Drug" and label not in known else label


if __name__ == "__main__":
    main()
