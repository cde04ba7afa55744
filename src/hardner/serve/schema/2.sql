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
