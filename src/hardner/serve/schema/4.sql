-- Who labels. What was there before is by the first, who has no other name yet; the page asks for
-- one. (A new column that refers to a table could not say so: it would have to begin as NULL.)
CREATE TABLE annotators (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO annotators (id, name) VALUES (1, 'me');
ALTER TABLE events ADD COLUMN annotator INTEGER NOT NULL DEFAULT 1;
CREATE INDEX events_annotator ON events (annotator);

-- What each annotator says of a sentence. Where all work on the same labels, that is one: who was
-- the last to change them. Where each reads alone, sentences get what their readings agree on, and
-- what verdicts say of the rest.
CREATE TABLE readings (
    sentence INTEGER NOT NULL REFERENCES sentences (id),
    annotator INTEGER NOT NULL REFERENCES annotators (id),
    version INTEGER NOT NULL DEFAULT 1,
    state TEXT NOT NULL CHECK (state IN ('open', 'labelled', 'none')),
    spans TEXT NOT NULL,
    rejected TEXT NOT NULL,
    PRIMARY KEY (sentence, annotator)
) STRICT, WITHOUT ROWID;
CREATE INDEX readings_annotator ON readings (annotator, sentence);
INSERT INTO readings SELECT id, 1, version, state, spans, rejected FROM sentences
    WHERE state <> 'open' OR spans <> '[]' OR rejected <> '[]';

CREATE TABLE verdicts (
    sentence INTEGER NOT NULL REFERENCES sentences (id),
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    type INTEGER NOT NULL REFERENCES types (id),
    wanted INTEGER NOT NULL,
    PRIMARY KEY (sentence, start, stop, type)
) STRICT, WITHOUT ROWID;

CREATE TABLE options (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- Parts of the files of models, each stored once however many models have it. From this version
-- on, the table of files holds the digests of a file's parts, end to end.
CREATE TABLE blobs (
    digest BLOB PRIMARY KEY,            -- SHA-256 of the data
    data BLOB NOT NULL
) STRICT;
