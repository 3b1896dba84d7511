import json

import pytest

from keras_imagesent.evaluation.tables import Table, put_beside
from keras_imagesent.evaluation.things import count_named, thing_words, things_in, things_shown, things_table


def test_every_word_of_every_thing_is_one_token():
    from keras_imagesent.data.tokenizer import tokenize

    assert len(thing_words()) >= 60
    for words in thing_words().values():
        assert all(tokenize(word) == [word] for word in words)


def test_a_synonym_names_the_thing_and_a_part_of_a_word_does_not():
    assert things_in("A KITTEN sleeps.") == {"cat"}
    assert things_in("a catalog of businesses") == set()


def test_a_thing_is_shown_when_three_people_name_it_once_or_twice_each():
    assert things_shown(["a cat and a cat", "cats", "a dog", "a dog", "dogs"]) == {"dog"}


def test_named_counts_only_photos_that_show_the_thing():
    references = [["a cat"] * 3, ["a dog"] * 3, ["a dog", "a dog", "a wolf"]]
    assert count_named(["a cat", "a cat", "a dog"], references) == {"cat": (1, 1), "dog": (1, 0)}


def test_table_leaves_out_rare_things_and_weighs_by_photos():
    references = [["a cat"] * 3] * 30 + [["a dog"] * 3] * 10 + [["a bus"] * 3] * 9
    captions = ["a cat"] * 40 + ["a bus"] * 9
    rows = things_table({"a": captions, "b": ["a dog"] * 49}, references, "dev").rows
    assert rows[0] == ["all of them", 40, pytest.approx(75.0), pytest.approx(25.0)]
    assert [row[0] for row in rows[1:]] == ["cat", "dog"]
    assert rows[1][2:] == [100.0, 0.0]


def test_another_evaluation_of_the_same_photos_stands_beside():
    captions, references = ["a cat"] * 12, [["a cat", "the cat", "my cat"]] * 12
    table = things_table({"new": captions}, references, "dev")
    before = things_table({"old": ["a dog"] * 12}, references, "dev")
    retrieval = Table("retrieval", "Retrieval", ["model", "R@1"], [["new", 1.0]])
    others = [json.loads(before.to_json()), {"name": "retrieval", "columns": ["model", "R@1"], "rows": [["old", 0.5]]}]
    for each in (table, retrieval):
        put_beside(each, "before", others)
    assert table.columns == ["thing", "photos", "new, %", "before: photos", "before: old, %"]
    assert table.rows == [["all of them", 12, 100.0, 12, 0.0], ["cat", 12, 100.0, 12, 0.0]]
    assert retrieval.rows == [["new", 1.0]]
