"""`imagesent export` and `imagesent serve` as a person types them, and what a person gets wrong."""

import socket

import pytest

from keras_imagesent.cli.export import read_photos
from keras_imagesent.cli.main import main
from keras_imagesent.serving.export import documents, representative


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


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The flags that name tiny models on disk."""
    from tests.serving.tiny import tiny_photo_model

    folder = tmp_path_factory.mktemp("models")
    model = tiny_photo_model()
    model.backbone.save(folder / "backbone.keras")
    model.extractor.get_layer("tiny_detector").save(folder / "detector.keras")
    flags = ["--backbone", f"{folder}/backbone.keras", "--detector", f"{folder}/detector.keras"]
    for name in ("alignment", "captioner", "region_captioner"):
        (folder / name).mkdir()
        getattr(model, name).model.save(folder / name / "model.keras")
        getattr(model, name).vocabulary.save(folder / name / "vocabulary.json")
        flags += [f"--{name.replace('_', '-')}", f"{folder}/{name}"]
    return flags


def test_an_export_says_what_it_wrote_and_answers(tiny, tmp_path, capsys):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the tokenizer's operations

    from tests.serving.photos import draw, encode

    (tmp_path / "card.md").write_text("what it is good for")
    out = tmp_path / "exported" / "imagesent"
    assert main(["export", str(out), *tiny, "--captions", "2", "--card", str(tmp_path / "card.md")]) == 0
    assert capsys.readouterr().out.startswith(f"{out / '1'}  ")
    assert {"card.md", "LICENSE", "NOTICE"} <= {path.name for path in (out / "1" / "assets.extra").iterdir()}
    signatures = tf.saved_model.load(str(out / "1")).signatures
    assert set(signatures) >= {"serving_default", "describe", "align", "embed_image", "embed_sentence"}
    said = signatures["serving_default"](image_bytes=tf.constant([encode(draw(90, 60, 1))]))
    assert said["captions"].shape == (1, 2) and said["status"].numpy().tolist() == [b"ok"]


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
