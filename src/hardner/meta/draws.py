"""From a method's kind of episodes to rows of a store."""

from collections.abc import Callable, Mapping

import numpy as np

from hardner.batch import Ints
from hardner.episodes import Sources, across, mini_batches, paired
from hardner.meta.loop import EpisodeRows
from hardner.meta.methods import Method
from hardner.types import Episode, Task


def offsets(sources: Sources) -> dict[str, int]:
    """Where each domain's sentences begin if all are laid end to end in the domains' order."""
    sizes = [len(found) for found in sources.sentences.values()]
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return dict(zip(sources.names, map(int, starts), strict=True))


def draw_episodes(
    method: Method, sources: Sources, tasks: int, shots: int, seed: int
) -> Callable[[int], tuple[Episode, ...]]:
    """What an iteration draws, by its number."""
    steps = max(method.objective.inner.steps, 1)

    def draw(iteration: int) -> tuple[Episode, ...]:
        if method.draw == "tasks":
            return paired(sources, shots, seed, iteration, tasks, entities=method.entities)
        if method.draw == "split":
            return across(sources, shots, seed, iteration, tasks, steps=steps)
        mixed = method.draw == "shuffled"
        return mini_batches(sources, shots, seed, iteration, tasks, mixed=mixed)

    return draw


def rows_of(episodes: tuple[Episode, ...], starts: Mapping[str, int], shots: int) -> EpisodeRows:
    """The episodes of an iteration side by side; short tasks are filled up with -1."""

    def lay(tasks: list[Task]) -> Ints:
        rows = np.full((len(tasks), shots), -1, np.int64)
        for row, task in zip(rows, tasks, strict=True):
            row[: len(task.rows)] = np.array(task.rows) + starts[task.domain]
        return rows

    steps = len(episodes[0].supports)
    supports = tuple(lay([e.supports[step] for e in episodes]) for step in range(steps))
    return EpisodeRows(supports, lay([e.query for e in episodes]))


def drawing(
    method: Method, sources: Sources, tasks: int, shots: int, seed: int
) -> Callable[[int], EpisodeRows]:
    """What `loop` asks for: the rows of an iteration, a pure function of its number."""
    starts, draw = offsets(sources), draw_episodes(method, sources, tasks, shots, seed)
    return lambda iteration: rows_of(draw(iteration), starts, shots)
