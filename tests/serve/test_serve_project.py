"""The project as a file: of an earlier version, complete when idle, copied, on a full disk."""

import errno
import io
import random
import sqlite3
import threading
import zipfile
from contextlib import closing

import pytest
import torch
from safetensors.torch import save_file
from serve_bench import TEXT, add, add_type, client, label, sentence, settings, until

from hardner.errors import FileError
from hardner.serve.blobs import read_stored, store_file, stored_files
from hardner.serve.database import APPLICATION_ID, ProjectDatabase
from hardner.serve.models import MODELS_KEPT, add_model, remove_model, unpack_model

FIRST = """
CREATE TABLE documents (id INTEGER PRIMARY KEY, name TEXT NOT NULL,
    held_out INTEGER NOT NULL DEFAULT 0, removed INTEGER NOT NULL DEFAULT 0, text TEXT NOT NULL
) STRICT;
CREATE INDEX documents_shown ON documents (id) WHERE NOT removed;
CREATE INDEX documents_removed ON documents (id) WHERE removed;
CREATE TABLE types (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key TEXT NOT NULL,
    colour INTEGER NOT NULL, removed INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX types_keys ON types (key) WHERE NOT removed;
CREATE TABLE sentences (id INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents (id), position INTEGER NOT NULL,
    start INTEGER NOT NULL, stop INTEGER NOT NULL, tokens TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'labelled', 'none')),
    spans TEXT NOT NULL DEFAULT '[]', rejected TEXT NOT NULL DEFAULT '[]',
    UNIQUE (document, position)) STRICT;
CREATE INDEX sentences_labelled ON sentences (document, state) WHERE state <> 'open';
CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, kind TEXT NOT NULL,
    document INTEGER REFERENCES documents (id), sentence INTEGER REFERENCES sentences (id),
    before TEXT, after TEXT, target INTEGER REFERENCES events (id),
    undo_top INTEGER REFERENCES events (id), redo_top INTEGER REFERENCES events (id)) STRICT;
CREATE INDEX events_sentence ON events (sentence) WHERE sentence IS NOT NULL;
CREATE TRIGGER events_stay BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER events_remain BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'cancelled', 'interrupted')),
    started TEXT NOT NULL, ended TEXT, seconds REAL NOT NULL DEFAULT 0,
    message TEXT NOT NULL DEFAULT '', sentences INTEGER NOT NULL, mentions INTEGER NOT NULL,
    types TEXT NOT NULL, result TEXT) STRICT;
CREATE UNIQUE INDEX runs_one_at_a_time ON runs (state) WHERE state = 'running';
CREATE TABLE models (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('base', 'adapted')), labels TEXT NOT NULL,
    created TEXT NOT NULL, mark TEXT NOT NULL DEFAULT '', run INTEGER REFERENCES runs (id),
    bytes INTEGER NOT NULL DEFAULT 0, current INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX models_one_current ON models (current) WHERE current;
CREATE TABLE files (model INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    name TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (model, name)) STRICT;
CREATE TABLE predictions (sentence INTEGER PRIMARY KEY REFERENCES sentences (id),
    model INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE, spans TEXT NOT NULL,
    hardness REAL NOT NULL, worth REAL NOT NULL, suggested INTEGER NOT NULL,
    disagrees INTEGER NOT NULL) STRICT;
CREATE INDEX predictions_worthiest ON predictions (model, worth);
CREATE INDEX predictions_suggested ON predictions (model, suggested, sentence) WHERE suggested;
CREATE INDEX predictions_disagreeing ON predictions (model, disagrees, sentence) WHERE disagrees;
CREATE VIRTUAL TABLE words USING fts5 (
    name, text, content='documents', content_rowid='id', tokenize='unicode61'
);
INSERT INTO documents (id, name, text) VALUES (1, 'old', 'A stent. Some fever. No pain.');
INSERT INTO words (rowid, name, text) SELECT id, name, text FROM documents;
INSERT INTO types (id, name, key, colour) VALUES (1, 'Device', 'd', 0);
INSERT INTO sentences (id, document, position, start, stop, tokens, version, state, spans, rejected)
VALUES (1, 1, 0, 0, 8, '[0,1,2,7,7,8]', 1, 'labelled', '[[1,2,1]]', '[]'),
       (2, 1, 1, 9, 20, '[0,4,5,10,10,11]', 1, 'open', '[]', '[[1,2,1]]'),
       (3, 1, 2, 21, 29, '[0,2,3,7,7,8]', 0, 'open', '[]', '[]');
INSERT INTO runs (id, state, started, sentences, mentions, types, result)
VALUES (1, 'done', '2026-01-01', 1, 1, '["Device"]', '{"f1":0.5}');
INSERT INTO models (id, name, kind, labels, created, run, bytes)
VALUES (2, 'run 1', 'adapted', '["Device"]', '2026-01-01', 1, 7),
       (3, 'run 2', 'adapted', '["Device"]', '2026-01-01', NULL, 7);
INSERT INTO files VALUES (2, 'config.json', CAST('{"a":1}' AS BLOB)),
       (3, 'config.json', CAST('{"a":1}' AS BLOB));
INSERT INTO events VALUES (1, '2026-01-01', 'label', 1, 1,
    '{"spans":[],"none":false,"rejected":[]}',
    '{"spans":[[1,2,1]],"none":false,"rejected":[]}', NULL, 1, NULL);
"""
"""The tables of version 0.1, and a small project in them."""


