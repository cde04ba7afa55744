"""Notes that a reader writes beside words of a sentence."""

from hardner.serve.database import Database, record_event
from hardner.serve.errors import Refused
from hardner.serve.sentences import find_sentence, token_offsets


def set_note(database: Database, sentence: int, start: int, end: int, text: str) -> None:
    """Write a note on words of a sentence, in place of the one that is there; none where empty."""
    row = find_sentence(database, sentence)
    if not 0 <= start < end <= (tokens := len(token_offsets(row))):
        raise Refused(f"words {start} to {end} are not within the {tokens} of the sentence")
    found = database.execute(
        "SELECT text FROM notes WHERE sentence = ? AND start = ? AND stop = ?",
        (sentence, start, end),
    ).fetchone()
    before = found["text"] if found else ""
    if before != text:
        write_note(database, sentence, start, end, text)
        then, now = ({"start": start, "end": end, "text": said} for said in (before, text))
        whose = {"document": row["document"], "sentence": sentence}
        record_event(database, "note", **whose, before=then, after=now)


def write_note(database: Database, sentence: int, start: int, end: int, text: str) -> None:
    """Set a note without an event of its own."""
    place = (sentence, start, end)
    if text:
        database.execute("REPLACE INTO notes VALUES (?, ?, ?, ?)", (*place, text))
    else:
        database.execute("DELETE FROM notes WHERE (sentence, start, stop) = (?, ?, ?)", place)
