"""What the current model finds, sentence by sentence: on demand, and ahead of time."""

import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from hardner.serve import documents, mention_types
from hardner.serve.flags import Found, current, keep
from hardner.serve.store import Database, Store
from hardner.serve.worker import LATER, SOON, Loaded, Worker
from hardner.types import Sentence

AT_ONCE = 32
"""Sentences that are looked at ahead of time before anyone else has a turn."""
PAUSE = 2.0
"""Seconds between looks for something to do, if nothing wakes it."""


class Sweep:
    """Has every sentence looked at by the current model, in a thread of its own."""

    def __init__(self, store: Store, worker: Worker, busy: Callable[[], bool]) -> None:
        """Args: ``busy`` says whether something else needs the machine."""
        self._store, self._worker, self._busy = store, worker, busy
        self._wake = threading.Event()
        self._ends = False
        self._seen = 0
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is something new to look at."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread."""
        self._ends = True
        self.wake()
        self._thread.join(timeout=10)

    def look(self, rows: Sequence[sqlite3.Row], urgency: int = SOON) -> "Future[None]":
        """Look at these sentences; what is found is kept."""
        sentences = [Sentence(documents.tokens_of(row), id=str(row["id"])) for row in rows]
        with self._store.reading() as database:
            types = set(mention_types.numbers(database))

        def work(loaded: Loaded) -> None:
            found = looked_at(loaded, sentences, types)
            with self._store.writing() as database:
                keep(database, loaded.number, found)

        return self._worker.ask(work, urgency)

    def _run(self) -> None:
        while not self._ends:
            if self._wake.is_set():
                self._wake.clear()
                self._seen = 0
            if self._busy() or not self._looked():
                self._wake.wait(PAUSE)

    def _looked(self) -> bool:
        """Whether there was something to look at, and it was."""
        with self._store.reading() as database:
            rows = unseen(database, AT_ONCE, after=self._seen)
        if not rows or self.look(rows, LATER).exception() is not None:
            return False
        self._seen = rows[-1]["id"]
        return True


def looked_at(loaded: Loaded, sentences: Sequence[Sentence], types: set[str]) -> list[Found]:
    """What a model finds in sentences, and how hard they are for it in the project's types."""
    known = types & set(loaded.model.labels)
    spans = loaded.model.spans(sentences)
    hardness = loaded.model.hardness(sentences, labels=known or None)
    return [
        Found(int(sentence.id), own, hard, hard / max(1, len(sentence)) ** 0.5)
        for sentence, own, hard in zip(sentences, spans, hardness, strict=True)
    ]


def unseen(
    database: Database, most: int, *, after: int = 0, among: Sequence[int] | None = None
) -> list[sqlite3.Row]:
    """Sentences, of all or among these, that the current model has not looked at."""
    number = current(database)
    if number is None:
        return []
    chosen = "" if among is None else "AND sentences.id IN (SELECT value FROM json_each(:among))"
    rows = database.execute(
        f"""SELECT sentences.id FROM documents JOIN sentences ON document = documents.id
            LEFT JOIN predictions ON sentence = sentences.id AND model = :model
            WHERE NOT removed AND sentence IS NULL AND sentences.id > :after {chosen}
            ORDER BY sentences.id LIMIT :most""",
        {"model": number, "most": most, "after": after, "among": json.dumps(among)},
    )
    return documents.sentences_of(database, [row["id"] for row in rows])
