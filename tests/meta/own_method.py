"""First-order MAML that learns from sentences with a mention, and tells domains apart beside."""

from hardner.meta.inner import InnerLoop, domain_term, tag_term
from hardner.meta.methods import METHODS, Method, MethodSettings
from hardner.meta.outer import Objective


def fomaml_domains(s: MethodSettings) -> Method:
    terms = (tag_term(), domain_term(s.weight))
    inner = InnerLoop(s.steps, rate=s.rate, terms=(tag_term(),))
    objective = Objective(terms, inner, "uniform", "first")
    return Method("fomaml-domains", objective, entities=True, heads={"domain": "linear"})


METHODS["fomaml-domains"] = fomaml_domains
