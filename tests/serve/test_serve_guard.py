"""What is kept out, and what every answer carries."""

import json
import re
from contextlib import closing
from dataclasses import replace

import pytest
from serve_bench import BASE, TEXT, add, add_type, client, label, settings
from starlette.testclient import TestClient

from hardner.serve.app import create_app, create_routes
from hardner.serve.guard import LOOPBACK, SECURITY_HEADERS, _name
from hardner.serve.server import _hosts, _is_loopback
from hardner.serve.workbench import Limits, Workbench

TOKEN = "a-secret-token"


def test_every_answer_has_its_headers(http):
    for path in ("/", "/docs", "/docs.css", "/openapi.json", "/api/status", "/nothing", "/api/x"):
        answer = http.get(path)
        for name, value in SECURITY_HEADERS.items():
            assert answer.headers[name] == value, path
        assert "cache-control" in answer.headers
        assert "server" not in answer.headers
    assert "unsafe" not in SECURITY_HEADERS["content-security-policy"]


def test_an_error_of_ours_has_them_too(tmp_path, monkeypatch):
    monkeypatch.setattr("hardner.serve.routes.project.project_status", lambda *_: 1 / 0)
    with (
        closing(Workbench(settings(tmp_path))) as bench,
        TestClient(create_app(bench), BASE, raise_server_exceptions=False) as http,
    ):
        answer = http.get("/api/status")
    assert answer.status_code == 500
    assert answer.json()["error"].startswith("hardner failed")
    assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "1.2.3.4", "", "a@b"])
def test_other_names_for_this_server_are_refused(http, host):
    assert http.get("/api/status", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8765", "[::1]:8765", "LOCALHOST:1"])
def test_its_own_names_are_fine(http, host):
    assert http.get("/api/status", headers={"host": host}).status_code == 200


def test_names_are_read_strictly():
    assert _name("localhost:80") == "localhost"
    assert _name("[::1]") == "::1"
    for odd in ("localhost:80:90", "localhost:x", "[::1", "[::1]x"):
        assert _name(odd) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1234"},
        {"origin": "https://localhost"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_other_sites_change_nothing(http, headers):
    answer = http.post("/api/types", json={"name": "X"}, headers=headers)
    assert answer.status_code == 403
    assert http.get("/api/types").json()["types"] == []


def test_our_own_page_may(http):
    headers = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert http.post("/api/types", json={"name": "X"}, headers=headers).status_code == 201


def test_other_sites_read_nothing_but_may_link_to_the_page(http):
    cross = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert http.get("/", headers=cross).status_code != 403
    assert http.get("/api/status", headers=cross).status_code == 403
    assert http.get("/", headers=cross | {"sec-fetch-mode": "no-cors"}).status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_only_json_is_read(http, kind):
    answer = http.post("/api/types", content='{"name": "X"}', headers={"content-type": kind})
    assert answer.status_code == 415


def test_bodies_are_bounded_whatever_they_say(tmp_path):
    with client(replace(settings(tmp_path), limits=Limits(json_bytes=1_000))) as http:
        body = json.dumps({"documents": [{"text": "x" * 2_000}]}).encode()
        kind = {"content-type": "application/json"}
        assert http.post("/api/documents", content=body, headers=kind).status_code == 413
        pieces = (body[i : i + 100] for i in range(0, len(body), 100))
        assert http.post("/api/documents", content=pieces, headers=kind).status_code == 413
        assert http.get("/api/documents").json()["total"] == 0


@pytest.fixture
def away(tmp_path):
    """A server that other machines can reach."""
    with client(settings(tmp_path), hosts={*LOOPBACK, "*"}, token=TOKEN) as made:
        yield made


def test_a_token_is_asked_for(away):
    for path in ("/", "/api/status", "/docs", "/openapi.json", "/static/app.js"):
        assert away.get(path).status_code == 401
    for bad in ("Bearer wrong", f"Basic {TOKEN}", "Bearer ", TOKEN):
        assert away.get("/api/status", headers={"authorization": bad}).status_code == 401
    right = {"authorization": f"Bearer {TOKEN}"}
    assert away.get("/api/status", headers=right).status_code == 200


def test_the_address_with_the_token_sets_a_cookie(away):
    assert away.get("/?token=wrong", follow_redirects=False).status_code == 401
    answer = away.get(f"/?token={TOKEN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert away.get("/api/status").status_code == 200


def test_the_token_works_at_the_door_only(away):
    assert away.get(f"/api/status?token={TOKEN}").status_code == 401


def test_any_address_of_the_machine_but_no_foreign_name(away):
    right = {"authorization": f"Bearer {TOKEN}"}
    assert away.get("/api/status", headers={**right, "host": "192.168.1.7"}).status_code == 200
    assert away.get("/api/status", headers={**right, "host": "evil.example"}).status_code == 400


def test_which_addresses_are_loopback():
    assert all(map(_is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))
    assert not any(map(_is_loopback, ("0.0.0.0", "::", "192.168.1.7", "example.org", "")))
    assert "*" not in _hosts("127.0.0.1") | _hosts("192.168.1.7")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/..\\app.py",
        "/api/models/1%2f..%2f2/zip",
    ],
)
def test_no_path_leaves_the_page(http, path):
    answer = http.get(path)
    assert answer.status_code in (404, 422)
    assert "error" in answer.json()


def test_the_files_of_the_page_are_those_of_the_folder(tmp_path, monkeypatch):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "list.js").write_text("1")
    (tmp_path / "secret.key").write_text("2")
    monkeypatch.setattr("hardner.serve.app._PAGE", tmp_path)
    with client(settings(tmp_path)) as http:
        found = http.get("/static/parts/list.js")
        assert (found.text, found.headers["content-type"][:15]) == ("1", "text/javascript")
        assert http.get("/static/secret.key").status_code == 404


