"""The heads that a method needs, for an encoder and some domains."""

from typing import cast

from hardner.meta.methods import Method
from hardner.model.heads import Discriminator, ExtentHead, Head, Pooling, SentenceHead


def heads_for(method: Method, size: int, domains: int) -> dict[str, Head]:
    """By the name of their loss."""
    made: dict[str, Head] = {}
    for loss, kind in method.heads.items():
        if loss == "domain" and kind == "attention":
            made[loss] = Discriminator(size, domains)
        elif loss == "domain":
            made[loss] = SentenceHead("domain", size, domains, "mean")
        elif loss == "mtcls":
            made[loss] = ExtentHead(size)
        elif loss == "bcls":
            made[loss] = SentenceHead("bcls", size, 2, cast(Pooling, kind))
        else:
            made[loss] = SentenceHead("mcls", size, 4, cast(Pooling, kind))
    return made
