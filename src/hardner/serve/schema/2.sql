-- Partly reviewed: some mentions are labelled or rejected, and the rest is still to be read.
CREATE INDEX sentences_partial ON sentences (document)
    WHERE state = 'open' AND (spans <> '[]' OR rejected <> '[]');

-- The index keeps no copy of the texts, so it must be told what to forget.
CREATE TRIGGER documents_added AFTER INSERT ON documents BEGIN
    INSERT INTO words (rowid, name, text) VALUES (new.id, new.name, new.text);
END;
CREATE TRIGGER documents_renamed AFTER UPDATE OF name ON documents BEGIN
    INSERT INTO words (words, rowid, name, text) VALUES ('delete', old.id, old.name, old.text);
    INSERT INTO words (rowid, name, text) VALUES (new.id, new.name, new.text);
END;

CREATE VIEW current_predictions AS
    SELECT * FROM predictions WHERE model = (SELECT id FROM models WHERE current);

-- The types in use, with the number of labels of each. The column is not called "type": json_each
-- has one of that name, which GROUP BY would take.
CREATE VIEW used_types AS
    SELECT types.id, types.name, key, colour, coalesce(used.spans, 0) AS spans FROM types
    LEFT JOIN (
        SELECT json_extract(span.value, '$[2]') AS number, count(*) AS spans
        FROM documents JOIN sentences ON sentences.document = documents.id,
             json_each(sentences.spans) AS span
        WHERE NOT removed AND sentences.spans <> '[]' GROUP BY number
    ) AS used ON number = types.id
    WHERE NOT types.removed ORDER BY types.id;

-- A document as a list shows it.
CREATE VIEW document_rows AS
    SELECT id, name, substr(text, 1, 120) AS opening, held_out, removed,
        (SELECT count(*) FROM sentences WHERE document = documents.id) AS sentences,
        (SELECT count(*) FROM sentences
         WHERE document = documents.id AND state <> 'open') AS labelled,
        (SELECT count(*) FROM sentences CROSS JOIN current_predictions ON sentence = sentences.id
         WHERE document = documents.id AND suggested) AS suggested,
        (SELECT count(*) FROM sentences CROSS JOIN current_predictions ON sentence = sentences.id
         WHERE document = documents.id AND disagrees) AS disagreeing
    FROM documents;

-- How many there are of everything. Few documents are removed: counting their sentences is faster
-- than leaving them out. Of the open sentences, some are partly reviewed.
CREATE VIEW removed_sentences AS
    SELECT sentences.* FROM documents CROSS JOIN sentences ON document = documents.id WHERE removed;
CREATE VIEW touched_sentences AS
    SELECT state, spans FROM sentences
    WHERE state <> 'open' AND document NOT IN (SELECT id FROM documents WHERE removed)
    UNION ALL
    SELECT 'partial', spans FROM sentences
    WHERE state = 'open' AND (spans <> '[]' OR rejected <> '[]')
        AND document NOT IN (SELECT id FROM documents WHERE removed);
CREATE VIEW counts AS
    SELECT documents, held_out, total - labelled - none AS open, partial, labelled, none, mentions,
        (SELECT count(*) FROM current_predictions) - gone.predicted AS predicted,
        (SELECT count(*) FROM current_predictions WHERE suggested) - gone.suggested AS suggested,
        (SELECT count(*) FROM current_predictions WHERE disagrees) - gone.disagrees AS disagreeing,
        total AS sentences
    FROM (SELECT count(*) AS documents, coalesce(sum(held_out), 0) AS held_out
          FROM documents WHERE NOT removed)
    JOIN (SELECT (SELECT count(*) FROM sentences)
               - (SELECT count(*) FROM removed_sentences) AS total)
    JOIN (SELECT count(*) FILTER (WHERE state = 'partial') AS partial,
                 count(*) FILTER (WHERE state = 'labelled') AS labelled,
                 count(*) FILTER (WHERE state = 'none') AS none,
                 coalesce(sum(json_array_length(spans)), 0) AS mentions FROM touched_sentences)
    JOIN (SELECT count(*) AS predicted, coalesce(sum(suggested), 0) AS suggested,
                 coalesce(sum(disagrees), 0) AS disagrees
          FROM removed_sentences CROSS JOIN current_predictions
              ON sentence = removed_sentences.id) AS gone;
