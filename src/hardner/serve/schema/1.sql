-- The tables of a project file of version 1. Each later file here takes one to the next version;
-- what has been released is never changed.
CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    held_out INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0,
    text TEXT NOT NULL                  -- the last, as it is long
) STRICT;
CREATE INDEX documents_shown ON documents (id) WHERE NOT removed;
CREATE INDEX documents_removed ON documents (id) WHERE removed;

CREATE TABLE types (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    colour INTEGER NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX types_keys ON types (key) WHERE NOT removed;

CREATE TABLE sentences (
    id INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents (id),
    position INTEGER NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    tokens TEXT NOT NULL,               -- [start, end, start, end, ...] from the sentence's start
    version INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'labelled', 'none')),
    spans TEXT NOT NULL DEFAULT '[]',   -- [[start, end, type], ...] in tokens
    rejected TEXT NOT NULL DEFAULT '[]',
    UNIQUE (document, position)
) STRICT;
CREATE INDEX sentences_labelled ON sentences (document, state) WHERE state <> 'open';

-- Nothing here is ever changed or deleted. After each event, undo_top is the event that an undo
-- takes back and redo_top the undo that a redo takes back; both are stacks, as the event below
-- the top is the top before it.
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    document INTEGER REFERENCES documents (id),
    sentence INTEGER REFERENCES sentences (id),
    before TEXT,
    after TEXT,
    target INTEGER REFERENCES events (id),
    undo_top INTEGER REFERENCES events (id),
    redo_top INTEGER REFERENCES events (id)
) STRICT;
CREATE INDEX events_sentence ON events (sentence) WHERE sentence IS NOT NULL;
CREATE TRIGGER events_stay BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER events_remain BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;

CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'cancelled', 'interrupted')),
    started TEXT NOT NULL,
    ended TEXT,
    seconds REAL NOT NULL DEFAULT 0,
    message TEXT NOT NULL DEFAULT '',
    sentences INTEGER NOT NULL,
    mentions INTEGER NOT NULL,
    types TEXT NOT NULL,
    result TEXT
) STRICT;
CREATE UNIQUE INDEX runs_one_at_a_time ON runs (state) WHERE state = 'running';

CREATE TABLE models (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('base', 'adapted')),
    labels TEXT NOT NULL,
    created TEXT NOT NULL,
    mark TEXT NOT NULL DEFAULT '',      -- of the files of a base, which lie elsewhere
    run INTEGER REFERENCES runs (id),
    bytes INTEGER NOT NULL DEFAULT 0,
    current INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX models_one_current ON models (current) WHERE current;
CREATE TABLE files (
    model INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (model, name)
) STRICT;

CREATE TABLE predictions (
    sentence INTEGER PRIMARY KEY REFERENCES sentences (id),
    model INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    spans TEXT NOT NULL,                -- [[start, end, label, score], ...] in tokens
    hardness REAL NOT NULL,
    worth REAL NOT NULL,                -- hardness, made comparable between lengths
    suggested INTEGER NOT NULL,
    disagrees INTEGER NOT NULL
) STRICT;
CREATE INDEX predictions_worthiest ON predictions (model, worth);
CREATE INDEX predictions_suggested ON predictions (model, suggested, sentence) WHERE suggested;
CREATE INDEX predictions_disagreeing ON predictions (model, disagrees, sentence) WHERE disagrees;

CREATE VIRTUAL TABLE words USING fts5 (
    name, text, content='documents', content_rowid='id', tokenize='unicode61'
);
