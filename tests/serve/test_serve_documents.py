"""Documents: added in every way, found again, bounded."""

import gzip
import io
import json
import random
import zipfile
import zlib
from dataclasses import replace

import pytest
from serve_bench import TEXT, add, add_type, client, label, settings, swept

from hardner.adapt.examples import examples
from hardner.formats import Report, read, write
from hardner.serve.workbench import Limits

OCTETS = {"content-type": "application/octet-stream"}
CONLL = "The\tO\nstent\tB-Device\nbroke\tO\n.\tO\n\nNo\tO\nfever\tO\n.\tO\n"


def upload(http, name, data, **query):
    data = data.encode() if isinstance(data, str) else data
    return http.post("/api/uploads", params={"name": name, **query}, content=data, headers=OCTETS)


def zipped(files):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return held.getvalue()


def listed(http, **query):
    return [d["id"] for d in http.get("/api/documents", params=query).json()["documents"]]


def test_labels_of_an_upload_are_labels(http):
    answer = upload(http, "devices.tsv", CONLL)
    assert answer.status_code == 201
    body = answer.json()
    assert (body["sentences"], body["labelled"], body["mentions"]) == (2, 2, 1)
    assert [kind["name"] for kind in body["types"]] == ["Device"]
    first = http.get("/api/sentences/1").json()
    assert first["tokens"] == ["The", "stent", "broke", "."]
    assert [(s["start"], s["end"]) for s in first["spans"]] == [(1, 2)]
    assert http.get("/api/sentences/2").json()["state"] == "none"


def test_a_plain_text_stays_open(http):
    assert upload(http, "note.txt", TEXT).json()["labelled"] == 0
    states = {s["state"] for s in http.get("/api/documents/1").json()["sentences"]}
    assert states == {"open"}


def test_silence_means_none_only_where_it_is_said(http):
    texts = [{"text": "A."}, {"text": "B.", "entities": []}]
    http.post("/api/documents", json={"documents": texts})
    assert [http.get(f"/api/sentences/{n}").json()["state"] for n in (1, 2)] == ["open", "none"]


@pytest.mark.parametrize(
    ("mentioned", "silent", "labelled"),
    [(3, "auto", 4), (1, "auto", 1), (0, "auto", 0), (1, "none", 4), (3, "open", 3)],
)
def test_silence_in_a_file_is_said_or_found_out(http, mentioned, silent, labelled):
    entity = {"start": 2, "end": 7, "label": "Device"}
    lines = [
        json.dumps({"text": "A stent.", "entities": [entity] * (place < mentioned)})
        for place in range(4)
    ]
    answer = upload(http, "a.jsonl", "\n".join(lines), silent=silent).json()
    assert (answer["labelled"], answer["mentions"]) == (labelled, mentioned)
    told = [line for line in answer["warnings"] if "without a label" in line]
    assert len(told) == (mentioned > 0)


PUBTATOR = "1|t|A stent.\n1|a|No fever.\n1\t2\t7\tstent\tDevice\n\n"
JSONL = json.dumps({"text": "A stent.", "entities": [{"start": 2, "end": 7, "label": "Device"}]})


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.tsv", CONLL),
        ("a.tsv.gz", gzip.compress(CONLL.encode())),
        ("a.pubtator", PUBTATOR),
        ("a.txt", PUBTATOR),
        ("a.jsonl", JSONL),
        ("many.zip", zipped({"x/a.jsonl": JSONL, "x/b.tsv": CONLL, "__MACOSX/x": "?"})),
        ("brat.zip", zipped({"d/1.txt": "A stent.", "d/1.ann": "T1\tDevice 2 7\tstent\n"})),
        ("../../etc/passwd.jsonl", JSONL),
        ("C:\\temp\\x.jsonl", JSONL),
    ],
    ids=lambda value: value if str(value).count(".") and len(value) < 30 else "",
)
def test_any_format_is_taken(http, name, data):
    answer = upload(http, name, data)
    assert answer.status_code == 201, answer.text
    assert "Device" in {kind["name"] for kind in answer.json()["types"]}


