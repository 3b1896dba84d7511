"""What people get wrong with their data at the command line: status 2, a line or two, and nothing left behind."""

import json
import shlex
import shutil
import subprocess
import sys

import pytest
from PIL import Image

from keras_imagesent.cli.main import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two photos in images/, a good data set in good.json; the current folder."""
    (tmp_path / "images").mkdir()
    for name, colour in [("a.jpg", "red"), ("b.jpg", "blue")]:
        Image.new("RGB", (40, 30), colour).save(tmp_path / "images" / name)
    write_dataset(tmp_path / "good.json", ("a.jpg", "train"), ("b.jpg", "test"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_dataset(path, *photos):
    images = [{"filename": name, "split": split, "sentences": [{"raw": "A dog runs."}]} for name, split in photos]
    path.write_text(json.dumps({"images": images}))


def complaint(capfd, *typed):
    """Runs what a person typed; it must fail as wrong input, in two lines at most. Returns them."""
    try:
        status = main(list(typed))
    except SystemExit as stop:  # the parser's own complaints
        status = stop.code
    out, err = capfd.readouterr()
    lines = [line for line in err.replace("\r", "\n").splitlines() if line.strip() and "photo/s" not in line]
    lines = [line for line in lines if not line.startswith("checking:")]  # the progress bar
    assert status == 2
    assert 1 <= len(lines) <= 2 and lines[0].startswith("imagesent")
    assert "Traceback" not in err and out == ""
    return "\n".join(lines)


def typed(**changes):
    """`imagesent prepare` as it should be, with one thing changed."""
    given = {"dataset": "good.json", "--photos": "images", "--out": "prepared"} | changes
    words = ["prepare", given.pop("dataset")]
    return [*words, *(word for flag, value in given.items() if value is not None for word in (flag, value))]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"dataset": "goood.json"}, "goood.json"),
        ({"dataset": "images"}, "images is a folder: name the file in it that holds the captions"),
        ({"dataset": "images/a.jpg"}, "images/a.jpg is no text"),
        ({"--photos": "imges"}, "imges"),
        ({"--photos": "good.json"}, "good.json: give the folder that holds the photos"),
        ({"--photos": "."}, "none of the 2 photos is there (the first would be a.jpg): give the folder"),
        ({"--photos": None}, "--photos"),
        ({"--out": None}, "--out"),
        ({"--out": "good.json"}, "good.json"),
        ({"--max-broken": "2"}, "--max-broken: '2' is not a share between 0 and 1"),
        ({"--max-broken": "few"}, "--max-broken: 'few' is not a share between 0 and 1"),
        ({"--set-aside": "-3"}, "--set-aside"),
        ({"--set-aside": "some"}, "--set-aside: 'some' is not a whole number"),
        ({"--set-aside": "1"}, "cannot set aside 1 of 1 training photos"),
        ({"--shard": "3/2"}, "--shard: '3/2' is not a share of the work such as 1/4"),
        ({"--split-files": "good.json"}, "good.json names its splits itself"),
        ({"--fotos": "images"}, "--fotos"),
    ],
)
def test_prepare_typed_wrong(folder, capfd, changes, says):
    before = sorted(path.name for path in folder.iterdir())
    assert says in complaint(capfd, *typed(**changes))
    assert sorted(path.name for path in folder.iterdir()) == before


def missing(folder):
    write_dataset(folder / "bad", ("a.jpg", "train"), ("b.jpg", "test"), ("lost.jpg", "train"))


def truncated(folder):
    photo = folder / "images/b.jpg"
    photo.write_bytes(photo.read_bytes()[:300])
    write_dataset(folder / "bad", ("a.jpg", "train"), ("b.jpg", "train"))


def not_a_photo(folder):
    (folder / "images/b.jpg").write_text("<html>")
    write_dataset(folder / "bad", ("a.jpg", "train"), ("b.jpg", "train"))


def in_two_splits(folder):
    write_dataset(folder / "bad", ("a.jpg", "train"), ("a.jpg", "test"))


def copied_into_another_split(folder):
    shutil.copy(folder / "images/a.jpg", folder / "images/copy.jpg")
    write_dataset(folder / "bad", ("a.jpg", "train"), ("copy.jpg", "test"))


def broken_json(folder):
    (folder / "bad").write_text('{"images": [,]}')


def other_json(folder):
    (folder / "bad").write_text('{"name": "my photos"}')


def no_header(folder):
    (folder / "bad").write_text("a.jpg,A dog runs.\n")


def latin_1(folder):
    (folder / "bad").write_bytes("filename,caption\na.jpg,Ein Hund läuft.\n".encode("latin-1"))


def empty(folder):
    (folder / "bad").write_text("")


def no_lists(folder):
    (folder / "bad").write_text("a.jpg#0\tA dog runs.\n")


def no_training_photos(folder):
    write_dataset(folder / "bad", ("a.jpg", "test"), ("b.jpg", "test"))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (
            missing,
            "1 of 3 items are broken, 33.3%; 1.0% are allowed: mend them or allow more with --max-broken (lost.jpg",
        ),
        (truncated, "(b.jpg: truncated or damaged"),
        (not_a_photo, "(b.jpg: not a photo in one of the formats JPEG, PNG, GIF, BMP"),
        (in_two_splits, "a photo stands in two splits: a.jpg is in train and in test; leave it in one of them"),
        (copied_into_another_split, "a.jpg in train and copy.jpg in test are the same picture"),
        (broken_json, "bad is not valid JSON: Expecting value (line 1, column 13)"),
        (other_json, "bad is no data set I know: its JSON has no list of images; give Karpathy or COCO JSON"),
        (no_header, "bad is no data set I know: its first line is 'a.jpg,A dog runs.'"),
        (latin_1, "no photo with a caption in it (a.jpg caption 0: not UTF-8 text)"),
        (empty, "bad is empty"),
        (no_lists, "no lists of the splits' photos beside bad: name them, as in --split-files"),
        (no_training_photos, "no training photos, only test: the vocabulary comes from a split called train"),
    ],
)
def test_prepare_with_a_data_set_that_is_wrong(folder, capfd, spoil, says):
    spoil(folder)
    said = complaint(capfd, *typed(dataset="bad"))
    assert says in said
    listed = folder / "prepared" / "problems.json"  # the only trace, where something was broken
    assert [str(path) for path in folder.glob("prepared/**/*")] == ([str(listed)] if "problems.json" in said else [])


def write_table(folder, *rows):
    (folder / "mine.csv").write_text("filename,caption\n" + "".join(f"{row}\n" for row in rows))


def test_too_many_broken_photos_are_listed_with_their_lines(folder, capfd):
    write_table(folder, "a.jpg,A dog runs.", "lost.jpg,A cat.", "a.jpg,...")
    for _ in range(2):  # what the first try left does not stand in the way of the second
        said = complaint(capfd, *typed(dataset="mine.csv"))
        assert "2 of 3 items are broken" in said and "All of them: prepared/problems.json" in said
        assert "lost.jpg (mine.csv line 3): there is no such file" in said
        assert json.loads((folder / "prepared/problems.json").read_text()) == [
            {"item": "a.jpg caption 1", "reason": "has no words", "where": "mine.csv line 4"},
            {"item": "lost.jpg", "reason": "there is no such file", "where": "mine.csv line 3"},
        ]


def test_broken_photos_are_not_listed_in_a_folder_of_something_else(folder, capfd):
    missing(folder)
    assert "items are broken" in complaint(capfd, *typed(dataset="bad", **{"--out": "images"}))
    assert sorted(path.name for path in (folder / "images").iterdir()) == ["a.jpg", "b.jpg"]


def test_repeated_captions_and_few_photos_are_mentioned(folder, capfd):
    names = [f"{number}.jpg" for number in range(12)]
    for number, name in enumerate(names):
        Image.new("RGB", (40, 30), (number, 0, 0)).save(folder / "images" / name)
    write_table(folder, "a.jpg,A dog runs.", "a.jpg,a dog runs", *(f"{name},untitled" for name in names))
    main(typed(dataset="mine.csv", **{"--backbone": "nowhere.keras"}))  # stops after the check
    said = capfd.readouterr().err
    assert "a.jpg (mine.csv line 2 and mine.csv line 3): the caption 'a dog runs' stands there twice" in said
    assert "(and 1 more: prepared/problems.json)" in said
    assert "13 training photos are few: below about 1,000" in said


def test_a_table_without_captions_is_named_as_a_person_typed_it(folder, capfd):
    (folder / "header.csv").write_text("filename,caption\n")
    said = complaint(capfd, *typed(dataset="header.csv"))
    assert "header.csv: no photo with a caption in it" in said and "PosixPath" not in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["scenes"], "the following arguments are required: out"),
        (["scenes", "images"], "images is there already: name a new folder"),
        (["scenes", "good.json"], "good.json is there already: name a new folder"),
        (["scenes", "new", "--number", "1"], "1 scenes are too few"),
        (["scenes", "new", "--number", "-5"], "-5 scenes are too few"),
        (["scenes", "new", "--number", "many"], "--number: invalid int value: 'many'"),
        (["scenes", "new", "--number", "5", "--seed", "-1"], "the seed must be 0 or more. Received: -1"),
        (["scenes", "new", "--numbre", "5"], "unrecognized arguments: --numbre 5"),
        (["scenes", "good.json/new"], "good.json is there already: name a new folder"),
    ],
)
def test_scenes_typed_wrong(folder, capfd, words, says):
    before = sorted(path.name for path in folder.iterdir())
    assert says in complaint(capfd, *words)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_real_process_ends_with_status_2(folder):
    done = subprocess.run(
        [sys.executable, "-m", "keras_imagesent", "prepare", "nowhere.json", "--photos", "images", "--out", "prepared"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("imagesent: ") and done.stderr.count("\n") <= 2


def test_output_into_a_closed_pipe_is_no_error(folder):
    python = shlex.quote(sys.executable)
    command = f"{python} -m keras_imagesent scenes new --number 2 2>errors | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode in (0, 141)
    assert "Traceback" not in (folder / "errors").read_text()
