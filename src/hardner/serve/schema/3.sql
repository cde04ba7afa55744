-- What a type is and is not, in Markdown.
ALTER TABLE types ADD COLUMN guideline TEXT NOT NULL DEFAULT '';
-- There may be more types than keys: those that came last have an empty one.
DROP INDEX types_keys;
CREATE UNIQUE INDEX types_keys ON types (key) WHERE NOT removed AND key <> '';

-- Mentions that no run of words of one sentence can stand for: they lie within a word, go across
-- sentences or have several pieces.
CREATE TABLE loose_mentions (
    id INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents (id),
    type INTEGER NOT NULL REFERENCES types (id),
    pieces TEXT NOT NULL,               -- [[start, end], ...] in characters of the document
    identifier TEXT NOT NULL DEFAULT '',
    removed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX loose_mentions_kept ON loose_mentions (document) WHERE NOT removed;
CREATE VIEW loose_pieces AS
    SELECT loose_mentions.id, document, loose_mentions.type, identifier,
        json_extract(piece.value, '$[0]') AS start, json_extract(piece.value, '$[1]') AS stop,
        json_array_length(pieces) AS pieces
    FROM loose_mentions JOIN types ON types.id = loose_mentions.type, json_each(pieces) AS piece
    WHERE NOT loose_mentions.removed AND NOT types.removed;

CREATE TABLE notes (
    sentence INTEGER NOT NULL REFERENCES sentences (id),
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (sentence, start, stop)
) STRICT, WITHOUT ROWID;

DROP VIEW used_types;
CREATE VIEW used_types AS
    SELECT types.id, types.name, key, colour, guideline, coalesce(used.spans, 0) AS spans
    FROM types
    LEFT JOIN (
        SELECT number, count(*) AS spans FROM (
            SELECT json_extract(span.value, '$[2]') AS number
            FROM documents JOIN sentences ON sentences.document = documents.id,
                 json_each(sentences.spans) AS span
            WHERE NOT removed AND sentences.spans <> '[]'
            UNION ALL
            SELECT loose_mentions.type FROM loose_mentions
            JOIN documents ON documents.id = document
            WHERE NOT loose_mentions.removed AND NOT documents.removed
        ) GROUP BY number
    ) AS used ON number = types.id
    WHERE NOT types.removed ORDER BY types.id;
