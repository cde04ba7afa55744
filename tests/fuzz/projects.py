"""The workbench's project: opened, and then read and changed as its page does."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from fuzz.kinds import Kind, contents
from fuzz.mutate import Files

from hardner.formats import Report
from hardner.serve import documents, history, labels, mention_types, models, runs
from hardner.serve.database import APPLICATION_ID, Database, ProjectDatabase
from hardner.serve.errors import Refused
from hardner.serve.export import export_labels
from hardner.serve.labels import SentenceLabels
from hardner.serve.predictions import compare_type
from hardner.serve.queue import rank_open_sentences
from hardner.serve.report import report_page
from hardner.serve.routes.project import count_labels, project_status
from hardner.serve.sentences import select_sentences, show_sentences, to_sentence
from hardner.types import Document, Entity

NAME = "p.hardner"
TEXTS = ("The patient had asthma. A stent was placed. No fever was seen.", "Another asthma.")
RESULT = {
    **{
        "f1": 0.5,
        "low": 0.25,
        "high": 0.75,
        "gain": 0.1,
        "types": [],
        "notes": [],
        "changes": None,
    },
    "held_out": {
        **{"sentences": 2, "precision": 0.5, "recall": 0.5, "f1": 0.5},
        "mistakes": [{"kind": "missed", "right": ["asthma"], "found": [], "count": 1}],
    },
}
FIRST = Path(documents.__file__).with_name("schema") / "1.sql"


def project_kind(work: Path) -> Kind:
    """Projects: at rest, with what was written last still in SQLite's log, of the first version."""
    work.mkdir(exist_ok=True)
    return Kind("project", [_at_rest(work), _in_use(work), _of_the_first_version()], _take, 0.5)


def _at_rest(work: Path) -> Files:
    (work / "rest").mkdir()
    with closing(ProjectDatabase(work / "rest" / NAME)) as project:
        _fill(project)
    return {NAME: as_rollback((work / "rest" / NAME).read_bytes())}


def _in_use(work: Path) -> Files:
    """As the files lie where the power went."""
    (work / "use").mkdir()
    with closing(ProjectDatabase(work / "use" / NAME)) as project:
        _fill(project)
        held = contents(work / "use")
    return {name: content for name, content in held.items() if not name.endswith(("-lock", "-shm"))}


def _of_the_first_version() -> Files:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(
            f"""{FIRST.read_text()}
            PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1;
            INSERT INTO documents (id, name, text) VALUES (1, 'old', 'A stent. Some fever.');
            INSERT INTO words (rowid, name, text) SELECT id, name, text FROM documents;
            INSERT INTO types VALUES (1, 'Device', 'd', 0, 0);
            INSERT INTO sentences (id, document, position, start, stop, tokens, state, spans)
            VALUES (1, 1, 0, 0, 8, '[0,1,2,7,7,8]', 'labelled', '[[1,2,1]]');"""
        )
        return {NAME: database.serialize()}


def as_rollback(content: bytes) -> bytes:
    """A database that needs no log beside it: bytes 18 and 19 of its header say so."""
    return content[:18] + b"\x01\x01" + content[20:]


def _fill(project: ProjectDatabase) -> None:
    with project.writing() as database:
        given = [
            Document("one", TEXTS[0], (Entity(16, 22, "Disease", "asthma"),)),
            Document("two", TEXTS[1]),
            Document("", TEXTS[0]),
        ]
        prepared = [documents.prepare_document(document)[0] for document in given]
        documents.add_documents(database, prepared, held_out=False)
        mention_types.add_type(database, "Device")
        base = models.register_base_model(database, FIRST.parent, "base")
        models.set_base_labels(database, ("Disease",))
        labels.set_labels(database, 2, 0, SentenceLabels(((1, 2, 2),), False, ((0, 1, 1),)))
        labels.set_labels(database, 5, 0, SentenceLabels((), True, ()))
        labels.set_labels(database, 6, 0, SentenceLabels(((1, 2, 2),), False, (), True))
        labels.remove_type(database, 2, with_labels=True)
        history.take_step(database, "undo", None)
        history.take_step(database, "undo", None)
        documents.change_document(database, 2, {"held_out": True})
        values = ("done", "2026", json.dumps(["Disease"]), json.dumps(RESULT))
        database.execute(
            """INSERT INTO runs (state, started, sentences, mentions, types, result)
               VALUES (?, ?, 3, 2, ?, ?)""",
            values,
        )
        models.add_model(database, "adapted", ["Disease"], 1, FIRST.parent)
        for number in (1, 2, 3):
            database.execute(
                "REPLACE INTO predictions VALUES (?, ?, '[[0,1,\"Disease\",0.9]]', 2.5, 1.2, 0, 0)",
                (number, base + 1),
            )
        compare_type(database, "Disease")


def _take(path: Path) -> None:
    with closing(ProjectDatabase(path / NAME if path.is_dir() else path)) as project:
        with project.reading() as database, TemporaryDirectory() as folder:
            _read(database, Path(folder))
        for change in _CHANGES:
            with suppress(Refused), project.writing() as database:
                change(database)
        with project.reading() as database:
            project_status(database, 0)


def _read(database: Database, folder: Path) -> None:
    project_status(database, 0)
    mention_types.list_types(database)
    for number, query in enumerate(("", "ast", "fever x")):
        for which in ("all", "labelled", "unlabelled", "partial", "suggested", "disagreeing"):
            documents.list_documents(database, query, which, number, 0, 2)
    for document in documents.list_documents(database, "", "all", 0, 0, 10)["documents"]:
        documents.document_text(database, document["id"])
        rows = select_sentences(database, "document = ? ORDER BY position", document["id"])
        for sentence in show_sentences(database, rows.fetchall()):
            history.label_history(database, sentence["id"])
    for run in runs.list_runs(database):
        runs.find_run(database, run["id"])
    report_page(database, "name", count_labels(database))
    history.show_undo(database)
    rank_open_sentences(database, 5, [])
    for model in models.list_models(database):
        models.unpack_model(database, model["id"], folder / "model")
        models.zip_model(database, model["id"], "model", folder / "model.zip")
    for row in select_sentences(database, "1"):
        to_sentence(row, mention_types.type_names(database))
    for format, unit in (("jsonl", "document"), ("conll", "sentence"), ("pubtator", "document")):
        with suppress(Refused):
            export_labels(database, folder, format, None, unit, Report())


def _add(database: Database) -> None:
    prepared, _ = documents.prepare_document(Document("new", TEXTS[0]))
    documents.add_documents(database, [prepared], held_out=False)


def _label(database: Database) -> None:
    row = select_sentences(database, "NOT removed ORDER BY sentences.id").fetchone()
    if row is not None:
        labels.set_labels(database, row["id"], row["version"], SentenceLabels((), True, ()))


def _step(kind: Literal["undo", "redo"]) -> Callable[[Database], object]:
    return lambda database: history.take_step(database, kind, None)


_CHANGES = (
    *(_step("undo"), _step("undo"), _step("redo")),
    _add,
    _label,
    lambda database: mention_types.add_type(database, "Another"),
    lambda database: mention_types.change_type(database, 1, {"name": "Renamed", "colour": 3}),
    lambda database: documents.change_document(database, 1, {"removed": True}, "remove"),
    lambda database: labels.remove_type(database, 1, with_labels=True),
    *(_step("undo"),) * 8,
    lambda database: models.register_base_model(database, FIRST.parent, "other"),
    lambda database: models.use_model(database, 1),
)