@pytest.mark.parametrize(
    ("name", "data", "status", "says"),
    [
        ("bad.tsv", "one two three\n\n\x00", 422, "bad.tsv"),
        ("bad.jsonl", '{"text": 1}', 422, "bad.jsonl"),
        ("bad.txt", b"\xff\xfe", 422, "UTF-8"),
        ("empty.txt", "", 422, ""),
        ("odd.bin", b"\x00\x01\x02", 422, ""),
        ("odd.xml", "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>", 422, ""),
        ("cut.zip", zipped({"a.jsonl": JSONL})[:-30], 422, ""),
        ("twice.zip", zipped({"a/b.txt": "x", "a_b.txt": "y"}), 422, "twice"),
        ("empty.zip", zipped({}), 422, "no files"),
    ],
)
def test_a_bad_upload_is_one_line_and_leaves_nothing(http, name, data, status, says):
    answer = upload(http, name, data)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert says in error and "\n" not in error and "hardner-upload" not in error
    assert http.get("/api/documents").json()["total"] == 0


def test_files_that_belong_together_come_as_one(http):
    text, marks = b"A stent.", b"T1\tDevice 2 7\tstent\n"
    query = {"name": ["x/1.txt", "1.ann"], "size": [len(text)]}
    answer = http.post("/api/uploads", params=query, content=text + marks, headers=OCTETS)
    assert answer.status_code == 201, answer.text
    assert (answer.json()["added"], answer.json()["mentions"]) == (1, 1)
    for wrong in ({"size": []}, {"name": ["1.txt", "1.txt"]}):
        answer = http.post("/api/uploads", params=query | wrong, content=text, headers=OCTETS)
        assert answer.status_code == 422


def test_messages_are_in_the_words_of_the_page(http):
    error = upload(http, "odd.unknown", "\x01 what is this").json()["error"]
    assert "--" not in error and "Format of the files" in error


@pytest.mark.parametrize("where", ["text", "name"])
def test_half_a_character_is_refused(http, where):
    body = json.dumps({"documents": [{"text": "A stent.", where: "a \ud800 b"}]})
    headers = {"content-type": "application/json"}
    answer = http.post("/api/documents", content=body, headers=headers)
    assert (answer.status_code, "surrogate" in answer.json()["error"]) == (422, True)
    answer = http.post("/api/tag", content='{"texts": ["\\ud800"]}', headers=headers)
    assert answer.status_code == 422


def test_bombs_are_refused(tmp_path):
    limits = Limits(upload_bytes=100_000, text_characters=50_000)
    zeros = b"a " * 1_000_000
    with client(replace(settings(tmp_path), limits=limits)) as http:
        for name, data in (
            ("big.txt", b"a" * 100_001),
            ("bomb.txt.gz", gzip.compress(zeros)),
            ("bomb.spacy", zlib.compress(zeros)),
            ("bomb.zip", zipped({"a.txt": zeros})),
            ("wide.txt", b"word " * 12_000),
        ):
            answer = upload(http, name, data)
            assert answer.status_code == 413, (name, answer.text)
        assert http.get("/api/documents").json()["total"] == 0


def test_unknown_formats_are_refused(http):
    assert upload(http, "a.txt", "x", format="word").status_code == 422
    assert upload(http, "a.txt", "Hello there.", format="text").status_code == 201


def test_pages_follow_one_another(http):
    add(http, *(f"Text number {i}." for i in range(25)))
    whole = listed(http, limit=1000)
    seen, after = [], 0
    while after is not None:
        page = http.get("/api/documents", params={"limit": 10, "after": after}).json()
        assert page["total"] == 25
        seen += [document["id"] for document in page["documents"]]
        after = page["next"]
    assert seen == whole == list(range(1, 26))
    assert listed(http, offset=20, limit=3) == [21, 22, 23]


def test_search_agrees_with_a_plain_look(http):
    rng = random.Random(3)
    words = ["asthma", "Astute", "stent", "fever", "café", "β-blocker", "IL-2"]
    texts = [" ".join(rng.choices(words, k=3)) for _ in range(60)]
    add(http, *texts)

    def plain(query):
        wanted = query.lower().replace("-", " ").split()
        return [
            number
            for number, text in enumerate(texts, 1)
            if all(
                any(word.startswith(want) for word in text.lower().replace("-", " ").split())
                for want in wanted
            )
        ]

    for query in ("ast", "stent fever", "café", "il-2", "blocker", "nothing", 'a" OR "b'):
        expected = [] if '"' in query else plain(query)
        assert listed(http, query=query) == expected, query
    assert listed(http, query="***") == []


