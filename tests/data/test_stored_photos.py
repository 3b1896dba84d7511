"""Data sets that hold the photos themselves: tars as img2dataset writes them, and Parquet files."""

import io
import json
import tarfile

import pytest

from keras_imagesent.data.dataset import read_dataset
from keras_imagesent.data.dataset_check import check_dataset
from tests.regions.tiny_photos import write_photos


def write_tars(source, folder, number=2):
    """The same photos as img2dataset writes them, and its Parquet of what it did beside each tar."""
    folder.mkdir()
    images = json.loads((source / "dataset.json").read_text())["images"]
    for index in range(number):
        with tarfile.open(folder / f"{index:05d}.tar", "w") as tar:
            for image in images[index::number]:
                key = f"{index:05d}{image['imgid']:04d}"
                captions = "\n".join(sentence["raw"] for sentence in image["sentences"])
                about = {"key": key, "caption": captions, "split": image["split"], "status": "success"}
                contents = {
                    "png": (source / "images" / image["filename"]).read_bytes(),
                    "txt": captions.encode(),
                    "json": json.dumps(about).encode(),
                }
                for ending, content in contents.items():
                    member = tarfile.TarInfo(f"{key}.{ending}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        (folder / f"{index:05d}.parquet").write_bytes(b"img2dataset's own notes, without photos")
    return folder


def write_parquet(source, folder):
    """The same photos in one Parquet file of three row groups, as Hugging Face writes photos."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir()
    images = json.loads((source / "dataset.json").read_text())["images"]
    rows = [
        {
            "image": {"bytes": (source / "images" / image["filename"]).read_bytes(), "path": image["filename"]},
            "captions": [sentence["raw"] for sentence in image["sentences"]],
            "split": image["split"],
            "filename": image["filename"],
        }
        for image in images
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "photos.parquet", row_group_size=40)
    return folder


@pytest.mark.parametrize("write", [write_tars, write_parquet])
def test_tars_and_parquet_hold_the_photos_captions_and_splits_of_the_folder(tmp_path, write):
    source = write_photos(tmp_path / "photos", 30)
    folder = check_dataset(read_dataset(source / "dataset.json", source / "images"))
    packed = check_dataset(read_dataset(write(source, tmp_path / "packed")))
    by_content = {photo.path.read_bytes(): photo for photo in folder.photos}
    assert len(by_content) == len(packed.photos) == 30
    for photo in packed.photos:
        twin = by_content.pop(photo.path.read_bytes())
        assert (photo.captions, photo.split) == (twin.captions, twin.split)
