"""What the current model predicts: computed ahead, stored, and compared with the labels."""

import json
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from hardner.serve.database import Database, ProjectDatabase, compact_json
from hardner.serve.mention_types import type_numbers
from hardner.serve.model_thread import LoadedModel, ModelThread
from hardner.serve.models import current_model_number
from hardner.serve.sentences import compare_row, find_sentences, to_sentence

_BATCH = 32  # sentences predicted ahead before other work has a turn
_IN_VIEW = 2_000  # sentences that are remembered as those that somebody looks at


class Predictions:
    """Has the model thread predict the sentences of the project, when it has nothing else to do."""

    def __init__(
        self, project: ProjectDatabase, model: ModelThread, is_busy: Callable[[], bool]
    ) -> None:
        """Args: ``is_busy`` says whether something else needs the processor."""
        self._project, self._model, self._is_busy = project, model, is_busy
        self._queued = self._restart = False
        self._last = 0
        self._in_view: deque[int] = deque(maxlen=_IN_VIEW)

    def wake(self) -> None:
        """Predict whatever lacks a prediction; called when there may be new sentences."""
        self._restart = True
        self._continue()

    def _continue(self) -> None:
        if not self._queued:
            self._queued = True
            self._model.submit(self._predict_some).add_done_callback(self._check)

    def _check(self, outcome: Future[None]) -> None:
        if outcome.cancelled() or outcome.exception() is not None:  # no model could be loaded
            self._queued = False

    def _predict_some(self, loaded: LoadedModel) -> None:
        self._queued = False
        if self._model.is_wanted:
            self._continue()
            return
        if self._restart:
            self._restart, self._last = False, 0
        with self._project.reading() as database:
            rows = unpredicted_sentences(database, _BATCH, among=[*self._in_view])
            if not rows and self._is_busy():
                return  # whoever is busy wakes us at its end
            if not rows:
                rows = unpredicted_sentences(database, _BATCH, after=self._last)
                self._last = rows[-1]["id"] if rows else self._last
        if rows:
            self._predict(loaded, rows)
            self._continue()

    def look_at(self, sentences: Sequence[int]) -> None:
        """Predict these before all others, as somebody looks at them."""
        self._in_view.extend(sentences)
        self._continue()

    def predict(self, rows: Sequence[sqlite3.Row]) -> Future[None]:
        """Predict at once the first of these sentences, and the others soon."""
        coming = self._model.submit(lambda loaded: self._predict(loaded, rows[:_BATCH]))
        self.look_at([row["id"] for row in rows])
        return coming

    def _predict(self, loaded: LoadedModel, rows: Sequence[sqlite3.Row]) -> None:
        sentences, model = [to_sentence(row) for row in rows], loaded.model
        with self._project.reading() as database:
            known = set(type_numbers(database)) & set(model.labels)
        spans = model.spans(sentences)
        hardness = model.hardness(sentences, labels=known or None)
        with self._project.writing() as database:
            if current_model_number(database) != loaded.number:
                return  # another model was chosen meanwhile
            for sentence, found, hard in zip(sentences, spans, hardness, strict=True):
                marks = compact_json([[*span, round(score, 4)] for span, score in found])
                # Long sentences are harder; by the token, short ones would be. This is between.
                worth = hard / max(1, len(sentence)) ** 0.5
                database.execute(
                    "REPLACE INTO predictions VALUES (?, ?, ?, ?, ?, 0, 0)",
                    (int(sentence.id), loaded.number, marks, hard, worth),
                )
            compare_sentences(database, [row["id"] for row in rows])


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


def compare_sentences(database: Database, sentences: Sequence[int]) -> None:
    _compare(database, "sentence IN (SELECT value FROM json_each(?))", json.dumps([*sentences]))


def compare_type(database: Database, *names: str) -> None:
    """Compare anew wherever a new, changed or removed type may matter."""
    for name in names:
        _compare(database, "(instr(predictions.spans, ?) OR state <> 'open')", json.dumps(name))


def _compare(database: Database, which: str, value: str) -> None:
    """Set `suggested` and `disagrees` of predictions of the current model."""
    rows = database.execute(
        f"""SELECT sentence, state, sentences.spans, rejected, predictions.spans AS found, labels
            FROM predictions CROSS JOIN sentences ON sentences.id = sentence
            CROSS JOIN models ON models.id = +model WHERE models.current AND {which}""",
        (value,),
    ).fetchall()
    types = type_numbers(database)
    flags = [
        (*compare_row(row, row["found"], row["labels"], types), row["sentence"]) for row in rows
    ]
    database.executemany(
        "UPDATE predictions SET suggested = ?, disagrees = ? WHERE sentence = ?", flags
    )
