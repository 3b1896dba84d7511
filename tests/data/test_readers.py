"""Every form of a data set on a real sample, and what can be wrong with its sentences."""

import pytest

from keras_imagesent.data.dataset import read_dataset
from keras_imagesent.data.dataset_check import check_dataset
from keras_imagesent.data.entries import Problem
from keras_imagesent.errors import InputError
from tests.conftest import SHARED, needs_shared
from tests.data.small_sets import CHILD, TOKENS, karpathy, make_photo, read, write

# The first two photos of dataset_coco.json, word for word; the first is in captions_val2014.json as well.
MOPED = [
    "A man with a red helmet on a small moped on a dirt road. ",
    "Man riding a motor bike on a dirt road on the countryside.",
    "A man riding on the back of a motorcycle.",
    "A dirt path with a young person on a motor bike rests to the foreground of a verdant area with a bridge and a "
    "background of cloud-wreathed mountains. ",
    "A man in a red shirt and a red hat is on a motorcycle on a hill side.",
]
CAKE = [
    "A woman wearing a net on her head cutting a cake. ",
    "A woman cutting a large white sheet cake.",
    "A woman wearing a hair net cutting a large sheet cake.",
    "there is a woman that is cutting a white cake",
    "A woman marking a cake with the back of a chef's knife. ",
]
# The beginning of Flickr30k's results_20130124.token.
GUYS = [
    "Two young guys with shaggy hair look at their hands while hanging out in the yard .",
    "Two young , White males are outside near many bushes .",
]
PULLEY = ["Several men in hard hats are operating a giant pulley system ."]


# ---- the forms


@needs_shared
def test_karpathy_json_of_flickr8k():
    dataset = read_dataset(SHARED / "flickr8k/dataset.json", SHARED / "flickr8k/images")
    assert dataset.splits == {"train": 6000, "val": 1000}
    assert sum(len(photo.captions) for photo in dataset.photos) == 35_000
    assert dataset.problems == []
    assert dataset.photos[0].captions[0] == "A black dog is running after a white dog in the snow ."
    assert dataset.photos[0].path.is_file()
    assert [photo.photo_id for photo in dataset.photos] == list(range(7000))


@needs_shared
def test_flickr_token_file_says_the_same_as_karpathy_json():
    token = read_dataset(SHARED / "flickr8k/Flickr8k.token.txt", SHARED / "flickr8k/images")
    karpathys = read_dataset(SHARED / "flickr8k/dataset.json", SHARED / "flickr8k/images")
    names = {"dev": "val", "train": "train"}
    assert token.splits == {"train": 6000, "dev": 1000}
    assert {photo.filename: (names[photo.split], sorted(photo.captions)) for photo in token.photos} == {
        photo.filename: (photo.split, sorted(photo.captions)) for photo in karpathys.photos
    }


def test_karpathy_json_of_coco(folder):
    image = {
        "filepath": "val2014",
        "sentids": [770337, 771687, 772707, 776154, 781998],
        "filename": "COCO_val2014_000000391895.jpg",
        "imgid": 0,
        "split": "test",
        "sentences": [{"tokens": [], "raw": raw, "imgid": 0, "sentid": 770337 + n} for n, raw in enumerate(MOPED)],
        "cocoid": 391895,
    }
    sentences = [{"tokens": [], "raw": raw, "imgid": 1, "sentid": n} for n, raw in enumerate(CAKE)]
    rest = image | {"filename": "COCO_val2014_000000522418.jpg", "split": "restval", "sentences": sentences}
    make_photo(folder / "images" / "val2014" / image["filename"])
    dataset = read(folder, {"images": [image, rest], "dataset": "coco"}, "dataset_coco.json")
    assert dataset.splits == {"test": 1, "train": 1}  # restval trains
    photo = dataset.photos[0]
    assert photo.path == folder / "images/val2014" / image["filename"]
    assert photo.captions == [caption.strip() for caption in MOPED]
    assert dataset.photos[1].captions == [caption.strip() for caption in CAKE]
    assert dataset.photos[1].path == folder / "images" / rest["filename"]  # not below val2014/: straight in the folder


