"""Whole or not at all, through kills and with several writers at once: real processes, no TensorFlow."""

import os
import signal
import subprocess
import sys
import time

import pytest

from keras_imagesent.data.atomic import (
    only_writer,
    remove_leftovers,
    whole_file,
    whole_files,
    whole_folder,
    write_json,
    write_whole,
)
from keras_imagesent.errors import InputError

HEAD = "from keras_imagesent.data.atomic import *; import os, sys, time\n"


def start(code, *arguments):
    """A process that runs `code` and is under way: it has printed a line."""
    process = subprocess.Popen([sys.executable, "-c", HEAD + code, *map(str, arguments)], stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_a_file_appears_whole_and_an_error_leaves_the_old_one(tmp_path):
    path = write_whole(tmp_path / "a.txt", "één")
    assert path.read_bytes() == "één".encode() and path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    with pytest.raises(KeyboardInterrupt), whole_file(path) as unfinished:
        unfinished.write_text("half")
        raise KeyboardInterrupt
    write_json(tmp_path / "b.json", {"é": 1})
    assert path.read_bytes() == "één".encode() and (tmp_path / "b.json").read_text("utf-8") == '{\n  "é": 1\n}\n'
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.json"]


def test_a_folder_appears_whole(tmp_path):
    with pytest.raises(ValueError), whole_folder(tmp_path / "made") as unfinished:
        (unfinished / "half").touch()
        raise ValueError
    assert not os.listdir(tmp_path)
    with whole_folder(tmp_path / "made") as unfinished:
        (unfinished / "all").touch()
        assert not (tmp_path / "made").exists()
    assert os.listdir(tmp_path) == ["made"] and os.listdir(tmp_path / "made") == ["all"]


def test_leftovers_of_a_killed_process_go_and_those_of_a_living_one_stay(tmp_path):
    code = """
with whole_file(sys.argv[1]) as file, whole_folder(sys.argv[2]) as folder:
    file.write_text("half"), (folder / "half").touch()
    print(flush=True), time.sleep(60)
"""
    living = start(code, tmp_path / "a", tmp_path / "f")
    killed = start(code, tmp_path / "a", tmp_path / "f")  # the same places: it gets names of its own
    assert len(os.listdir(tmp_path)) == 4
    kill(killed)
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".unfinished-a", ".unfinished-f"]
    kill(living)
    write_whole(tmp_path / "a", "x")  # takes the leftover over, shorter though it is
    with whole_folder(tmp_path / "f"):
        pass
    assert sorted(os.listdir(tmp_path)) == ["a", "f"] and (tmp_path / "a").read_text() == "x"
    assert not os.listdir(tmp_path / "f")


def test_many_writers_of_one_file_leave_one_of_their_contents(tmp_path):
    code = """
print(flush=True)
for turn in range(150):
    write_whole(sys.argv[1], sys.argv[2] * 10_000)
"""
    writers = [start(code, tmp_path / "a", letter) for letter in "xyz"]
    while any(writer.poll() is None for writer in writers):
        if (tmp_path / "a").exists():
            assert (tmp_path / "a").read_text() in ("x" * 10_000, "y" * 10_000, "z" * 10_000)
        time.sleep(0.002)
    assert [writer.returncode for writer in writers] == [0, 0, 0] and os.listdir(tmp_path) == ["a"]
    [writer.stdout.close() for writer in writers]


def test_a_second_writer_is_refused_or_waits(tmp_path):
    code = """
with only_writer(sys.argv[1]):
    print(flush=True), time.sleep(0.7)
    write_whole(sys.argv[1] + "/done", "")
"""
    first = start(code, tmp_path / "run")
    with (
        pytest.raises(InputError, match="run: another training is writing there"),
        only_writer(tmp_path / "run", busy="another training"),
    ):
        pass
    with only_writer(tmp_path / "run"):
        assert (tmp_path / "run/done").exists()
    assert first.wait() == 0
    first.stdout.close()


def test_a_link_laid_in_the_way_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / ".unfinished-a").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError):
        write_whole(tmp_path / "a", "x")
    assert (tmp_path / "precious").read_text() == "kept"


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_files_join_a_folder_all_or_none(tmp_path):
    def export(folder, *names, fail=False):
        with whole_files(folder) as unfinished:
            for name in names:
                (unfinished / name).write_text("new")
            if fail:
                raise ValueError

    with pytest.raises(ValueError):
        export(tmp_path / "deep/onnx", "a", "b", fail=True)
    assert not (tmp_path / "deep/onnx").exists() and not os.listdir(tmp_path / "deep")
    export(tmp_path / "deep/onnx", "a")
    (tmp_path / "deep/onnx/mine").write_text("kept")
    with pytest.raises(ValueError):
        export(tmp_path / "deep/onnx", "b", fail=True)
    (tmp_path / "deep/onnx/.unfinished-files").mkdir()  # of a killed export
    export(tmp_path / "deep/onnx", "a", "c")
    assert sorted(os.listdir(tmp_path / "deep/onnx")) == ["a", "c", "mine"]
