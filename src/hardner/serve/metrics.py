"""What the tagging server counts, in the text format that Prometheus reads."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock

import hardner

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds: the upper ends of the histogram's buckets, as Prometheus' own libraries have them."""
_Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counts of a server; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[_Labels] = Counter()
        self._buckets = [0] * (len(_BOUNDS) + 1)
        self._seconds = 0.0
        self._tagged: dict[str, Counter[_Labels]] = {
            name: Counter() for name in ("texts", "words", "entities")
        }

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count an answer; the time it took, if it tagged something."""
        with self._lock:
            self._requests[("path", path), ("status", str(status))] += 1
            if path == "/tag" and status == 200:
                self._buckets[bisect_left(_BOUNDS, seconds)] += 1
                self._seconds += seconds

    def tagged(self, model: str, texts: Iterable[str], labels: Iterable[str]) -> None:
        """Count the words of texts, and what was found in them by its label."""
        own = (("model", model),)
        words = [len(text.split()) for text in texts]
        with self._lock:
            self._tagged["texts"][own] += len(words)
            self._tagged["words"][own] += sum(words)
            self._tagged["entities"].update((*own, ("label", label)) for label in labels)

    def render(self, waiting: Mapping[str, tuple[int, int]]) -> str:
        """All counts; ``waiting`` are the requests and characters in the queue of each model."""
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines(waiting))

    def _lines(self, waiting: Mapping[str, tuple[int, int]]) -> Iterator[str]:
        version: Mapping[_Labels, float] = {(("version", hardner.__version__),): 1}
        yield from _metric("hardner_info", "gauge", "The version of hardner.", version)
        about = "Answers by path and HTTP status."
        yield from _metric("hardner_requests_total", "counter", about, self._requests)
        name = "hardner_tag_seconds"
        yield from _head(name, "histogram", "Seconds from a request to tag to its answer.")
        below = 0
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self._buckets, strict=True):
            below += count
            yield _sample(f"{name}_bucket", (("le", bound),), below)
        yield _sample(f"{name}_sum", (), self._seconds)
        yield _sample(f"{name}_count", (), below)
        for what, counts in self._tagged.items():
            about = f"{what.capitalize()} {'found' if what == 'entities' else 'tagged'}."
            yield from _metric(f"hardner_{what}_total", "counter", about, counts)
        for place, what in enumerate(("requests", "characters")):
            queues: Mapping[_Labels, float] = {
                (("model", model),): sizes[place] for model, sizes in waiting.items()
            }
            about = f"{what.capitalize()} that wait to be tagged."
            yield from _metric(f"hardner_queue_{what}", "gauge", about, queues)


def _metric(name: str, kind: str, about: str, values: Mapping[_Labels, float]) -> Iterator[str]:
    yield from _head(name, kind, about)
    for labels, value in sorted(values.items()):
        yield _sample(name, labels, value)


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _sample(name: str, labels: _Labels, value: float) -> str:
    shown = ",".join(f'{key}="{_escaped(said)}"' for key, said in labels)
    return f"{name}{{{shown}}} {value}" if shown else f"{name} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
