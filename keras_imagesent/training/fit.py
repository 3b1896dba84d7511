"""The training loop of both trainers, with everything that a long run needs; on one device, several, or machines.

It is a loop of our own over `model.train_step`, since Keras's `fit` does not run on several machines.
"""

import csv
import io
import json
import math
import shutil
import time
from contextlib import nullcontext
from pathlib import Path

import tensorflow as tf
from tqdm import tqdm

from keras_imagesent.data.atomic import only_writer, remove_leftovers, whole_file, write_json, write_whole
from keras_imagesent.data.run_files import read_settings
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError
from keras_imagesent.model.run import BEST, LOG, MODEL, SCORES, SETTINGS, VOCABULARY
from keras_imagesent.training.state import read_progress, restore_state, write_state
from keras_imagesent.training.workers import Workers

MAY_CHANGE = ("epochs", "patience", "beta", "confidence", "match")  # settings that a continued run may change
# Paths are seen from the working folder, which may be another today: of these the last name alone must be the same.
PATHS = ("prepared", "pairs", "validation_pairs", "start_from", "fine_tune", "word_vectors")


def fit_run(
    model,
    batches,
    steps_per_epoch,
    validate,
    folder,
    monitor,
    mode="max",
    epochs=20,
    patience=5,
    keep=5,
    save_minutes=2.0,
    settings=None,
    finish=None,
    progress_bar=True,
):
    """Trains a compiled model into a run folder; called again on the same folder, it goes on exactly where it was.

    A second training in the folder is refused while the first one runs.

    Args:
        model: a compiled Keras model. Its dropout seeds are variables, so a continued run drops the same units.
        batches: function `(epoch, start_step) -> tf.data.Dataset` of the epoch's batches from `start_step` on; it must
            give the same batches whenever it is called with the same numbers. With several workers, the parts of each
            batch that are `Workers.share`'s, one after the other.
        steps_per_epoch: the number of batches of a whole epoch, or a function `epoch -> number` where it varies.
        validate: function `(model) -> dict` of floats, called after every epoch.
        folder: the run folder. It gets `model.keras` (the best epoch), `best/` (the `keep` best and `scores.json`),
            `log.csv`, `tensorboard/`, `settings.json` and `state/`.
        monitor: the key of `validate`'s dict that decides which epoch is best.
        mode: "max" or "min", which `monitor` values are better.
        epochs: the most epochs to train.
        patience: stop after so many epochs without a better one; None never stops early.
        keep: how many of the best epochs to keep.
        save_minutes: how often the state is written inside an epoch (it always is at the end of one).
        settings: JSON-able dict of what made this run; a folder made with other settings is refused.
        finish: function `(model, scores)` called on the copy that is saved, with what `validate` gave: what is chosen
            on the validation photos is stored there, and the model in training stays as it is.
        progress_bar: whether to show one on stderr.

    Returns:
        The rows of `log.csv`, one dict for each epoch.

    Example:
        model.compile(optimizer=build_optimizer("adam", 7e-4))
        fit_run(
            model,
            lambda epoch, start_step: pair_batches(prepared, "train", epoch=epoch, start_step=start_step),
            steps_per_epoch(prepared, "train", 100),
            lambda model: retrieval(model, photos),
            "runs/alignment",
            monitor="recall_sum",
        )
    """
    if mode not in ("max", "min"):
        raise ValueError(f"mode must be 'max' or 'min'. Received: {mode}")
    folder, strategy = Path(folder), model.distribute_strategy
    workers = Workers(strategy)
    writing = only_writer(folder, busy="another training") if workers.chief else nullcontext()
    with writing, workers.together(folder):
        if workers.chief:
            for part in ("state", BEST):
                (folder / part).mkdir(exist_ok=True)
                remove_leftovers(folder / part)
        _check_settings(folder, settings or {}, write=workers.chief)
        if not model.optimizer.built:
            with strategy.scope():
                model.optimizer.build(model.trainable_variables)
        state_file = folder / "state" / "state.npz"
        progress = {"epoch": 0, "step": 0, "rows": [], "best": []}
        if state_file.exists():
            progress = read_progress(state_file)
            restore_state(state_file, model)
        train_step = _training_step(model, strategy)
        twin = type(model).from_config(model.get_config())  # what is saved: the model without its optimizer
        writer = tf.summary.create_file_writer(str(folder / "tensorboard")) if workers.chief else None
        progress_bar = progress_bar and workers.chief
        _refuse_another_start(workers, progress, folder)
        while progress["epoch"] < epochs and not _out_of_patience(progress, patience):
            epoch, started = progress["epoch"], time.perf_counter()
            number = steps_per_epoch(epoch) if callable(steps_per_epoch) else steps_per_epoch
            model.reset_metrics()
            if progress["step"]:  # the running means of the interrupted epoch
                restore_state(state_file, model)
            data = workers.distribute(batches(epoch, progress["step"]))
            steps = _Steps(model, progress, state_file, number, epochs, save_minutes, progress_bar, workers.chief)
            steps.run(train_step, data)
            losses = {name: float(value) for name, value in model.get_metrics_result().items()}
            scores = validate(model)
            scores = dict(zip(scores, workers.chiefs(scores.values()), strict=True))
            row = {"epoch": epoch + 1, **losses, **scores, "seconds": round(time.perf_counter() - started, 1)}
            progress["rows"].append(row)
            _rank(progress, epoch + 1, scores, monitor, mode, keep)
            if workers.chief:
                _keep_best(folder, progress, twin, model, epoch + 1, scores, monitor, finish)
                with writer.as_default(step=epoch + 1):
                    for name, value in row.items():
                        tf.summary.scalar(name, value)
                writer.flush()
                _write_log(folder / LOG, progress["rows"])
            progress |= {"epoch": epoch + 1, "step": 0}
            write_state(state_file, model, progress, workers.chief)
            if progress_bar:
                print(_epoch_line(row, epochs, monitor, progress["best"][0]["epoch"] == epoch + 1))
    return progress["rows"]


