"""Every method as a value: which episodes, how tasks adapt, which terms, which weights.

None of them owns a loop, an optimiser or a network.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Annotated, Literal, cast

from hardner.config import Bounds, NonNegative, Section, make
from hardner.errors import FileError, HardnerError
from hardner.files import read_toml
from hardner.meta.hypergradient import MetaGradient
from hardner.meta.inner import PROTOTYPES, InnerLoop, Term, domain_term, sentence_tag_term, tag_term
from hardner.meta.optim import Optimizer
from hardner.meta.outer import Objective
from hardner.model.heads import ExtentHead, Head, Pooling, SentenceHead, domain_head

Draw = Literal["tasks", "split", "shuffled", "in turn"]
Few = Annotated[int, Bounds(1, 10_000)]
"""Of what a machine holds or does at once: the width of a layer, the sentences of a batch."""


@dataclass(frozen=True)
class Method:
    """What the training loop needs to know of a method."""

    name: str
    objective: Objective
    draw: Draw = "tasks"
    """Support and query of one domain; MetaNER's split of the domains; or mini-batches of all
    corpora shuffled, or corpus by corpus."""
    entities: bool = False
    """Whether support sentences must hold a mention."""
    entity_queries: bool = False
    """Whether query sentences must as well."""
    heads: Mapping[str, str] = field(default_factory=dict)
    """The heads it needs by loss: ``linear`` or ``attention`` for the domain, else a pooling."""
    alternate: bool = False
    """Whether iterations take the outer terms in turn instead of together."""

    @property
    def sentence_sets(self) -> int:
        """Supports and queries of a task, each of as many sentences as there are shots."""
        steps = max(self.objective.inner.steps, 1) if self.draw == "split" else 1
        return {"tasks": 2, "split": steps + 1}.get(self.draw, 1)

    @property
    def turns(self) -> list[Objective]:
        """What the iterations descend in turn."""
        if not self.alternate:
            return [self.objective]
        return [replace(self.objective, outer=(term,)) for term in self.objective.outer]


@dataclass(frozen=True)
class InnerSection(Section):
    """``[inner]``: how tasks adapt in the inner loop."""

    steps: Few = 1
    rate: NonNegative = 1e-2
    """Inner learning rate: beta."""
    optimizer: Literal["sgd", "adamw"] = "sgd"
    decoder: NonNegative = 1.0
    """Factor on the learning rate of decoders."""
    fresh: bool = False
    """Whether each task starts with a zero decoder, as a new entity type does."""
    meta_gradient: MetaGradient = "first"
    proximal: NonNegative = 0.0
    """Weight of the squared distance to the start, which implicit meta-gradients need."""
    weight: NonNegative = 1.0
    """Of the domain loss: lambda."""


@dataclass(frozen=True)
class MethodSettings(InnerSection):
    """What the methods leave open: an experiment's values."""

    pooling: Pooling = "max"
    shares: Mapping[str, float] = field(
        default_factory=lambda: {"tag": 1.0, "mtcls": 1.0, "bcls": 1.0, "mcls": 1.0}
    )
    """Of the losses of the multi-granularity model: alpha, beta, gamma, delta; 0 removes a task."""
    temperature: float = 1.0
    """Of HGDA's weights."""
    by_sentence: bool = False
    """Whether HGDA's tagging loss is of a sentence where it would be of a word."""
    frozen: bool = False
    """Whether multi-task training leaves the encoder as it is."""


def scaled(base: float, shots: int) -> float:
    """HGDA Eq. 3: the learning rate for a batch of K sentences, from that for 32."""
    return float(base * (shots / 32) ** 0.5)


def hgda(s: MethodSettings) -> Method:
    """HGDA, Alg. 1 and 2: bilevel, a domain classifier as regulariser, tasks by hardness."""
    # Eq. 1: L = L_lab + lambda L_cls for the encoder; the heads follow their own loss.
    terms = (sentence_tag_term() if s.by_sentence else tag_term(), domain_term(s.weight))
    parts = frozenset({"encoder", "decoder", "critic"})
    inner = InnerLoop(s.steps, rate=s.rate, terms=terms, parts=parts, proximal=s.proximal)
    objective = Objective(terms, inner, "hardness", s.meta_gradient, temperature=s.temperature)
    return Method("hgda", objective, heads={"domain": "linear"})


