"""Broken copies of good files, the same for the same seed. `scripts/broken_files` makes many more of them."""

import os

# How many broken files each test tries: `scripts/broken_files` sets it to reach 24,000 and 1,500 in all.
TIMES = int(os.environ.get("BROKEN_FILES", 1))

TEXTS = [
    b"",
    b"\0",
    b"\xff\xfe",
    b"NaN",
    b"-1",
    b"1e999",
    b"9" * 400,
    b"9" * 5000,
    b"null",
    b"true",
    b'"',
    b"'",
    b"{}",
    b"[]",
    b"[" * 3000,
    b'{"a":' * 3000,
    b"\n",
    b",",
    b"\r",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"../../x",
    b"1_0",
    b"\xe2\x80\xa8",
]


def break_content(content, rng):
    """A file's bytes with one to three things done to them: bits flipped, cut, doubled, torn out, or put in."""
    content = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        size = len(content)
        place, other = sorted(int(rng.integers(0, size + 1)) for _ in range(2))
        way = int(rng.integers(0, 8))
        if way <= 1 and size:
            content[min(place, size - 1)] ^= 1 << int(rng.integers(0, 8))
        elif way == 2:
            del content[place:]
        elif way == 3:
            del content[place : min(other, place + 40)]
        elif way == 4:
            content[place:place] = content[place : min(other, place + 400)]
        elif way == 5:
            content[place : min(other, place + 8)] = TEXTS[int(rng.integers(0, len(TEXTS)))]
        elif way == 6:
            content[place:place] = rng.bytes(int(rng.integers(1, 20)))
        else:
            _replace_a_value(content, rng)
    return bytes(content)


def _replace_a_value(content, rng):
    """Puts something else in the place of what stands between two separators of JSON, CSV or a line."""
    marks = [place for place, letter in enumerate(content) if letter in b',:[]{}\n\t"#']
    if len(marks) > 1:
        number = int(rng.integers(0, len(marks) - 1))
        content[marks[number] + 1 : marks[number + 1]] = TEXTS[int(rng.integers(0, len(TEXTS)))]
