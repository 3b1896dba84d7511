"""scripts/demo: every command is one that the verbs take, and every step reads what a step before it wrote.

The whole of it is run by hand: it installs TensorFlow into a virtual environment of its own.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from keras_imagesent.cli.main import verb_parser

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "demo"


def commands():
    text = SCRIPT.read_text().replace("\\\n", " ")
    return [shlex.split(line)[2:] for line in text.splitlines() if line.startswith("run imagesent ")]


def test_the_whole_pipeline_is_there():
    wanted = "scenes prepare train-alignment align train-captioner evaluate export report caption describe index search"
    assert set(wanted.split()) <= {command[0] for command in commands()}


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_parses(command):
    parser, _ = verb_parser(command[0])
    parser.parse_args(command[1:])


def test_every_file_was_written_by_an_earlier_step():
    written = {"demo/photos"}  # by demo_photos.py
    for command in commands():
        outputs = set(re.findall(r"--(?:out|pairs|picture|index|page) (\S+)", " ".join(command)))
        if command[0] in ("scenes", "export"):
            outputs.add(command[1])
        if "train-captioner" in command or "search" in command:
            outputs -= {"demo/pairs.jsonl", "demo/index"}
        for word in command:
            if word.startswith("demo/") and word not in outputs:
                assert any(word == done or word.startswith(f"{done}/") for done in written), (word, command)
        written |= outputs


def test_it_is_valid_shell():
    subprocess.run(["sh", "-n", SCRIPT], check=True)


def test_the_photos_are_copied_with_their_licences(tmp_path):
    pytest.importorskip("skimage", reason="scikit-image is not installed")
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/demo_photos.py", tmp_path / "photos"],
        capture_output=True,
        text=True,
        check=True,
    )
    for photo in (tmp_path / "photos").iterdir():
        assert re.search(rf"{photo.name} .*(CC0|public domain)", done.stdout)
    assert len(list((tmp_path / "photos").iterdir())) == 5