def hgda_nes(s: MethodSettings) -> Method:
    """HGDA-NEs: support sentences hold a mention; all tasks weigh the same."""
    base = hgda(s)
    objective = replace(base.objective, weighting="uniform")
    return replace(base, name="hgda-nes", objective=objective, entities=True)


def hgda_nes_queries(s: MethodSettings) -> Method:
    """HGDA-NEs as its section 3.2 may also be read: query sentences hold a mention too."""
    return replace(hgda_nes(s), name="hgda-nes-queries", entity_queries=True)


def hgda_both(s: MethodSettings) -> Method:
    """Hardness weights and mention-bearing support together."""
    return replace(hgda(s), name="hgda-both", entities=True)


def metaner(s: MethodSettings) -> Method:
    """MetaNER, Alg. 1: inner tasks from D_tr, outer from D_val, an adversarial discriminator."""
    # Eq. 17: theta_old descends L_tr; Eq. 18: theta_new descends lambda L_dis as well, which the
    # paper reverses: it ascends.
    terms = (tag_term(encoder=1.0), Term("domain", {"encoder": -s.weight}))
    parts, old = frozenset({"encoder"}), frozenset({"domain"})
    inner = InnerLoop(s.steps, rate=s.rate, terms=terms, parts=parts, proximal=s.proximal, old=old)
    outer = (
        # Eq. 20: theta_0 descends L_tr - lambda L_dis of the inner tasks.
        Term("tag", {"encoder": 1.0}, on="support", at="start"),
        Term("domain", {"encoder": -s.weight}, on="support", at="start"),
        # Eqs. 19, 21, 22: phi_0 and gamma_0 descend L_tr(theta_old) + L_dis(theta_new) of D_val.
        Term("tag", {"decoder": 1.0}, at="old"),
        Term("domain", {"critic": 1.0}, at="new"),
    )
    objective = Objective(outer, inner, meta_gradient=s.meta_gradient)
    return Method("metaner", objective, draw="split", heads={"domain": "attention"})


def metaner_without_critic(s: MethodSettings) -> Method:
    """MetaNER without its discriminator: MAML across the split of the domains."""
    terms, parts = (tag_term(encoder=1.0),), frozenset({"encoder"})
    inner = InnerLoop(s.steps, rate=s.rate, terms=terms, parts=parts, proximal=s.proximal)
    objective = Objective((tag_term(),), inner, "uniform", s.meta_gradient)
    return Method("metaner-without-critic", objective, draw="split")


def metaner_new_only(s: MethodSettings) -> Method:
    """MetaNER's ablation: everything outside is measured at theta_new."""
    base = metaner(s)
    outer = tuple(replace(t, at="new") if t.on == "query" else t for t in base.objective.outer)
    inner = replace(base.objective.inner, old=frozenset())
    objective = replace(base.objective, outer=outer, inner=inner)
    return replace(base, name="metaner-new-only", objective=objective)


def metaner_maml(s: MethodSettings) -> Method:
    """MetaNER's ablation: the encoder, too, descends the query losses after adaptation."""
    base = metaner_new_only(s)
    objective = replace(base.objective, outer=(tag_term(), domain_term(-s.weight)))
    return replace(base, name="metaner-maml", objective=objective)


def maml(s: MethodSettings) -> Method:
    """MAML on HGDA's tasks."""
    inner = InnerLoop(s.steps, rate=s.rate, terms=(tag_term(),), proximal=s.proximal)
    return Method("maml", Objective((tag_term(),), inner, "uniform", s.meta_gradient))


def multitask(s: MethodSettings) -> Method:
    """MT-BioNER, algorithm I: the mini-batches of all corpora, shuffled; a decoder a corpus."""
    terms = (tag_term(decoder=1.0),) if s.frozen else (tag_term(),)
    return Method("multitask", Objective(terms), draw="shuffled")