def _training_step(model, strategy):
    """A function of one step on all replicas: its batch and whether to save -> the loss so far, and whether to save.

    Whether to save is what any of the workers, in fact the chief, has asked for: their clocks differ.
    """
    together = strategy.num_replicas_in_sync > 1

    def on_replica(batch, save):
        loss = model.train_step(batch)["loss"]
        if together:
            replica = tf.distribute.get_replica_context()
            save = replica.all_reduce("sum", tf.identity(save))  # the copy lies on this replica's device
            loss = replica.all_reduce("mean", loss)
        return loss, save

    @tf.function(reduce_retracing=True, autograph=False, jit_compile=model.jit_compile or None)
    def step(batch, save):
        return strategy.run(on_replica, args=(batch, save))

    def run(batch, save):
        loss, save = step(batch, tf.constant(float(save)))
        return tuple(float(strategy.experimental_local_results(value)[0]) for value in (loss, save))

    return run


def _refuse_another_start(workers, progress, folder):
    """Stops when this worker would begin elsewhere than the chief: it sees another folder."""
    chiefs = [int(number) for number in workers.chiefs([progress["epoch"], progress["step"]])]
    if chiefs != [progress["epoch"], progress["step"]]:
        raise InputError(
            f"worker {workers.index} sees another {folder} than the chief, which goes on at epoch {chiefs[0] + 1}, "
            f"step {chiefs[1]}: all workers need the same run folder, on a disk that they share."
        )


class _Steps:
    """The steps of one epoch: the progress bar, the state on disk every few minutes, the stop at NaN."""

    def __init__(self, model, progress, state_file, steps_per_epoch, epochs, save_minutes, progress_bar, chief):
        self.model, self.progress, self.state_file, self.chief = model, progress, state_file, chief
        self.steps_per_epoch, self.save_seconds = steps_per_epoch, 60 * save_minutes
        self.saved = time.perf_counter()
        self.bar = tqdm(
            desc=f"epoch {progress['epoch'] + 1}/{epochs}",
            total=steps_per_epoch,
            initial=progress["step"],
            unit="step",
            leave=False,
            disable=not progress_bar,
        )

    def run(self, train_step, data):
        data = iter(data)
        with self.bar:
            for step in range(self.progress["step"] + 1, self.steps_per_epoch + 1):
                save = self.chief and time.perf_counter() - self.saved > self.save_seconds
                loss, save = train_step(next(data), save)
                self._stop_at_nan(loss, step)
                self.bar.set_postfix(loss=f"{loss:.4g}", refresh=False)
                self.bar.update()
                if save and step < self.steps_per_epoch:
                    write_state(self.state_file, self.model, {**self.progress, "step": step}, self.chief)
                    self.saved = time.perf_counter()

    def _stop_at_nan(self, loss, step):
        if not math.isfinite(loss):
            raise InputError(
                f"the loss became {loss} at epoch {self.progress['epoch'] + 1}, step {step}: the run has "
                f"diverged. Start again in a new folder with a smaller learning rate (a third, say); "
                f"the best epochs so far are in {self.state_file.parents[1] / BEST}"
            )