def test_a_project_of_the_first_version_opens(tmp_path):
    made = settings(tmp_path)
    with closing(sqlite3.connect(made.project)) as old:
        old.executescript(
            f"BEGIN; {FIRST} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1; END"
        )
    for _ in range(2):  # once brought up to date, then as any other
        with client(made) as http:
            found = http.get("/api/documents/1").json()["sentences"]
            assert [one["state"] for one in found] == ["labelled", "partial", "open"]
            assert http.get("/api/status").json()["counts"]["partial"] == 1
            assert http.get("/api/documents", params={"query": "fever"}).json()["total"] == 1
            assert found[0]["readers"] == ["me"]
            taken = zipfile.ZipFile(io.BytesIO(http.get("/api/models/2/zip").content))
            assert taken.read("project-run-1/config.json") == b'{"a":1}'
    with client(made) as http:
        http.post("/api/undo", json={})
        assert sentence(http, 1)["state"] == "open"
        label(http, 3, (1, 2, 1), partial=True)
        assert sentence(http, 3)["state"] == "partial"
    with closing(sqlite3.connect(made.project)) as stored:
        assert stored.execute("SELECT count(*) FROM blobs").fetchone() == (1,)
    with closing(sqlite3.connect(made.project)) as now, closing(sqlite3.connect(":memory:")) as new:
        with client(settings(tmp_path, project=tmp_path / "new")):
            pass
        new.execute("ATTACH ? AS made", (str(tmp_path / "new"),))
        names = "SELECT type, name FROM {}sqlite_schema ORDER BY 1, 2"
        assert (
            now.execute(names.format("")).fetchall()
            == new.execute(names.format("made.")).fetchall()
        )


def test_the_file_alone_is_the_project_once_it_is_quiet(tmp_path):
    made = settings(tmp_path)
    with client(made) as http:
        disease = add_type(http)
        add(http, TEXT)
        label(http, 1, (3, 4, disease))
        log = made.project.with_name(f"{made.project.name}-wal")
        until(lambda: not log.exists() or log.stat().st_size == 0)
        (tmp_path / "alone").write_bytes(made.project.read_bytes())
        with client(settings(tmp_path, project=tmp_path / "alone")) as other:
            assert sentence(other, 1)["state"] == "labelled"
        label(http, 2, (1, 2, disease))  # writing goes on


def test_a_copy_is_the_project_of_that_moment(tmp_path):
    with client(settings(tmp_path)) as http:
        disease = add_type(http)
        add(http, TEXT)
        label(http, 1, (3, 4, disease))
        answer = http.get("/api/copy")
        assert "project-copy.hardner" in answer.headers["content-disposition"]
        label(http, 2, (1, 2, disease))
        (tmp_path / "copy").write_bytes(answer.content)
        with client(settings(tmp_path, project=tmp_path / "copy")) as other:
            assert [sentence(other, n)["state"] for n in (1, 2)] == ["labelled", "open"]


