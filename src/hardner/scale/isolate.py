"""Documents tagged in blocks; one that fails is put aside, and the others of its block are not."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from hardner.errors import HardnerError
from hardner.scale.attempts import Attempt
from hardner.scale.reading import Aside, Bad
from hardner.types import Document

_BLOCK = 1024
"""Documents that are tagged together; where one of them fails, they are tagged one by one."""
SYSTEMATIC = 8
"""So many failures in a block, if they are more than half of it, are no fault of the documents."""

Numbered = tuple[int, Document]
_Tag = Callable[[Sequence[Document]], list[Document]]


def tag_in_blocks(
    tag: _Tag, found: Iterable[Numbered], path: str, attempt: Attempt, aside: Aside
) -> Iterator[Document]:
    """The documents, in order, but for those that go aside.

    Args:
        tag: Finds the entities of some documents; fails where one of them is bad.
        found: The documents of the file ``path`` and their numbers in it, from 0.
        attempt: Which one at these documents it is.
        aside: Takes the bad ones.
    """
    numbered = iter(found)
    while block := list(islice(numbered, 1 if attempt.careful else _BLOCK)):
        if attempt.careful:
            number, document = block[0]
            if attempt.blames(number):
                error = "ended each process that tried to tag it"
                aside(Bad(path, number + 1, document.id, error, document.text))
                continue
            attempt.at(number)
        yield from _block(tag, block, path, aside)


def _block(tag: _Tag, block: Sequence[Numbered], path: str, aside: Aside) -> list[Document]:
    try:
        return tag([document for _, document in block])
    except Exception:
        return _one_by_one(tag, block, path, aside)


def _one_by_one(tag: _Tag, block: Sequence[Numbered], path: str, aside: Aside) -> list[Document]:
    made: list[Document] = []
    bad: list[Bad] = []
    for number, document in block:
        try:
            made += tag([document])
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            bad.append(Bad(path, number + 1, document.id, said, document.text))
    if len(bad) >= SYSTEMATIC and 2 * len(bad) > len(block):
        many = f"{len(bad)} of {len(block)} documents cannot be tagged"
        raise HardnerError(f"{path}: {many}, the first with {bad[0].error}")
    for one in bad:
        aside(one)
    return made