def test_an_unchanged_file_is_not_sent_again(http):
    first = http.get("/")
    again = http.get("/", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(2)> \" ' & asthma."


def test_hostile_text_is_text(http):
    disease = add_type(http, "<b>Bold</b>")
    body = {"documents": [{"name": "<i>name</i>", "text": HOSTILE}]}
    assert http.post("/api/documents", json=body).status_code == 201
    label(http, 1, (0, 3, disease))
    answer = http.get("/api/documents/1")
    assert answer.headers["content-type"] == "application/json"
    page = http.get("/api/report")
    assert "attachment" in page.headers["content-disposition"]
    assert "<b>Bold" not in page.text and "&lt;b&gt;Bold" in page.text
    assert "<script" not in http.get("/docs").text


def test_pages_ask_for_nothing_outside(http):
    for page in (http.get("/docs").text, http.get("/api/report").text):
        assert not re.search(r"(src|href)=\"?(https?:)?//", page)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"name": "\\ud800"}',
        b'{"name": "a\\u0000b"}',
        b'{"name": "X", "more": 1}',
        b'{"name": ["X"]}',
        b"null",
        b"",
    ],
)
def test_odd_bodies_are_one_line(http, body):
    answer = http.post("/api/types", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert list(answer.json()) == ["error"]
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/sentences/0",
        "/api/sentences/99999999999999999999",
        "/api/sentences/-1",
        "/api/sentences/1e3",
        "/api/sentences/999",
        "/api/documents/999",
        "/api/runs/9",
        "/api/models/9/zip",
        "/api/sentences?ids=1,,2",
        f"/api/sentences?ids={','.join(['1'] * 201)}",
        "/api/documents?limit=0",
        "/api/documents?query=%00%22",
    ],
)
def test_odd_numbers_are_refused(http, path):
    answer = http.get(path)
    assert answer.status_code in (404, 422) or answer.json()["total"] == 0


def test_other_methods_are_refused(http):
    assert http.request("TRACE", "/api/status").status_code == 405
    assert http.delete("/api/status").json() == {"error": "Method Not Allowed"}


def test_the_description_names_every_route():
    described = create_routes().openapi()["paths"]
    for path in ("/api/tag", "/api/adapt", "/api/suggest", "/api/models"):
        assert path in described
    add_here = described["/api/uploads"]["post"]["requestBody"]["content"]
    assert list(add_here) == ["application/octet-stream"]


def test_an_empty_and_a_blank_text(http):
    assert http.post("/api/documents", json={"documents": [{"text": ""}]}).status_code == 422
    assert http.post("/api/documents", json={"documents": [{"text": " \n "}]}).status_code == 422
    add(http, TEXT)