def test_coco_captions_json(folder, capsys):
    content = {
        "info": {"description": "COCO 2014 Dataset", "version": "1.0", "year": 2014},
        "licenses": [{"id": 3, "name": "Attribution-NonCommercial-NoDerivs License"}],
        "images": [
            {
                "license": 3,
                "file_name": "COCO_val2014_000000391895.jpg",
                "coco_url": "http://images.cocodataset.org/val2014/COCO_val2014_000000391895.jpg",
                "height": 360,
                "width": 640,
                "date_captured": "2013-11-14 11:18:45",
                "flickr_url": "http://farm9.staticflickr.com/8186/8119368305_4e622c8349_z.jpg",
                "id": 391895,
            }
        ],
        "annotations": [
            {"image_id": 391895, "id": 770337, "caption": MOPED[0]},
            {"image_id": 203564, "id": 37, "caption": "A bicycle replica with a clock as the front wheel."},
            {"image_id": 391895, "id": 771687, "caption": MOPED[1]},
        ],
    }
    dataset = read(folder, content, "captions_val2014.json")
    assert [(photo.split, photo.captions) for photo in dataset.photos] == [("val", [MOPED[0].strip(), MOPED[1]])]
    assert dataset.problems == [Problem("captions_val2014.json caption 37", "its photo is not in the file")]
    assert capsys.readouterr().out == ""  # pycocotools talks


def test_coco_has_a_file_for_each_split(folder):
    files = []
    for split, name in [("train", "a.jpg"), ("val", "b.jpg")]:
        content = {
            "images": [{"id": 1, "file_name": name}],
            "annotations": [{"id": 1, "image_id": 1, "caption": "One."}],
        }
        files.append(write(folder / f"captions_{split}2017.json", content))
    dataset = read_dataset(files, folder / "images")
    assert [(photo.filename, photo.split, photo.photo_id) for photo in dataset.photos] == [
        ("a.jpg", "train", 0),
        ("b.jpg", "val", 1),
    ]


def test_token_file_with_the_lists_beside_it(folder):
    write(folder / "Flickr_8k.trainImages.txt", "a.jpg\r\n")
    write(folder / "Flickr_8k.devImages.txt", "b.jpg\n\n")
    dataset = read(folder, TOKENS, "Flickr8k.token.txt")
    assert [(photo.filename, photo.split, photo.captions) for photo in dataset.photos] == [
        ("a.jpg", "train", CHILD),
        ("b.jpg", "dev", ["A dog ."]),
    ]
    assert dataset.problems == []  # z.jpg is in no list: in no split


def test_token_file_of_flickr30k_with_the_lists_of_flickr30k_entities(folder):
    write(folder / "train.txt", "10002456\n")
    write(folder / "test.txt", "1000092795\n")
    lines = [f"1000092795.jpg#{n}\t{caption}" for n, caption in enumerate(GUYS)]
    dataset = read(folder, "\n".join([*lines, f"10002456.jpg#0\t{PULLEY[0]}"]), "results_20130124.token")
    assert [(photo.filename, photo.split, photo.captions) for photo in dataset.photos] == [
        ("10002456.jpg", "train", PULLEY),
        ("1000092795.jpg", "test", GUYS),
    ]
    assert dataset.problems == []


def test_token_file_with_named_lists_without_endings(folder):
    lists = {
        "train": write(folder / "x", "a\n"),
        "test": write(folder / "y", "b\nc\n"),
    }  # as Flickr30k Entities has them
    dataset = read(folder, TOKENS, split_files=lists)
    assert [(photo.filename, photo.split) for photo in dataset.photos] == [("a.jpg", "train"), ("b.jpg", "test")]
    assert dataset.problems == [Problem("c", "has no caption")]


@pytest.mark.parametrize(
    "text",
    [
        'filename,caption,split\na.jpg,"One, two.",train\nb.jpg,Three.,test\na.jpg,Four.,train\n',
        '\ufeffFilename;Caption;Split\r\na.jpg;"One, two.";train\r\nb.jpg;Three.;test\r\na.jpg;Four.;\r\n',
        "filename\tcaption\tsplit\na.jpg\tOne, two.\t\nb.jpg\tThree.\ttest\na.jpg\tFour.\ttrain\n",
        '{"filename": "a.jpg", "caption": "One, two."}\n{"filename": "b.jpg", "caption": "Three.", "split": "test"}\n'
        '{"filename": "a.jpg", "caption": "Four.", "split": "train"}\n',
        '{"filename": "a.jpg", "caption": ["One, two.", "Four."]}\n\n'
        '{"filename": "b.jpg", "split": "test", "caption": "Three."}',
    ],
)
def test_a_table_of_ones_own(folder, text):
    dataset = read(folder, text)
    assert [(photo.filename, photo.split, photo.captions) for photo in dataset.photos] == [
        ("a.jpg", "train", ["One, two.", "Four."]),
        ("b.jpg", "test", ["Three."]),
    ]
    assert dataset.problems == []


def test_kaggles_table_and_no_split_at_all(folder):
    assert read(folder, "image,caption\na.jpg,A dog.\n").splits == {"train": 1}


