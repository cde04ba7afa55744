"""Learning the types of a project, each by itself, so that none takes the others down."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from hardner.adapt.forecast import USEFUL
from hardner.adapt.workflow import adapt_predictor
from hardner.errors import HardnerError
from hardner.model.encoders import EncoderWithCopies
from hardner.model.layers import part_of
from hardner.model.tagger import Model
from hardner.serve.runs import AdaptationOrder
from hardner.tag.added_heads import add_head
from hardner.tag.predictor import Predictor
from hardner.types import Sentence

OnProgress = Callable[[str, int, int], None]  # (stage, done, total)
_FIGURES = ("f1", "low", "high", "gain")


def learn_types(
    base: Predictor, order: AdaptationOrder, on_progress: OnProgress
) -> tuple[Predictor, list[dict[str, Any]]]:
    """A model for all types, and what came of each.

    A type keeps the model's own head for it where that does better, or where learning failed.
    """
    labels = sorted({span.label for sentence in order.labelled for span in sentence.spans})
    on_progress("adapting", 0, 1)
    adapted: list[Predictor] = []
    kept: list[str] = []
    results = []
    for place, label in enumerate(labels):

        def on_type_progress(done: int, total: int, place: int = place) -> None:
            on_progress("adapting", place * total + done, len(labels) * total)

        model, result = _learn_type(base, order, label, on_type_progress)
        results.append(result)
        if model is not None:
            adapted.append(model)
        elif result["kept"]:
            kept.append(label)
    if not adapted and (order.keep or not kept):
        raise HardnerError(" ".join(note for result in results for note in result["notes"]))
    return _together(base, adapted, kept, order.keep), results


def _learn_type(
    base: Predictor, order: AdaptationOrder, label: str, on_progress: Callable[[int, int], None]
) -> tuple[Predictor | None, dict[str, Any]]:
    """The model of one type, if it is to be used; F1 is None where nothing could be held out."""
    given = [only_labels(sentence, {label}) for sentence in order.labelled]
    is_known = label in base.labels
    result = {
        "label": label,
        "sentences": len(given),
        "mentions": sum(len(sentence.spans) for sentence in given),
        "kept": is_known,
        "learnt": False,
        "notes": [f"{label}: the model knows it, and was to keep what it knew."],
        "more": 0,
        **dict.fromkeys(_FIGURES),
    }
    if is_known and order.keep:
        return None, result
    try:
        # Forced: which one is better is decided below, where nothing is lost by the answer.
        model, report = adapt_predictor(base, given, label, force=True, on_progress=on_progress)
    except HardnerError as error:
        why = str(error).replace("try another --seed", "label a few more sentences")
        stays = "; the model's own stays" if is_known else ""
        return None, result | {"notes": [f"{label} could not be learnt: {why}{stays}."]}
    result |= {name: getattr(report, name) for name in ("sentences", "mentions", "notes")}
    if (expected := report.expected) is None:
        return model, result | {"kept": False, "learnt": True}
    f1 = expected.f1
    known, own = report.known or ("", 0.0)
    if known == label and own > max(f1.value, USEFUL) and not order.force:
        note = (
            f"{label}: the model's own does better as it is, F1 {own:.2f} where {f1.value:.2f} "
            "is expected of an adapted one, and is kept. Options can have it adapted all the same."
        )
        return None, result | {"f1": own, "notes": [note]}
    figures = (f1.value, f1.low, f1.high, expected.gain.value)
    learnt = {"kept": False, "learnt": True, "more": expected.more}
    return model, result | learnt | dict(zip(_FIGURES, figures, strict=True))


def _together(
    base: Predictor, adapted: Sequence[Predictor], kept: Sequence[str], keep: bool
) -> Predictor:
    """One model of the base's heads, all or those that are kept, and the adapted ones."""
    if keep:
        model = base
    elif kept:
        model = with_heads(base, kept)
    else:
        model, *adapted = adapted
    for one in adapted:
        made = add_head(Model(model.tagger, model.params), Model(one.tagger, one.params))
        temperatures = (*model.temperatures, *one.temperatures)
        model = Predictor(*made, temperatures, model.device, model.start)
    return model


def with_heads(model: Predictor, labels: Collection[str]) -> Predictor:
    """The model with only the heads that know a label."""
    tagger = model.tagger
    if isinstance(tagger.encoder, EncoderWithCopies):
        return model  # each copy of the encoder belongs to a head: all of them stay
    heads = [i for i, tags in enumerate(tagger.tag_sets) if not set(labels).isdisjoint(tags.labels)]
    alone = tagger.with_domains([tagger.tag_sets[head] for head in heads])
    params = {}
    for name, value in model.params.items():
        if part_of(name) == "decoder":
            value = value[:, heads, : alone.tags]  # [1, D, C, ...]
            if name == "decoder.transitions":
                value = value[..., : alone.tags]
        if part_of(name) in ("encoder", "frozen", "decoder"):
            params[name] = value.contiguous()
    temperatures = tuple(model.temperatures[head] for head in heads)
    return Predictor(alone, params, temperatures, model.device, model.start)


def only_labels(sentence: Sentence, labels: Collection[str]) -> Sentence:
    spans, rejected = (
        tuple(span for span in marks if span.label in labels)
        for marks in (sentence.spans, sentence.rejected)
    )
    return replace(sentence, spans=spans, rejected=rejected)


def overall(results: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """What to expect of the types that were learnt or looked at, weighted by their mentions."""
    found = [one for one in results if one["learnt"] or one["f1"] is not None]
    total = sum(one["mentions"] for one in found)
    return {
        name: None
        if not found or any(one[name] is None for one in found)
        else sum(one["mentions"] * one[name] for one in found) / total
        for name in _FIGURES
    }
