"""Scripts of whole runs, with a stand-in for the commands: each parses, reads what was written before, runs once."""

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest

from keras_imagesent.cli.main import verb_parser
from tests.conftest import ROOT

STAND_IN = f"""#!/bin/sh
case "$1" in
-m) shift 2
    [ "$1" != align ] || echo '{{}}' > runs/pairs.jsonl
    {shlex.quote(sys.executable)} -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "$@" >> log
    [ "$1" != "${{FAIL:-none}}" ] ;;
*) exec {shlex.quote(sys.executable)} "$@" ;;
esac
"""


@pytest.fixture
def house(tmp_path):
    """A folder with the scripts, small data sets beside it, and commands that only say that they were called."""
    house = tmp_path / "house"
    (house / "scripts").mkdir(parents=True)
    for name in ("train_shipped", "training_tables", "ablations", "departures", "scenes", "steps.sh"):
        shutil.copy(ROOT / "scripts" / name, house / "scripts" / name)
    for path, text in {"scripts/results": "#!/bin/sh\n", "bin/python": STAND_IN}.items():
        (house / path).parent.mkdir(exist_ok=True)
        (house / path).write_text(text)
        (house / path).chmod(0o755)
    for data_set in ("flickr8k", "coco"):
        (tmp_path / "shared" / data_set / "images").mkdir(parents=True)
    images = [{"filename": f"{n}.jpg", "split": "train", "sentences": [{"raw": "a dog"}]} for n in range(6)]
    (tmp_path / "shared/flickr8k/dataset.json").write_text(json.dumps({"dataset": "flickr8k", "images": images}))
    rows = [f"{n}.jpg,a cat number {k},train" for n in range(8) for k in range(5)] + ["9.jpg,a cat,dev"]
    (tmp_path / "shared/coco/captions.csv").write_text("\n".join(["filename,caption,split", *rows]) + "\n")
    return house


def run(house, script, **environment):
    """The exit status, and the commands that were called."""
    (house / "log").write_text("")
    path = f"{house / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [house / "scripts" / script, "runs"], env={**os.environ, "PATH": path, **environment}, cwd=house, text=True
    )
    return done.returncode, [json.loads(line) for line in (house / "log").read_text().splitlines()]


def check(commands):
    for verb, *arguments in commands:
        parser, _ = verb_parser(verb)
        parser.parse_args(arguments)  # exits if it does not know a flag


@pytest.mark.parametrize("script", ["train_shipped", "ablations", "departures", "scenes"])
def test_every_command_parses_and_nothing_is_done_twice(house, script):
    status, commands = run(house, script)
    assert status == 0 and len(commands) > 5
    check(commands)
    assert run(house, script) == (0, [])
    # of train_shipped, which scripts/departures compares with
    trained = {"runs/alignment", "runs/captioner"} if script == "departures" else set()
    trained |= {command[command.index("--out") + 1] for command in commands if command[0].startswith("train-")}
    for command in commands:
        if command[0] == "evaluate":
            runs = [part.rpartition("=")[2] for part in command if "runs/" in part]
            known = {*trained, *(out for c in commands for out in c)}
            assert [path for path in runs if path not in known] == []


def test_the_shipped_models_learn_from_all_sets_and_a_stopped_run_goes_on(house):
    status, commands = run(house, "train_shipped", FAIL="train-captioner")
    assert status != 0 and commands[-1][0] == "train-captioner"
    prepare = commands[0]
    assert "coco=runs/tables/coco.csv" in prepare and not any(part.startswith("coco_large") for part in prepare)
    status, rest = run(house, "train_shipped")
    assert status == 0
    assert [c[0] for c in rest] == ["train-captioner", "train-captioner", "calibrate", "evaluate", "export", "report"]
    assert (house / "runs/times.txt").read_text().split()[::3] == [
        "prepare", "alignment", "align", "captioner", "regions", "calibrate", "evaluate", "export", "report",
    ]  # fmt: skip


def test_photos_at_their_own_size_are_learned_from_if_they_are_there(house):
    large = house.parent / "shared/coco/large"
    large.mkdir()
    (large / "large_3.jpg").write_text("")
    _, commands = run(house, "train_shipped")
    assert "coco_large=runs/tables/large.csv" in commands[0] and "coco_large=../shared/coco/large" in commands[0]
    assert "large_3.jpg,a cat number 4,train" in (house / "runs/tables/large.csv").read_text()


def test_some_rows_of_the_ablations_alone_with_another_seed(house):
    _, commands = run(house, "ablations", ONLY="brnn trees", SEED="2")
    assert [command[0] for command in commands] == ["prepare", "train-alignment", "train-alignment", "evaluate"]
    assert all(command[command.index("--seed") + 1] == "2" for command in commands[1:3])
    assert commands[3][-1] == "runs/tables/alignments-2" and "edges of dependency trees=runs/trees-2" in commands[3]


def test_a_large_training_on_made_up_shards_in_small(tmp_path):
    command = [sys.executable, ROOT / "scripts/large_training.py", "--photos", "2500", "--steps", "2"]
    done = subprocess.run([*command, "--folder", tmp_path], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "2500 photos, 2 steps" in done.stdout and "GB" in done.stdout
