"""Changes to the bytes and lines of a file, whatever they mean."""

import re
from random import Random

PIECES = (
    *(b"", b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\n", b"\r", b"\n\n", b"\t", b" "),
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"<",
        b">",
        b"</",
        b"&",
        b"&#0;",
        b"<a>",
        b"|",
        b";",
        b",",
        b"#",
    ),
    *(b"-1", b"0", b"999999999", b"1e999", b"null", b"NaN", b"[]", b"{}", b"\xe2\x80\xa8", b"//"),
)


def _flip(rng: Random, content: bytes, other: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncate(rng: Random, content: bytes, other: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _splice(rng: Random, content: bytes, other: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other) + 1) :]


def _insert(rng: Random, content: bytes, other: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(PIECES) + content[at + rng.randrange(6) :]


def _repeat(rng: Random, content: bytes, other: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    block = content[at : at + rng.choice((1, 4, 60))]
    return content[:at] + block * rng.choice((2, 50, 2000)) + content[at:]


def _lines(rng: Random, content: bytes, other: bytes) -> bytes:
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[at])
        case 2:
            lines[at:at] = [rng.choice(other.split(b"\n"))]
        case 3:
            to = rng.randrange(len(lines))
            lines[at], lines[to] = lines[to], lines[at]
        case _:
            fields = lines[at].split(b"\t")
            fields[rng.randrange(len(fields))] = rng.choice(PIECES)
            lines[at] = b"\t".join(fields)
    return rng.choice((b"\n", b"\n", b"\n", b"\r\n")).join(lines)


def _number(rng: Random, content: bytes, other: bytes) -> bytes:
    found = list(re.finditer(rb"\d+", content))
    if not found:
        return _insert(rng, content, other)
    match = rng.choice(found)
    value = int(match[0][:18])
    choices = (0, value + 1, value - 1, value * 2, -value, 10**9, 2**63, 10**30)
    new = rng.choice((*(b"%d" % choice for choice in choices), b"9" * 5000, b"\xd9\xa3", b""))
    return content[: match.start()] + new + content[match.end() :]


BYTE_CHANGES = (_flip, _truncate, _splice, _insert, _insert, _repeat, _lines, _lines, _number)
"""Each takes a generator of random numbers, the content, and another to take from."""