def test_a_new_name_is_found_and_the_old_is_not(http):
    add(http, TEXT)
    row = http.patch("/api/documents/1", json={"name": "Renamed", "held_out": True}).json()
    assert (row["name"], row["held_out"]) == ("Renamed", True)
    assert listed(http, query="renamed") == listed(http, filter="held_out") == [1]
    assert listed(http, query="document") == []


def test_filters(http):
    disease = add_type(http)
    add(http, TEXT, "Only asthma here.", "Nothing at all.", "More asthma.")
    swept(http)
    label(http, 4, (0, 1, disease))  # wrong: the model finds asthma
    label(http, 6, (1, 2, disease))
    assert listed(http, filter="labelled") == [2, 4]
    assert listed(http, filter="unlabelled") == [1, 3]
    assert listed(http, filter="suggested") == [1]
    assert listed(http, filter="disagreeing") == [2]
    assert http.get("/api/documents", params={"filter": "odd"}).status_code == 422


def test_a_rejected_or_accepted_find_is_no_suggestion(http):
    disease = add_type(http)
    add(http, "Only asthma here.")
    swept(http)
    found = http.get("/api/sentences/1").json()
    assert found["suggested"] and found["predicted"] == [
        {"start": 1, "end": 2, "type": disease, "score": 0.9}
    ]
    label(http, 1, rejected=[{"start": 1, "end": 2, "type": disease}])
    assert not http.get("/api/sentences/1").json()["suggested"]
    http.post("/api/undo", json={})
    assert http.get("/api/sentences/1").json()["suggested"]
    accepted = label(http, 1, (1, 2, disease))
    assert not accepted["suggested"] and not accepted["disagrees"]


def test_finds_of_types_that_are_not_there_wait_for_the_type(http):
    add(http, "Only asthma here.")
    swept(http)
    assert http.get("/api/sentences/1").json()["predicted"] == []
    add_type(http)
    assert http.get("/api/sentences/1").json()["suggested"]


def test_a_very_long_sentence_is_cut_outside_its_mentions(http):
    words = " ".join(["word"] * 1000)
    start = len("word ") * 398
    mention = {"start": start, "end": start + len("word word word word"), "label": "Thing"}
    body = {"documents": [{"text": words, "entities": [mention]}]}
    assert http.post("/api/documents", json=body).json()["mentions"] == 1
    parts = http.get("/api/documents/1").json()["sentences"]
    assert [len(part["tokens"]) for part in parts] == [398, 400, 202]
    assert [(s["start"], s["end"]) for s in parts[1]["spans"]] == [(0, 4)]


def test_mentions_that_cannot_be_kept_are_said(http):
    body = {"documents": [{"text": "A stent.", "entities": [{"start": 3, "end": 7, "label": "X"}]}]}
    answer = http.post("/api/documents", json=body).json()
    assert answer["mentions"] == 1 and "kept and shown" in answer["warnings"][0]
    body["documents"][0]["entities"][0] |= {"start": 1, "end": 2}
    answer = http.post("/api/documents", json=body).json()
    assert answer["mentions"] == 0 and "' ' is empty; left out" in answer["warnings"][0]
    body["documents"][0]["entities"][0]["end"] = 70
    assert http.post("/api/documents", json=body).status_code == 422


