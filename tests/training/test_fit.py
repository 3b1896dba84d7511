"""One training loop: what it writes, what it keeps, when it stops, and that a continued run is the unbroken one."""

import csv
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.errors import InputError
from keras_imagesent.training.fit import fit_run
from keras_imagesent.training.optimizers import build_optimizer

STEPS = 6


def small_model(learning_rate=0.05):
    keras.utils.set_random_seed(1)
    layers = [
        keras.Input((4,)),
        keras.layers.Dense(8, "relu"),
        keras.layers.Dropout(0.5, seed=3),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential(layers)
    model.compile(optimizer=build_optimizer("adam", learning_rate, weight_decay=1e-3), loss="mse")
    return model


def batches(epoch, start_step):
    rng = np.random.default_rng(epoch)
    x = rng.normal(size=(STEPS * 5, 4)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).batch(5).skip(start_step)


def rows_of(folder):
    with open(folder / "log.csv") as file:
        return [{k: float(v) for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def run(folder, model=None, validate=None, batches=batches, monitor="size", **options):
    validate = validate or (lambda model: {"size": float(np.abs(model.get_weights()[0]).sum())})
    options = {"epochs": 4, "patience": None, "progress_bar": False, **options}
    return fit_run(model or small_model(), batches, STEPS, validate, folder, monitor, **options)


class Killed(Exception):
    pass


def dies_after(step):
    def interrupted(epoch, start_step):
        def rows():
            for number, batch in enumerate(batches(epoch, start_step)):
                if epoch == 2 and start_step + number == step:
                    raise Killed
                yield batch

        signature = batches(0, 0).element_spec
        return tf.data.Dataset.from_generator(rows, output_signature=signature)

    return interrupted


@pytest.mark.parametrize("step", [0, 4])
def test_a_continued_run_is_the_unbroken_one(tmp_path, step):
    whole = run(tmp_path / "whole")
    with pytest.raises(Exception, match="Killed"):
        run(tmp_path / "broken", batches=dies_after(step), save_minutes=0)
    assert len(rows_of(tmp_path / "broken")) == 2
    run(tmp_path / "broken")
    assert rows_of(tmp_path / "broken") == rows_of(tmp_path / "whole")
    assert [row["loss"] for row in whole] == [row["loss"] for row in rows_of(tmp_path / "whole")]
    one, other = (keras.models.load_model(tmp_path / name / "model.keras") for name in ("whole", "broken"))
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def scripted(values):
    values = iter(values)
    return lambda model: {"recall": next(values)}


def test_keeps_the_best_epochs_and_stops_early(tmp_path):
    rows = run(tmp_path, validate=scripted([1, 3, 2, 2.5, 0, 9]), monitor="recall", epochs=6, patience=3, keep=2)
    assert [row["recall"] for row in rows] == [1, 3, 2, 2.5, 0]  # epoch 2 was best; three worse ones end it
    scores = json.loads((tmp_path / "best" / "scores.json").read_text())["best"]
    assert [(entry["epoch"], entry["score"]) for entry in scores] == [(2, 3), (4, 2.5)]
    assert sorted(path.name for path in (tmp_path / "best").glob("*.keras")) == ["epoch-002.keras", "epoch-004.keras"]
    assert (tmp_path / "model.keras").read_bytes() == (tmp_path / "best" / "epoch-002.keras").read_bytes()
    assert list((tmp_path / "tensorboard").glob("events*"))
    assert run(tmp_path, validate=scripted([]), monitor="recall", epochs=6, patience=3) == rows  # nothing left to do


def test_mode_min_keeps_the_smallest(tmp_path):
    run(tmp_path, validate=scripted([4, 2, 3]), monitor="recall", mode="min", epochs=3, keep=1)
    assert [path.name for path in (tmp_path / "best").glob("*.keras")] == ["epoch-002.keras"]


def test_saved_models_carry_no_optimizer(tmp_path):
    run(tmp_path, epochs=1)
    assert not hasattr(keras.models.load_model(tmp_path / "model.keras"), "optimizer")


def test_stops_at_nan_with_advice(tmp_path):
    model = small_model()
    model.layers[-1].kernel.assign(np.full((8, 1), np.nan))
    with pytest.raises(InputError, match=r"loss became nan at epoch 1, step 1.*smaller learning rate"):
        run(tmp_path, model)


def test_refuses_a_folder_of_other_settings(tmp_path):
    run(tmp_path, epochs=1, settings={"units": 8, "epochs": 1})
    run(tmp_path, epochs=2, settings={"units": 8, "epochs": 2})
    with pytest.raises(InputError, match="units was 8 and is 16"):
        run(tmp_path, epochs=2, settings={"units": 16, "epochs": 2})


def test_goes_on_from_another_working_folder(tmp_path):
    """Paths are seen from where a person stands; the vectors' own name must stay."""
    made = {"data": "d1", "pairs": None}
    run(tmp_path, epochs=1, settings={**made, "prepared": "prepared"})
    run(tmp_path, epochs=1, settings={**made, "prepared": "mine/prepared", "extractor": "e1"})  # noted from now on
    run(tmp_path, epochs=1, settings={**made, "prepared": "/home/me/mine/prepared", "extractor": "e1"})
    for changed in ({"prepared": "other"}, {"data": "d2"}, {"extractor": "e2"}, {"pairs": "pairs.jsonl"}):
        with pytest.raises(InputError, match=next(iter(changed))):
            run(tmp_path, epochs=1, settings={**made, "prepared": "prepared", "extractor": "e1", **changed})


def test_a_second_training_in_the_folder_is_refused(tmp_path):
    def validate(model):
        with pytest.raises(InputError, match="run: another training is writing there"):
            run(tmp_path / "run")
        return {"size": 1.0}

    assert len(run(tmp_path / "run", validate=validate, epochs=1)) == 1


def test_what_a_killed_training_left_goes_with_the_next(tmp_path):
    run(tmp_path / "run", epochs=1)
    for name in (".unfinished-log.csv", "state/.unfinished-state.npz", "best/.unfinished-epoch-001.keras"):
        (tmp_path / "run" / name).write_text("half")
    run(tmp_path / "run", epochs=2)
    assert not list((tmp_path / "run").rglob(".unfinished-*"))


@pytest.mark.parametrize("file", ["settings.json", "state/state.npz"])
def test_a_damaged_run_is_named(tmp_path, file):
    run(tmp_path / "run", epochs=1)
    content = (tmp_path / "run" / file).read_bytes()
    (tmp_path / "run" / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=f"{file} is damaged"):
        run(tmp_path / "run", epochs=2)
