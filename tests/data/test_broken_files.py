"""Every file that a person gives, broken in many ways: it is read or refused in one line, and never takes long."""

import json
import time

import numpy as np
import pytest

from keras_imagesent.alignment.word_vectors import read_word_vectors
from keras_imagesent.data.box_table import check_box
from keras_imagesent.data.caption_pairs import read_pairs
from keras_imagesent.data.dataset import read_dataset
from keras_imagesent.data.scenes import read_scenes
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError
from keras_imagesent.evaluation.grounding import read_entities, read_phrase_boxes
from keras_imagesent.evaluation.region_snippets import read_region_snippets, regions_of_phrases
from keras_imagesent.regions.detectors.boxes_file import read_boxes
from tests.broken import TIMES, break_content

VOCABULARY = Vocabulary(["a", "dog"], [3, 2], 4)
SCENE = {"filename": "a.jpg", "split": "train", "captions": [{"text": "a red ball"}], "objects": []}
IMAGES = [
    {"filename": name, "split": split, "sentences": [{"raw": "A dog runs."}, {"raw": "Two dogs."}], "filepath": "x"}
    for name, split in (("a.jpg", "train"), ("b.jpg", "restval"), ("c.jpg", "test"))
]
COCO = {
    "images": [{"id": n, "file_name": f"{n}.jpg", "width": 640, "height": 480} for n in range(3)],
    "annotations": [
        {"id": n, "image_id": n % 3, "caption": "A dog.", "bbox": [10, 20, 100, 50], "score": 0.5} for n in range(4)
    ],
}
ENTITY = (
    "<annotation><filename>a.jpg</filename><size><width>500</width><height>300</height></size><object><name>7</name>"
    "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox></object></annotation>"
)
# name -> a good file, and what reads it (given the file's path)
READERS = {
    "karpathy.json": (json.dumps({"images": IMAGES}), lambda path: read_dataset(path, path.parent)),
    "coco_val.json": (json.dumps(COCO), lambda path: read_dataset(path, path.parent)),
    "mine.csv": (
        'split,caption,filename\ntrain,"A dog, a cat",a.jpg\nval,A cat.,b.jpg\n',
        lambda path: read_dataset(path, path.parent),
    ),
    "mine.jsonl": (
        '{"filename": "a.jpg", "caption": ["A dog.", "B"]}\n{"filename": "b.jpg", "caption": "A", "split": "val"}\n',
        lambda path: read_dataset(path, path.parent),
    ),
    "token.txt": ("a.jpg#0\tA dog.\nb.jpg#0\tA cat.\n", lambda path: read_dataset(path, path.parent)),
    "train.txt": ("a.jpg\nb.jpg\n", lambda path: read_dataset(path.with_name("token.txt"), path.parent)),
    "boxes.json": (json.dumps(COCO), read_boxes),
    "boxes.csv": ("filename,x0,y0,x1,y1,score\na.jpg,0,0,0.5,0.5,0.9\nb.jpg,0.1,0.2,0.9,1,1\n", read_boxes),
    "phrases.csv": (
        'filename,phrase,x0,y0,x1,y1\na.jpg,"a dog, black",0,0,0.5,0.5\na.jpg,dog,0.1,0.2,0.9,1\n',
        lambda path: regions_of_phrases(read_phrase_boxes(path)),
    ),
    "snippets.csv": (
        "filename,annotator,snippet,x0,y0,x1,y1\na.jpg,1,a dog,0,0,0.5,0.5\na.jpg,2,dog,0,0,0.5,0.6\n",
        read_region_snippets,
    ),
    "entities/a.xml": (ENTITY, lambda path: read_entities(path.parent, path.parent)),
    "entities/a.txt": (
        "[/EN#7/animals A dog] runs to [/EN#8/people a man] .\n",
        lambda path: read_entities(path.parent, path.parent),
    ),
    "pairs.jsonl": ('{"filename": "a.jpg", "region": 3, "snippet": "a dog"}\n' * 3, lambda path: [*read_pairs(path)]),
    "vocabulary.json": ('{"sentences":4,"words":["a","dog"],"counts":[3,2]}', Vocabulary.load),
    "scenes.json": (json.dumps({"seed": 0, "scenes": [SCENE]}), lambda path: read_scenes(path.parent)),
    "vectors.txt": ("a 0.1 0.2\ndog 0.3 0.4\n", lambda path: read_word_vectors(path, VOCABULARY)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "entities").mkdir()
    for name, (text, _) in READERS.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("name", READERS)
def test_a_broken_file_is_read_or_refused_in_a_line(name, folder):
    text, read = READERS[name]
    path, rng = folder / name, np.random.default_rng(len(name))
    read(path)
    refused, slowest = 0, 0
    for turn in range(60 * TIMES):
        path.write_bytes(break_content(text.encode(), rng))
        started = time.process_time()
        try:
            read(path)
        except InputError as error:
            refused += 1
            assert str(error).strip(), f"turn {turn}"
        except Exception as error:
            raise AssertionError(f"turn {turn}: {path.read_bytes()[:300]}") from error
        slowest = max(slowest, time.process_time() - started)
    path.write_text(text)
    assert refused and slowest < 2


@pytest.mark.parametrize("corners", [["nan", 0, 1, 1], [0, 0, "inf", 1], [10, 10, 60, 80], [0.5, 0, 0.5, 1], [0, 0, 1]])
def test_a_box_that_is_none_is_refused(corners, tmp_path):
    with pytest.raises(InputError, match="here"):
        check_box([*corners, None][:4], "here")
    (tmp_path / "boxes.csv").write_text("filename,phrase,x0,y0,x1,y1\na.jpg,a dog," + ",".join(map(str, corners)))
    for read in (read_boxes, read_phrase_boxes):
        with pytest.raises(InputError, match="line 2"):
            read(tmp_path / "boxes.csv")


@pytest.mark.parametrize("text", ["[/EN#" + "7" * 40_000, "[/EN#7/x " * 8_000, "[/EN#7" * 8_000])
def test_a_long_line_of_phrases_is_read_at_once(text, folder):
    path = folder / "entities" / "a.txt"
    path.write_text(text)
    started = time.process_time()
    assert read_entities(path.parent, path.parent) == []
    path.write_text(READERS["entities/a.txt"][0])
    assert time.process_time() - started < 1
