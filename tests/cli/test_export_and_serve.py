"""`imagesent export` and `imagesent serve` as a person types them, and what a person gets wrong."""

import socket

import pytest

from keras_imagesent.cli.export import documents, read_photos, representative
from keras_imagesent.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "{file}"], "is a file: name a folder to write to"),
        (["export", "{folder}/out", "--card", "{folder}/none.md"], "none.md is no file"),
        (["export", "{folder}/out", "--photos", "{folder}/none"], "none is no folder"),
        (["export", "{folder}/out", "--photos", "{folder}"], "has no .jpg or .png photo"),
        (["export", "{folder}/out", "--beam", "0"], "--beam must be at least 1"),
        (["export", "{folder}/out", "--beta", "-1"], "--beta must be 0 or more"),
        (["export", "{folder}/out", "--format", "onnx", "--rerank", "0.3"], "--rerank is for the SavedModel"),
        (["export", "{folder}/out", "--backbone", "{folder}/none.keras"], "none.keras"),
        (["serve", "{folder}", "--config", "{file}"], "either a folder or --config"),
        (["serve", "{folder}"], "has no numbered version folder"),
        (["serve", "{folder}", "--timeout", "0"], "--timeout must be more than 0"),
        (["serve", "--config", "{folder}/none.config"], "cannot be read"),
    ],
)
def test_mistakes_end_in_a_line(arguments, message, tmp_path, capsys):
    (tmp_path / "file.txt").write_text("text")
    typed = [argument.format(folder=tmp_path, file=tmp_path / "file.txt") for argument in arguments]
    assert main(typed) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("imagesent: ")
    assert message in complaint
    assert len(complaint.splitlines()) <= 2
    assert not (tmp_path / "out").exists()


def test_a_port_that_is_taken(tmp_path):
    from keras_imagesent.errors import InputError
    from keras_imagesent.serving.server import listen

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="choose another with --port"):
            listen("127.0.0.1", taken.getsockname()[1])


def test_representative_photos(tmp_path):
    drawn = representative([], 32)
    assert drawn.shape == (50, 32, 32, 3)
    assert 0 <= drawn.min() < drawn.max() <= 255
    from tests.serving.photos import draw, encode

    (tmp_path / "a.jpg").write_bytes(encode(draw(20, 30, 1)))
    (tmp_path / "notes.txt").write_text("no photo")
    assert representative(read_photos(tmp_path), 16).shape == (1, 16, 16, 3)
    assert [path.name for path in documents(False)][:1] == ["LICENSE"]