def validation_split(prepared, wanted=None):
    """The split that chooses the best epoch: the one wanted, else "tune", else "val", else "dev"."""
    split = wanted or next((name for name in ("tune", "val", "dev") if name in prepared.splits), None)
    if split not in prepared.splits:
        raise InputError(
            f"{prepared.folder} has no split {split or 'tune, val or dev'} to choose the best epoch on: it has "
            f"{', '.join(prepared.splits)}; name one of them as validation, or set photos aside when preparing"
        )
    return split


def keep_vocabulary(vocabulary, folder):
    """Puts the vocabulary into the run folder, unless a run with other words is there."""
    path = Path(folder) / VOCABULARY
    if path.exists() and Vocabulary.load(path).digest != vocabulary.digest:
        raise InputError(f"{folder} holds a run with another vocabulary: name a new folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    vocabulary.save(path)


def _check_settings(folder, settings, write=True):
    path = folder / SETTINGS
    settings = json.loads(json.dumps(settings))
    if path.exists() and (folder / "state" / "state.npz").exists():
        old = read_settings(folder)
        changed = sorted(k for k in {**old, **settings} if k not in MAY_CHANGE and _differs(k, old, settings))
        if changed:
            what = ", ".join(f"{key} was {old.get(key)!r} and is {settings.get(key)!r}" for key in changed)
            raise InputError(
                f"{folder} holds a run with other settings ({what}): name a new folder, or give the same ones"
            )
    if write:
        write_whole(path, json.dumps(settings, indent=2) + "\n")


def _differs(name, old, new):
    first, second = old.get(name), new.get(name)
    if (
        name in ("extractor", "photos", "sentences", "vectors") and name not in old
    ):  # runs of earlier versions did not note it
        return False
    if name in PATHS and first and second:
        return Path(first).absolute().name != Path(second).absolute().name
    return first != second


def _out_of_patience(progress, patience):
    return (
        bool(progress["best"]) and patience is not None and progress["epoch"] - progress["best"][0]["epoch"] >= patience
    )


def _rank(progress, epoch, scores, monitor, mode, keep):
    """Puts the epoch among the best `keep`, if it is one of them."""
    if not math.isfinite(scores[monitor]):
        raise InputError(f"the validation score {monitor} of epoch {epoch} is {scores[monitor]}: the run has diverged")
    entry = {"epoch": epoch, "file": f"epoch-{epoch:03d}.keras", "score": scores[monitor], "scores": scores}
    sign = -1 if mode == "max" else 1
    ranked = sorted([*progress["best"], entry], key=lambda e: (sign * e["score"], e["epoch"]))
    progress["best"] = ranked[:keep]


def _keep_best(folder, progress, twin, model, epoch, scores, monitor, finish):
    """Saves the epoch if it is among the best; the best of all is also `model.keras`."""
    ranks = [entry["epoch"] for entry in progress["best"]]
    if epoch in ranks:
        twin.set_weights(model.get_weights())
        if finish:
            finish(twin, scores)
        path = folder / BEST / progress["best"][ranks.index(epoch)]["file"]
        with whole_file(path) as unfinished:
            twin.save(unfinished)
        if ranks[0] == epoch:
            with whole_file(folder / MODEL) as unfinished:
                shutil.copyfile(path, unfinished)
    write_json(folder / BEST / SCORES, {"monitor": monitor, "best": progress["best"]})
    kept = {e["file"] for e in progress["best"]}
    for path in (folder / BEST).glob("epoch-*.keras"):
        if path.name not in kept:
            path.unlink()


def _write_log(path, rows):
    text = io.StringIO()
    table = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_whole(path, text.getvalue())


def _epoch_line(row, epochs, monitor, best):
    scores = f"loss {row['loss']:.4f}  {monitor} {row[monitor]:.4f}"
    return f"epoch {row['epoch']}/{epochs}  {scores}  {row['seconds']:.0f} s" + ("  (best)" if best else "")
