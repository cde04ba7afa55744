"""What the current model predicts: computed ahead, stored, and compared with the labels."""

import json
import sqlite3
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from hardner.serve.database import Database, ProjectDatabase, compact_json
from hardner.serve.mention_types import type_numbers
from hardner.serve.model_thread import LATER, SOON, LoadedModel, ModelThread
from hardner.serve.models import current_model_number
from hardner.serve.sentences import find_sentences, to_sentence
from hardner.types import Sentence, Span

_BATCH = 32
"""Sentences predicted ahead before other work has a turn."""
_PAUSE = 2.0
"""Seconds between looks for sentences to predict, unless woken."""


class Prediction(NamedTuple):
    """What a model predicts for a sentence."""

    sentence: int
    spans: Sequence[tuple[Span, float]]
    hardness: float
    worth: float
    """The hardness, comparable between lengths."""


class PredictionThread:
    """Has the current model predict every sentence of the project, in the background."""

    def __init__(
        self, project: ProjectDatabase, model: ModelThread, is_busy: Callable[[], bool]
    ) -> None:
        """Args: ``is_busy`` says whether something else needs the processor."""
        self._project, self._model, self._is_busy = project, model, is_busy
        self._wake = threading.Event()
        self._ends = False
        self._last = 0
        self._thread = threading.Thread(target=self._run, name="predictions", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look for sentences to predict now, from the first on."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread."""
        self._ends = True
        self.wake()
        self._thread.join(timeout=10)

    def predict(self, rows: Sequence[sqlite3.Row], urgency: int = SOON) -> Future[None]:
        """Predict these sentences and store the outcome."""
        sentences = [to_sentence(row) for row in rows]
        with self._project.reading() as database:
            types = set(type_numbers(database))

        def work(loaded: LoadedModel) -> None:
            predictions = _predict(loaded, sentences, types)
            with self._project.writing() as database:
                _store(database, loaded.number, predictions)

        return self._model.submit(work, urgency)

    def _run(self) -> None:
        while not self._ends:
            if self._wake.is_set():
                self._wake.clear()
                self._last = 0
            if self._is_busy() or not self._predict_some():
                self._wake.wait(_PAUSE)

    def _predict_some(self) -> bool:
        """Whether there were sentences to predict, and that went well."""
        with self._project.reading() as database:
            rows = unpredicted_sentences(database, _BATCH, after=self._last)
        if not rows or self.predict(rows, LATER).exception() is not None:
            return False
        self._last = rows[-1]["id"]
        return True


def _predict(
    loaded: LoadedModel, sentences: Sequence[Sentence], types: Collection[str]
) -> list[Prediction]:
    model = loaded.model
    spans = model.spans(sentences)
    known = set(types) & set(model.labels)
    hardness = model.hardness(sentences, labels=known or None)
    # Hardness adds up over tokens; divided by all of them, it would favour short sentences.
    return [
        Prediction(int(sentence.id), own, hard, hard / max(1, len(sentence)) ** 0.5)
        for sentence, own, hard in zip(sentences, spans, hardness, strict=True)
    ]


def unpredicted_sentences(
    database: Database, most: int, *, after: int = 0, among: Sequence[int] | None = None
) -> list[sqlite3.Row]:
    """Sentences, of all or of these, without a prediction of the current model."""
    number = current_model_number(database)
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
    return find_sentences(database, [row["id"] for row in rows])


def _store(database: Database, model: int, predictions: Sequence[Prediction]) -> None:
    if current_model_number(database) != model:
        return  # another model was chosen while this one was at work
    database.executemany(
        """INSERT INTO predictions VALUES (?, ?, ?, ?, ?, 0, 0)
           ON CONFLICT (sentence) DO UPDATE SET model = excluded.model, spans = excluded.spans,
               hardness = excluded.hardness, worth = excluded.worth""",
        [
            (
                prediction.sentence,
                model,
                compact_json([[*span, round(score, 4)] for span, score in prediction.spans]),
                prediction.hardness,
                prediction.worth,
            )
            for prediction in predictions
        ],
    )
    compare_sentences(database, [prediction.sentence for prediction in predictions])


def compare_sentences(database: Database, sentences: Sequence[int]) -> None:
    """Compare predictions and labels of these sentences anew."""
    _compare(database, "sentence IN (SELECT value FROM json_each(?))", json.dumps([*sentences]))


def compare_type(database: Database, *names: str) -> None:
    """Compare anew wherever a new, changed or removed type may matter."""
    for name in names:
        _compare(database, "(instr(predictions.spans, ?) OR state <> 'open')", json.dumps(name))


def _compare(database: Database, which: str, value: str) -> None:
    """Set `suggested` and `disagrees` of predictions of the current model.

    An open sentence has suggestions if the model finds a mention that was not rejected. A labelled
    one disagrees if the model finds other mentions, of the types that it knows.
    """
    rows = database.execute(
        f"""SELECT sentence, state, sentences.spans, rejected, predictions.spans AS found, labels
            FROM predictions CROSS JOIN sentences ON sentences.id = sentence
            CROSS JOIN models ON models.id = +model WHERE models.current AND {which}""",
        (value,),
    ).fetchall()
    types = type_numbers(database)
    flags = []
    for row in rows:
        predicted = json.loads(row["found"])
        found = {(start, end, types[label]) for start, end, label, _ in predicted if label in types}
        if row["state"] == "open":
            rejected = {tuple(mark) for mark in json.loads(row["rejected"])}
            flags.append((bool(found - rejected), False, row["sentence"]))
        else:
            known = {types[label] for label in json.loads(row["labels"]) if label in types}
            gold = {tuple(mark) for mark in json.loads(row["spans"]) if mark[2] in known}
            flags.append((False, found != gold, row["sentence"]))
    database.executemany(
        "UPDATE predictions SET suggested = ?, disagrees = ? WHERE sentence = ?", flags
    )
