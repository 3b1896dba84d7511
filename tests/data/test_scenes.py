"""The generated scenes: deterministic, true, and as hard as they claim."""

import csv
import json
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from keras_imagesent.data.dataset import read_dataset
from keras_imagesent.data.dataset_check import check_dataset
from keras_imagesent.data.scene_pictures import COLOURS, GROUNDS, SHAPES, draw_scene
from keras_imagesent.data.scene_sentences import COLOUR_WORDS, GROUND_WORDS, RARE
from keras_imagesent.data.scenes import caption_is_true, invent_scenes, make_scenes, phrase_boxes, read_scenes
from keras_imagesent.data.tokenizer import tokenize
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError

SCENE = {
    "ground": "sand",
    "objects": [
        {"shape": "ball", "colour": "red", "size": "big"},
        {"shape": "cone", "colour": "purple", "size": "small"},
        {"shape": "cone", "colour": "blue", "size": "small"},
    ],
}


@pytest.fixture(scope="module")
def scenes():
    return invent_scenes(600)


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_seed_gives_the_same_bytes(tmp_path):
    make_scenes(tmp_path / "one", 5, seed=3)
    make_scenes(tmp_path / "two", 5, seed=3)
    make_scenes(tmp_path / "three", 5, seed=4)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert files_of(tmp_path / "one") != files_of(tmp_path / "three")


def test_more_scenes_begin_with_the_same_photos():
    shares = {"train": 1.0}
    few, many = invent_scenes(10, shares=shares), invent_scenes(30, shares=shares)
    assert few == many[:10]