def test_a_full_disk_is_named_and_nothing_is_lost(tmp_path, monkeypatch):
    with client(settings(tmp_path)) as http:
        disease = add_type(http)
        add(http, TEXT)
        label(http, 1, (3, 4, disease))
        database = http.app._app.state.bench.project
        with database.writing() as writer:
            (pages,) = writer.execute("PRAGMA page_count").fetchone()
            writer.execute(f"PRAGMA max_page_count = {pages}")
        answer = http.post("/api/documents", json={"documents": [{"text": TEXT * 1_000}]})
        assert (answer.status_code, "disk is full" in answer.json()["error"]) == (507, True)

        def full(self, *_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("pathlib.Path.open", full)
            headers = {"content-type": "application/octet-stream"}
            answer = http.post("/api/uploads", content=b"Some text.", headers=headers)
            assert (answer.status_code, "disk is full" in answer.json()["error"]) == (507, True)
        with database.writing() as writer:
            writer.execute("PRAGMA max_page_count = 1000000")
        assert add(http, TEXT * 1_000)["added"] == 1
        assert sentence(http, 1)["state"] == "labelled"


def test_a_damaged_project_is_one_line_and_stays_as_it_is(tmp_path):
    with client(settings(tmp_path)) as web:
        add(web, TEXT)
    whole = settings(tmp_path).project.read_bytes()
    page, draw = tmp_path / "damaged.hardner", random.Random(3)
    refused = 0
    for _ in range(40):
        bytes_ = bytearray(whole)
        for at in draw.sample(range(len(whole)), 30):
            bytes_[at] = draw.randrange(256)
        page.write_bytes(bytes_)
        try:
            ProjectDatabase(page).close()
        except FileError as error:
            refused += 1
            assert "\n" not in str(error)
            assert page.read_bytes() == bytes_
    assert refused > 10


DAMAGE = {
    "a list that is none": "UPDATE sentences SET tokens = '[1, 2' WHERE id = 1",
    "half a token": "UPDATE sentences SET tokens = '[0, 3, 4]' WHERE id = 1",
    "a mark outside": "UPDATE sentences SET spans = '[[0, 99, 1]]' WHERE id = 1",
    "a mark of no type": "UPDATE sentences SET spans = '[[0, 1, 99]]' WHERE id = 1",
    "a sentence between": "UPDATE sentences SET position = 9 WHERE id = 2",
    "no document": "DELETE FROM documents",
    "no view": "DROP VIEW counts",
    "a trigger": "CREATE TRIGGER x AFTER INSERT ON events BEGIN DELETE FROM types; END",
    "a column set by an undo": """INSERT INTO events (at, kind, document, before, after)
        VALUES ('', 'document', 1, '{"text = name, name": "x"}', '{}')""",
    "an undo without end": """INSERT INTO events (id, at, kind, target) VALUES
        (90, '', 'undo', 91), (91, '', 'undo', 90)""",
    "labels of an event that has none": """INSERT INTO events (at, kind, sentence)
        VALUES ('', 'add', 1)""",
    "a file elsewhere": "INSERT INTO files VALUES (1, '../elsewhere', x'00')",
    "a file of no name": "INSERT INTO files VALUES (1, char(0), x'00')",
    "a part that is gone": "INSERT INTO files VALUES (1, 'weights', zeroblob(32))",
    "a reading outside": """INSERT INTO readings (sentence, annotator, state, spans, rejected)
        VALUES (1, 1, 'labelled', '[[0, 99, 1]]', '[]')""",
    "a verdict outside": "INSERT INTO verdicts VALUES (1, 0, 99, 1, 1)",
    "a verdict of no marks": """INSERT INTO events (at, kind, document, sentence, before, after)
        VALUES ('', 'verdict', 1, 1, '{"spans":[],"none":false,"rejected":[]}', '{}')""",
    "an annotator that is none": "INSERT INTO events (at, kind, annotator) VALUES ('', 'run', 9)",
    "another default": """PRAGMA writable_schema = ON; UPDATE sqlite_schema
        SET sql = replace(sql, 'DEFAULT 0', 'DEFAULT 1') WHERE name = 'types'""",
    "a result that is none": """INSERT INTO runs (state, started, sentences, mentions, types,
        result) VALUES ('done', '', 1, 1, '[]', 'null')""",
    "a result without scores": """INSERT INTO runs (state, started, sentences, mentions, types,
        result) VALUES ('done', '', 1, 1, '[]', '{"held_out": {}}')""",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_rows_that_hardner_does_not_write_are_refused(tmp_path, damage):
    with client(settings(tmp_path)) as web:
        add_type(web)
        add(web, TEXT)
    path = settings(tmp_path).project
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(damage)
    held = path.read_bytes()
    with pytest.raises(FileError, match="is damaged; go on with a copy from before"):
        ProjectDatabase(path)
    assert path.read_bytes() == held


def test_the_index_of_words_is_made_anew(tmp_path):
    with client(settings(tmp_path)) as web:
        add(web, TEXT)
    with closing(sqlite3.connect(settings(tmp_path).project)) as database, database:
        database.execute("INSERT INTO words (words) VALUES ('delete-all')")
    with client(settings(tmp_path)) as web:
        assert web.get("/api/documents", params={"query": "asthma"}).json()["total"] == 1


def blob_bytes(database):
    (size,) = database.execute("SELECT coalesce(sum(length(data)), 0) FROM blobs").fetchone()
    return size


def test_what_models_share_is_stored_once(tmp_path):
    base = torch.arange(50_000.0)
    with closing(ProjectDatabase(tmp_path / "project")) as project:
        for number in range(1, MODELS_KEPT + 3):
            folder = tmp_path / f"model-{number}"
            folder.mkdir()
            weights = {"lower": base, "upper": torch.full((1_000,), float(number))}
            save_file(weights, folder / "weights.safetensors", {"made": "here"})
            (folder / "config.json").write_text("{}" * 50)
            with project.writing() as database:
                database.execute(
                    "INSERT INTO runs (state, started, sentences, mentions, types) "
                    "VALUES ('done', '', 1, 1, '[]')"
                )
                add_model(database, f"run {number}", ["Device"], number, folder)
            with project.reading() as database:
                unpack_model(database, number, tmp_path / f"back-{number}")
            for name in ("weights.safetensors", "config.json"):
                back = tmp_path / f"back-{number}" / name
                assert back.read_bytes() == (folder / name).read_bytes()
        with project.reading() as database:
            whole = (tmp_path / "model-1" / "weights.safetensors").stat().st_size
            assert blob_bytes(database) < whole + MODELS_KEPT * 5_000
        last = MODELS_KEPT + 2
        with project.writing() as database:
            for number in range(1, last):
                database.execute("UPDATE models SET current = (id = ?)", (last,))
                if number >= last - MODELS_KEPT + 1:
                    remove_model(database, number)
        with project.reading() as database:
            assert blob_bytes(database) == (folder / "weights.safetensors").stat().st_size + 100
            unpack_model(database, last, tmp_path / "kept")
        kept = tmp_path / "kept" / "weights.safetensors"
        assert kept.read_bytes() == (folder / "weights.safetensors").read_bytes()


@pytest.mark.parametrize(
    "data",
    [b"", b"abc", b"\xff" * 64, (4).to_bytes(8, "little") + b"null" + b"x" * 9,
     (30).to_bytes(8, "little") + b'{"a":{"data_offsets":[0,"x"]}}' + b"x" * 9,
     (31).to_bytes(8, "little") + b'{"a":{"data_offsets":[9,9999]}}' + b"x" * 9],
)  # fmt: skip
def test_a_file_of_any_kind_comes_back_as_it_was(tmp_path, data):
    with closing(ProjectDatabase(tmp_path / "project")) as project, project.writing() as database:
        database.execute(
            "INSERT INTO models (id, name, kind, labels, created) VALUES (1, '', 'base', '[]', '')"
        )
        store_file(database, 1, "odd", data)
        assert b"".join(read_stored(database, 1, "odd")) == data
        assert stored_files(database, 1) == ["odd"]


def test_room_that_is_no_longer_used_is_given_back(tmp_path):
    path = tmp_path / "project"
    with closing(ProjectDatabase(path)) as project, project.writing() as database:
        database.execute("INSERT INTO blobs VALUES (x'00', zeroblob(9000000))")
    with closing(ProjectDatabase(path)) as project, project.writing() as database:
        database.execute("DELETE FROM blobs")
    assert path.stat().st_size > 9_000_000
    ProjectDatabase(path).close()
    assert path.stat().st_size < 1_000_000


def test_a_copy_made_amid_writing_is_whole(tmp_path):
    with client(settings(tmp_path)) as http:
        disease = add_type(http)
        add(http, TEXT)
        stop = threading.Event()

        def write():
            while not stop.is_set():
                label(http, 1, (3, 4, disease))
                label(http, 1)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            copies = [http.get("/api/copy").content for _ in range(5)]
        finally:
            stop.set()
            writer.join()
    for content in copies:
        (tmp_path / "copy").write_bytes(content)
        with closing(sqlite3.connect(tmp_path / "copy")) as copied:
            assert copied.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            last = copied.execute("SELECT max(id) FROM events").fetchone()
            version = copied.execute("SELECT version FROM sentences WHERE id = 1").fetchone()
            assert last[0] >= version[0]
        (tmp_path / "copy").unlink()