def multitask_in_turn(s: MethodSettings) -> Method:
    """MT-BioNER, algorithm II: corpus by corpus."""
    return replace(multitask(s), name="multitask-in-turn", draw="in turn")


def multigranularity(s: MethodSettings) -> Method:
    """alpha NER + beta mtCLS + gamma bCLS + delta mCLS, their labels derived from the mentions."""
    terms = tuple(
        Term(loss, {"encoder": share, "decoder" if loss == "tag" else loss: share})
        for loss, share in s.shares.items()
        if share
    )
    heads = {t.loss: s.pooling for t in terms if t.loss != "tag"}
    return Method("multigranularity", Objective(terms), draw="shuffled", heads=heads)


def multigranularity_alternating(s: MethodSettings) -> Method:
    """The multi-granularity tasks in turn, as MT-DNN trains, instead of their joint loss."""
    return replace(multigranularity(s), name="multigranularity-alternating", alternate=True)


def dann(s: MethodSettings) -> Method:
    """DANN: mini-batches; the encoder ascends what the domain discriminator descends."""
    objective = Objective((tag_term(), domain_term(-s.weight)))
    return Method("dann", objective, draw="shuffled", heads={"domain": "attention"})


def wpz(s: MethodSettings) -> Method:
    """WPZ: each query word takes the tag whose mean support vector is nearest."""
    objective = Objective((tag_term(encoder=1.0),), PROTOTYPES, "uniform", "exact")
    return Method("wpz", objective, entities=True)


METHODS: dict[str, Callable[[MethodSettings], Method]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(hgda, hgda_nes, hgda_nes_queries, hgda_both),
        *(metaner, metaner_without_critic, metaner_new_only, metaner_maml, maml),
        *(multitask, multitask_in_turn, multigranularity, multigranularity_alternating),
        *(dann, wpz),
    )
}
"""By the name that an experiment's key ``method`` gives; a plugin adds its own."""


def load_plugins(paths: Sequence[Path] | None) -> None:
    """Run Python files of the user's own, which may add to `METHODS`."""
    for path in paths or ():
        spec = spec_from_file_location(f"hardner_plugin_{path.stem}", path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise FileError(path, "is no Python file")
        try:
            spec.loader.exec_module(module_from_spec(spec))
        except Exception as error:  # whatever a file of anyone's raises
            raise FileError(path, f"cannot be run: {type(error).__name__}: {error}") from error


def method(name: str, settings: MethodSettings | None = None) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise HardnerError(f"no method {name!r}; there are {', '.join(METHODS)}")
    settings = settings or MethodSettings()
    made = METHODS[name](settings)
    inner = replace(
        made.objective.inner,
        optimizer=Optimizer(settings.optimizer),
        scales={"decoder": settings.decoder} if settings.decoder != 1 else {},
        fresh=settings.fresh and made.objective.inner.steps > 0,
    )
    return replace(made, objective=replace(made.objective, inner=inner))


def heads_for(method: Method, size: int, domains: int) -> dict[str, Head]:
    """The heads that a method needs, by the name of their loss."""
    makers: dict[str, Callable[[str], Head]] = {
        "domain": lambda kind: domain_head(kind, size, domains),
        "bcls": lambda kind: SentenceHead("bcls", size, 2, cast(Pooling, kind)),
        "mcls": lambda kind: SentenceHead("mcls", size, 4, cast(Pooling, kind)),
        "mtcls": lambda _: ExtentHead(size),
    }
    return {loss: makers[loss](kind) for loss, kind in method.heads.items()}


@dataclass(frozen=True)
class BaselinePlan:
    """What a baseline trains on and adapts to: most baselines are plans, not methods."""

    method: str
    train: Literal["sources", "target", "sources and target", "nothing"]
    adapt: bool
    """Whether it is then adapted to the target's sentences."""
    merged: bool = False
    """Whether all corpora are treated as one domain with one decoder."""


BASELINES: dict[str, BaselinePlan] = {
    name: make(BaselinePlan, row, name)
    for name, row in read_toml(Path(__file__).with_name("baselines.toml")).items()
}
"""By the names that the papers' tables give them."""