def test_one_line_of_json_lines(folder):
    assert read(folder, '{"filename": "a.jpg", "caption": "A dog."}').photos[0].captions == ["A dog."]


def test_any_number_of_captions(folder):
    dataset = read(
        folder, karpathy(("a.jpg", "train", ["One."]), ("b.jpg", "train", [f"Number {n}." for n in range(9)]))
    )
    assert [len(photo.captions) for photo in dataset.photos] == [1, 9]


# ---- what is wrong with the sentences


def test_captions_that_cannot_be_used_are_set_aside(folder):
    rows = [
        b"filename,caption",
        b"a.jpg,A dog.",
        b"a.jpg,caf\xe9",
        b"a.jpg, ... ",
        b"b.jpg,",
        b"c.jpg",
        b",Lost.",
        b"d.png,A,B",
    ]
    dataset = read(folder, b"\n".join(rows), "mine.csv")
    assert [(photo.filename, photo.captions) for photo in dataset.photos] == [("a.jpg", ["A dog."])]
    assert sorted(dataset.problems, key=lambda problem: problem.item) == [
        Problem("a.jpg caption 1", "not UTF-8 text"),
        Problem("a.jpg caption 2", "has no words"),
        Problem("b.jpg", "has no caption"),
        Problem("b.jpg caption 0", "has no words"),
        Problem("mine.csv line 6", "has no caption"),
        Problem("mine.csv line 7", "has no filename"),
        Problem("mine.csv line 8", 'more cells than the first line: put captions with commas in "quotes"'),
    ]


def test_lines_of_json_that_cannot_be_used_are_set_aside(folder):
    lines = [
        '{"filename": "a.jpg", "caption": "A dog."}',
        '{"filename": 3, "caption": "x"}',
        "[]",
        '{"filename": "b.jpg"}',
        "{",
    ]
    dataset = read(folder, "\n".join(lines), "mine.jsonl")
    assert [photo.filename for photo in dataset.photos] == ["a.jpg"]
    assert [problem.item for problem in dataset.problems] == [f"mine.jsonl line {number}" for number in (2, 3, 4, 5)]


def test_a_quotation_mark_too_few_never_swallows_the_lines_behind_it(folder):
    text = 'filename,caption\na.jpg,"Stop" sign.\nb.jpg,A dog.\n"c.jpg","A ""cat"",\nasleep."\n'
    dataset = read(folder, text, "mine.csv")
    assert [(photo.filename, photo.captions) for photo in dataset.photos] == [
        ("b.jpg", ["A dog."]),
        ("c.jpg", ['A "cat", asleep.']),
    ]
    assert dataset.problems == [Problem("mine.csv line 2", "not CSV: ',' expected after '\"'")]
    for rest in ("b.jpg,A dog.\nc.jpg,A cat.\n", 'b.jpg,A dog.\nc.jpg,"A cat, asleep."\n', "b.jpg,A dog.\n" * 20_000):
        with pytest.raises(InputError, match=r"mine.csv: a quotation mark in line 2 is not closed"):
            read(folder, f'filename,caption\na.jpg,"A dog.\n{rest}', "mine.csv")


def test_photo_numbers_do_not_change_when_something_is_set_aside(folder):
    dataset = read(folder, karpathy(("a.jpg", "train", []), ("b.jpg", "train", ["A dog."])))
    assert [(photo.filename, photo.photo_id) for photo in dataset.photos] == [("b.jpg", 1)]
    assert dataset.problems == [Problem("a.jpg", "has no caption")]


@pytest.mark.parametrize("name", ["../a.jpg", "/etc/passwd", "x/../../a.jpg", ""])
def test_a_name_that_leads_elsewhere_is_set_aside(folder, name):
    dataset = read(folder, karpathy((name, "train", ["A dog."]), ("b.jpg", "train", ["A dog."])))
    assert dataset.problems == [Problem(name, "its file name leads out of the photos' folder")]


def test_a_name_that_no_file_can_have_is_set_aside(folder):
    images = karpathy(("a\0.jpg", "train", ["A dog."]), (9000 * "b", "train", ["A dog."]), ("c.jpg", "train", ["A."]))
    for image in images["images"]:
        image["filepath"] = "val2014"
    checked = check_dataset(read(folder, images), max_broken=0.9)
    assert [photo.filename for photo in checked.photos] == ["c.jpg"]
    assert [problem.reason for problem in checked.problems] == [
        "its file name is not UTF-8 text",
        "cannot be read: File name too long",
    ]