@pytest.mark.parametrize("unit", ["document", "sentence"])
def test_what_is_taken_away_can_be_brought_back(http, tmp_path, unit):
    disease, device = add_type(http), add_type(http, "Device")
    names = ("../../x y|z", "../../x y|z", "..")
    texts = (TEXT, "Another asthma.", "Nothing labelled here.")
    body = [{"name": n, "text": t} for n, t in zip(names, texts, strict=True)]
    http.post("/api/documents", json={"documents": body})
    label(http, 1, (3, 4, disease))
    label(http, 2, (1, 2, device))
    label(http, 3, none=True)
    label(http, 4, (1, 2, disease))
    for row in http.get("/api/project").json()["formats"]:
        if not (row["writable"] and row["readable"]) or row["name"] == "docbin":
            continue
        answer = http.get("/api/export", params={"format": row["name"], "unit": unit})
        assert answer.status_code == 200, answer.text
        assert "attachment" in answer.headers["content-disposition"]
        path = tmp_path / f"{row['name']}-{unit}"
        path.write_bytes(answer.content)
        if row["name"] == "brat":
            zipfile.ZipFile(path).extractall(tmp_path / f"brat-{unit}-folder")
            path = tmp_path / f"brat-{unit}-folder"
        found = [(e.text, e.label) for d in read(path, row["name"]) for e in d.entities]
        if row["name"] != "text":
            expected = [("asthma", "Disease"), ("stent", "Device"), ("asthma", "Disease")]
            assert sorted(found) == sorted(expected), row["name"]


def test_there_must_be_something_to_take_away(http):
    add(http, TEXT)
    assert http.get("/api/export", params={"format": "conll"}).status_code == 422
    assert http.get("/api/export", params={"format": "../x"}).status_code == 422


def half_read(http):
    """Two documents: one is read in part, the other, held out, to its end."""
    disease, device = add_type(http), add_type(http, "Device")
    add(http, TEXT)
    add(http, "Another asthma. No fever.", held_out=True)
    add(http, "Nothing is labelled here.")
    label(http, 1, (3, 4, disease))
    label(http, 2, (1, 2, device), partial=True)
    label(http, 4, (1, 2, disease))
    label(http, 5, none=True)


def exported(http, tmp_path, format, unit="document"):
    answer = http.get("/api/export", params={"format": format, "unit": unit})
    assert answer.status_code == 200, answer.text
    path = tmp_path / f"{unit}.{'jsonl' if format == 'jsonl' else format}"
    path.write_bytes(answer.content)
    return path


def shown(http):
    rows = http.get("/api/documents").json()["documents"]
    return [
        (
            row["held_out"],
            [one["state"] for one in http.get(f"/api/documents/{row['id']}").json()["sentences"]],
        )
        for row in rows
    ]


def test_states_and_held_out_marks_survive_json_lines(http, tmp_path):
    half_read(http)
    path = exported(http, tmp_path, "jsonl")
    with client(settings(tmp_path, project=tmp_path / "other")) as other:
        body = upload(other, "a.jsonl", path.read_bytes()).json()
        assert (body["sentences"], body["labelled"], body["mentions"]) == (5, 3, 3)
        assert not [line for line in body["warnings"] if "without a label" in line]
        assert shown(other) == [
            (False, ["labelled", "partial", "open"]),
            (True, ["labelled", "none"]),
        ]
        again = exported(other, tmp_path, "jsonl").read_text().replace('"document-', '"')
        assert again == path.read_text().replace('"document-', '"')


@pytest.mark.parametrize("format", ["conll", "pubtator", "biocjson", "doccano"])
def test_what_was_not_read_is_not_exported_as_holding_nothing(http, tmp_path, format):
    half_read(http)
    path = exported(http, tmp_path, format)
    documents = list(read(path, format))
    text = " ".join(" ".join(document.text.split()) for document in documents)
    assert "asthma" in text and "stent" not in text and "No fever was seen" not in text
    assert sorted((e.text, e.label) for d in documents for e in d.entities) == [
        ("asthma", "Disease"),
        ("asthma", "Disease"),
    ]


def test_adapting_leaves_out_what_was_not_read_to_its_end(http, tmp_path):
    half_read(http)
    (first, _) = read(exported(http, tmp_path, "jsonl"))
    learnt = examples(first.sentences, "Disease")
    assert [" ".join(s.tokens) for s in learnt.sentences] == ["The patient had asthma ."]
    assert any("not labelled to their end" in note for note in learnt.notes)
    report = Report()
    write([first], tmp_path / "lost.tsv", "conll", report=report)
    assert [line for line in report.lines() if "not labelled to its end" in line]


def test_an_unknown_state_is_refused(http):
    line = {"text": "A.", "sentences": [{"tokens": ["A", "."], "state": "half"}]}
    error = upload(http, "a.jsonl", json.dumps(line)).json()["error"]
    assert "known are open, partial, done" in error