def test_the_files_are_a_whole_data_set(tmp_path):
    make_scenes(tmp_path / "scenes", 10)
    dataset = check_dataset(read_dataset(tmp_path / "scenes/dataset.json", tmp_path / "scenes/images"), max_broken=0)
    assert dataset.splits == {"train": 8, "val": 2}
    scenes = read_scenes(tmp_path / "scenes")
    for photo in dataset.photos:
        assert [caption["text"] for caption in scenes[photo.filename]["captions"]] == photo.captions
        with Image.open(photo.path) as image:
            assert image.size == (scenes[photo.filename]["width"], scenes[photo.filename]["height"])
    with (tmp_path / "scenes/boxes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(scene["objects"]) for scene in scenes.values())
    assert {path.name for path in (tmp_path / "scenes").iterdir()} == {
        "images",
        "dataset.json",
        "scenes.json",
        "phrase_boxes.csv",
        "boxes.csv",
    }


def test_phrase_boxes_csv_names_phrases_of_the_captions(tmp_path):
    make_scenes(tmp_path / "scenes", 10)
    scenes = read_scenes(tmp_path / "scenes")
    with (tmp_path / "scenes/phrase_boxes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["filename", "phrase", "x0", "y0", "x1", "y1"]
    for row in rows:
        sentences = [f" {' '.join(tokenize(caption['text']))} " for caption in scenes[row["filename"]]["captions"]]
        assert any(f" {row['phrase']} " in sentence for sentence in sentences)
        assert [float(row[edge]) for edge in ("x0", "y0", "x1", "y1")] in [
            thing["box"] for thing in scenes[row["filename"]]["objects"]
        ]


def test_every_phrase_lies_on_the_only_object_it_can_mean(scenes):
    checked = 0
    for scene in scenes:
        for caption in scene["captions"]:
            words = tokenize(caption["text"])
            for phrase, (start, end, box) in zip(caption["phrases"], phrase_boxes(scene, caption), strict=True):
                thing = scene["objects"][phrase["object"]]
                assert box == thing["box"]
                said = "a " + " ".join(words[start:end])
                assert caption_is_true(said, scene)
                others = [other for other in scene["objects"] if other is not thing]
                assert not caption_is_true(said, {**scene, "objects": others})
                checked += 1
    assert checked > 3000


def test_every_sentence_is_true_of_its_scene_and_of_few_others(scenes):
    some = scenes[:200]
    captions = [(number, caption["text"]) for number, scene in enumerate(some) for caption in scene["captions"]]
    true = np.array([[caption_is_true(text, scene) for _, text in captions] for scene in some])
    own = np.array([[number == place for number, _ in captions] for place in range(len(some))])
    assert true[own].all()
    # who knows everything and guesses among what fits has this recall at 1: searching scenes, and annotating them
    assert np.mean(1 / true.sum(axis=0)) > 0.9
    assert np.mean(own.sum(axis=1) / true.sum(axis=1)) > 0.75


def test_plain_sentences_name_only_shapes_and_ground_and_the_others_every_colour(scenes):
    captions = [(scene, caption) for scene in scenes for caption in scene["captions"]]
    plain = 0
    for scene, caption in captions:
        words = set(tokenize(caption["text"]))
        things = [scene["objects"][phrase["object"]] for phrase in caption["phrases"]]
        coloured = all(words & set(COLOUR_WORDS[thing["colour"]]) for thing in things)
        if not coloured:
            plain += 1
            assert not scene["told_apart"] and words & set(GROUND_WORDS[scene["ground"]])
            assert len(things) == 1
    assert 0.05 < plain / len(captions) < 0.15


def test_scenes_have_what_makes_them_hard(scenes):
    objects = [thing for scene in scenes for thing in scene["objects"]]
    assert {thing["shape"] for thing in objects} == set(SHAPES)
    assert {thing["colour"] for thing in objects} == set(COLOURS)
    assert {scene["ground"] for scene in scenes} == set(GROUNDS)
    assert {len(scene["objects"]) for scene in scenes} == {3, 4}
    assert {len(scene["captions"]) for scene in scenes} == {2, 3, 4, 5}
    for scene in scenes:
        mentioned = {phrase["object"] for caption in scene["captions"] for phrase in caption["phrases"]}
        assert mentioned <= set(range(scene["mentioned"])) and scene["mentioned"] < len(scene["objects"])
        kinds = [(thing["shape"], thing["colour"]) for thing in scene["objects"]]
        assert len(set(kinds)) == len(kinds)

    repeats = [number for number, scene in enumerate(scenes) if scene["repeats"]]
    assert 0.15 < len(repeats) / len(scenes) < 0.3
    for number in repeats:
        before, now = (Counter(thing["colour"] for thing in scenes[n]["objects"]) for n in (number - 1, number))
        assert before == now
        before, now = (Counter(thing["shape"] for thing in scenes[n]["objects"]) for n in (number - 1, number))
        assert before == now
        before, now = ({(t["shape"], t["colour"]) for t in scenes[n]["objects"]} for n in (number - 1, number))
        assert before != now


def test_rare_words_stay_out_of_the_vocabulary_and_synonyms_are_in_it(scenes):
    captions = [caption["text"] for scene in scenes if scene["split"] == "train" for caption in scene["captions"]]
    words = set(Vocabulary.from_captions(captions).words)
    said = Counter(word for caption in captions for word in tokenize(caption))
    assert sum(said[word] > 0 for word in RARE) >= 15
    assert not words & set(RARE)
    assert {"ball", "sphere", "box", "square", "purple", "violet", "big", "large", "ring", "hoop"} <= words


def test_boxes_hold_the_objects_and_do_not_touch():
    rng = np.random.default_rng(0)
    for scene in invent_scenes(20):
        photo = np.asarray(draw_scene(scene, rng), np.int32)
        inside = np.zeros(photo.shape[:2], bool)
        for thing in scene["objects"]:
            sides = (scene["width"], scene["height"]) * 2
            x0, y0, x1, y1 = (round(edge * side) for edge, side in zip(thing["box"], sides, strict=True))
            assert 0 <= x0 < x1 <= scene["width"] and 0 <= y0 < y1 <= scene["height"]
            assert not inside[y0:y1, x0:x1].any()
            inside[y0:y1, x0:x1] = True
            body = photo[y0:y1, x0:x1].reshape(-1, 3)
            near = np.abs(body - np.array(COLOURS[thing["colour"]])).max(axis=1) < 90
            assert near.mean() > 0.25  # the thinnest shape, the moon, fills a third of its box


def test_captions_judged():
    true = [
        "A red ball.",
        "a big red sphere on the sand",
        "there is a violet triangle and a red ball",
        "a cone a cone and a ball",
        "a blue cone next to a purple cone on the sand",
        "a shiny red ball",
    ]
    false = [
        "a blue ball",  # no such object
        "a small red ball",  # wrong size
        "a red ball on the grass",  # wrong ground
        "a red ball and a red ball",  # there is only one
        "a cone a cone and a cone",
        "a red and a ball",  # not a sentence
        "a red ball next to",
        "on the sand",
        "a purple dog",
        "",
    ]
    assert [caption for caption in true if not caption_is_true(caption, SCENE)] == []
    assert [caption for caption in false if caption_is_true(caption, SCENE)] == []


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(InputError, match="is there already: name a new folder"):
        make_scenes(tmp_path, 5)
    with pytest.raises(InputError, match="is there already"):
        make_scenes(tmp_path / "mine.txt", 5)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_too_few_scenes(tmp_path):
    with pytest.raises(InputError, match="1 scenes are too few: each of the splits train, val needs one"):
        make_scenes(tmp_path / "scenes", 1)
    assert not (tmp_path / "scenes").exists()


def test_stopped_half_way_nothing_is_left(tmp_path):
    def progress(scenes):
        yield scenes[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_scenes(tmp_path / "scenes", 5, progress=progress)
    assert list(tmp_path.iterdir()) == []


def test_every_split_gets_its_share():
    splits = Counter(scene["split"] for scene in invent_scenes(50, shares={"train": 6, "val": 2, "test": 2}))
    assert splits == {"train": 30, "val": 10, "test": 10}
    assert {scene["split"] for scene in invent_scenes(2)} == {"train", "val"}
    assert Counter(scene["split"] for scene in invent_scenes(1200)) == {"train": 1000, "val": 200}


def test_a_folder_without_scenes(tmp_path):
    with pytest.raises(InputError, match=r"no .*scenes.json: name a folder that `imagesent scenes` made"):
        read_scenes(tmp_path)


def test_scenes_json_is_plain_json(tmp_path):
    make_scenes(tmp_path / "scenes", 2)
    assert json.loads((tmp_path / "scenes/scenes.json").read_text())["seed"] == 0