@pytest.mark.parametrize("split", ["../../elsewhere", "a/b", "", ".", "two words", "caf\udce9"])
def test_a_split_that_is_no_plain_name_is_set_aside(folder, split):
    dataset = read(folder, karpathy(("a.jpg", split, ["A dog."]), ("b.jpg", "Prüfung-2_a", ["A dog."])))
    assert dataset.splits == {"Prüfung-2_a": 1}
    assert dataset.problems == [
        Problem("a.jpg", f"its split {split!a} is not a plain name of letters, digits, _ and -")
    ]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", r"data is empty"),
        (" \n ", r"data is empty"),
        ("{", r"data is not valid JSON: .* \(line 1, column 2\)"),
        ('{"images": [], "dataset": "x"}', "no list of images"),
        ("[1, 2]", "no list of images"),
        ("[" * 100_000, "nested too deeply|not valid JSON"),
        ("[" + 5000 * "1" + "]", "not a data set: Exceeds the limit"),
        ({"images": [{"id": 1, "file_name": 7}], "annotations": []}, "not COCO captions JSON"),
        ({"images": [{"id": 1, "file_name": ["a.jpg"]}], "annotations": []}, "not COCO captions JSON"),
        ({"images": [{"filename": "a.jpg"}]}, r"image number 0 \(from 0\) is not as in Karpathy's files"),
        ({"images": [{"filename": 7, "split": "train", "sentences": []}]}, "image number 0"),
        ({"images": [{"id": 1}], "annotations": []}, "not COCO captions JSON"),
        (
            {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"id": 1, "image_id": 1, "bbox": []}]},
            "captions_",
        ),
        ("a.jpg A dog.\n", r"no data set I know: its first line is 'a.jpg A dog.'"),
        ("name,text\na.jpg,A dog.\n", r"first line is 'name,text'; give Karpathy or COCO JSON"),
        ("filename,caption\n", "no photo with a caption in it"),
        ("filename,caption\na.jpg,...\n", r"no photo with a caption in it \(a.jpg caption 0: has no words\)"),
        ("\ufefffilename".encode("utf-16-le"), "UTF-16 text: save it as UTF-8"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is no text"),
        ("a.jpg#0\tA dog.\n", r"no lists of the splits' photos beside .*--split-files "),
    ],
)
def test_a_file_that_is_no_data_set(folder, content, complaint):
    with pytest.raises(InputError, match=complaint) as error:
        read(folder, content)
    assert len(str(error.value)) < 400 and "\n" not in str(error.value)


def test_a_file_named_twice(folder):
    data = write(folder / "data", karpathy(("a.jpg", "train", ["A dog."])))
    with pytest.raises(InputError, match="a file is named twice: its captions would count twice"):
        read_dataset([data, folder / "images" / ".." / "data"], folder / "images")


def test_things_that_are_not_there(folder):
    with pytest.raises(InputError, match="no file .*nowhere.json: check the path"):
        read_dataset(folder / "nowhere.json", folder / "images")
    with pytest.raises(InputError, match="is a folder: name the file in it"):
        read_dataset(folder, folder / "images")
    with pytest.raises(InputError, match="no folder .*nowhere: give the folder that holds the photos"):
        read_dataset(write(folder / "data", TOKENS), folder / "nowhere")
    with pytest.raises(InputError, match="no file .*nowhere.txt"):
        read(folder, TOKENS, split_files={"train": folder / "nowhere.txt"})


def test_an_empty_or_a_wrong_list_of_a_split(folder):
    with pytest.raises(InputError, match="dev.txt is empty"):
        read(folder, TOKENS, split_files={"dev": write(folder / "dev.txt", "")})
    with pytest.raises(InputError, match="none of its photos has a caption in data"):
        read(folder, TOKENS, split_files={"dev": write(folder / "dev.txt", "q.jpg\n")})


def test_lists_say_their_split_by_their_name(folder):
    lists = [write(folder / "mytrain.txt", "a.jpg\n"), write(folder / "Val_list", "b.jpg\n")]
    assert read(folder, TOKENS, split_files=lists).splits == {"train": 1, "val": 1}
    for names in (["x.txt"], ["train_dev.txt"], ["train1.txt", "train2.txt"]):
        with pytest.raises(InputError, match="must say train, dev, val or test, each once"):
            read(folder, TOKENS, split_files=[write(folder / name, "a.jpg\n") for name in names])


def test_split_lists_where_they_have_no_place(folder):
    with pytest.raises(InputError, match="names its splits itself"):
        read(folder, karpathy(("a.jpg", "train", ["A dog."])), split_files={"train": folder / "x"})
