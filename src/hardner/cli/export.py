"""``hardner export``: a model for other tools."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from hardner.cli.common import say
from hardner.cli.options import MODEL_OPTION
from hardner.errors import HardnerError

if TYPE_CHECKING:
    from hardner.tag.predictor import Predictor
    from hardner.types import Sentence


def export_command(
    context: typer.Context,
    onnx: Annotated[Path | None, Option(help="Folder for an ONNX model.")] = None,
    huggingface: Annotated[
        Path | None, Option(help="Folder for a Hugging Face token classifier.")
    ] = None,
    model: MODEL_OPTION = None,
    int8: Annotated[
        bool | None,
        Option(
            "--int8/--float32",
            help="ONNX with 8-bit weights, faster and a quarter of the size, or in single "
            "precision; default: 8 bits where F1 stays.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        Path | None, Option(help="Labelled file to compare F1 on; default: an example text.")
    ] = None,
) -> None:
    """Write a model for ONNX Runtime or Hugging Face.

    The ONNX folder is a model folder like any other, run by onnxruntime; encoder.onnx in it holds
    the encoder and all heads. It has 8-bit weights where F1 drops by no more than .01 against the
    model, and is in single precision elsewhere; --int8 writes nothing then.

    Examples:

    - `hardner export --onnx ./fast-model`
    - `hardner export --onnx ./mine-int8 --int8 --model ./mine --check devel.tsv`
    - `hardner export --huggingface ./for-transformers --model ./my-bert`
    """
    if (onnx is None) == (huggingface is None):
        context.fail("Say one of --onnx OUT and --huggingface OUT.")
    if huggingface is not None and (int8 is not None or check is not None):
        context.fail("--int8, --float32 and --check are for --onnx.")

    from hardner.tag.guidelines import load

    predictor = load(model)
    if huggingface is not None:
        from hardner.export.huggingface import write_huggingface

        write_huggingface(predictor, huggingface)
        say(f"{huggingface}: for AutoModelForTokenClassification")
    elif onnx is not None:
        _onnx(predictor, onnx, int8, None if check is None else _labelled(check))


def _onnx(
    predictor: "Predictor", out: Path, int8: bool | None, labelled: "Sequence[Sentence] | None"
) -> None:
    from hardner.export.check import check_export, refuse_export
    from hardner.export.onnx import to_onnx

    quantised = int8 is not False
    made = to_onnx(predictor, quantised=quantised)
    checked = check_export(predictor, made, labelled)
    if int8 is None and not checked.is_the_same:
        drop = f"F1 {checked.before:.3f} -> {checked.after:.3f}"
        say(f"8 bits would cost too much ({drop}): in single precision instead")
        quantised = False
        made = to_onnx(predictor)
        checked = check_export(predictor, made, labelled)
    refuse_export(checked, quantised)
    made.save(out)
    size = sum(path.stat().st_size for path in out.iterdir()) / 1e6
    kind = "8-bit weights" if quantised else f"scores differ by {checked.difference:.1g} at most"
    against = "the model's own mentions" if labelled is None else "the labelled ones"
    speed = "{:,.0f} -> {:,.0f} words/s".format(*checked.speed)
    say(
        f"{out}: {size:.0f} MB, {kind}; F1 {checked.before:.3f} -> {checked.after:.3f} against "
        f"{against}; {speed}; next: hardner tag FILE --model {out}"
    )


def _labelled(path: Path) -> "list[Sentence]":
    from hardner.formats import Report, read
    from hardner.text import sentences

    found = [s for d in read(path, report=Report()) for s in sentences(d, lambda problem: None)]
    if not any(sentence.spans for sentence in found):
        raise HardnerError(f"{path}: holds no mentions to check with")
    return found
