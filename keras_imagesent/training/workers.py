"""The processes of a training that runs on several machines (`TF_CONFIG`), and what each of them does."""

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_imagesent.errors import InputError


@dataclass(frozen=True)
class Share:
    """Which replicas of a training this process holds: `number` of them from `first` on, `of` all together.

    A batch of all pairs is cut into `of` parts of equal size (the first ones may have a pair more), a part a replica.
    """

    first: int = 0
    number: int = 1
    of: int = 1

    def parts(self, rows):
        """This process's parts of a batch's rows, one for each of its replicas."""
        return np.array_split(rows, self.of)[self.first : self.first + self.number]


class Workers:
    """The processes that train together under a strategy; without `TF_CONFIG` there is one, the chief.

    Example:
        workers = Workers(strategy)
        batches = pair_batches(prepared, "train", share=workers.share)
        if workers.chief:
            model.save("model.keras")
    """

    def __init__(self, strategy):
        self.strategy = strategy
        resolver = (
            strategy.cluster_resolver if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) else None
        )
        cluster = resolver.cluster_spec().as_dict() if resolver else {}
        chiefs = len(cluster.get("chief", []))
        self.number = max(1, chiefs + len(cluster.get("worker", [])))
        self.index = resolver.task_id + (chiefs if resolver.task_type == "worker" else 0) if self.number > 1 else 0

    @property
    def chief(self):
        """Whether this process writes the files."""
        return self.index == 0

    @property
    def share(self):
        """This process's share of each batch; the whole of it if it is alone, whatever devices it has."""
        if self.number == 1:
            return Share()
        local = len(self.strategy.extended.worker_devices)
        return Share(self.index * local, local, self.number * local)

    def distribute(self, dataset):
        """The batches as the strategy takes them: our own parts if there are other processes, else it cuts them."""
        if self.number > 1:
            return self.strategy.distribute_datasets_from_function(lambda context: dataset)
        return self.strategy.experimental_distribute_dataset(dataset)

    def chiefs(self, values):
        """The chief's numbers, in every process."""
        if self.number == 1:
            return list(values)
        own = tf.constant([float(value) if self.chief else 0.0 for value in values], tf.float64)

        @tf.function
        def send():
            context = tf.distribute.get_replica_context
            # each of the chief's replicas brings the numbers
            return self.strategy.run(lambda: context().all_reduce("sum", own))

        total = self.strategy.experimental_local_results(send())[0].numpy()
        return (total / len(self.strategy.extended.worker_devices)).tolist()

    @contextmanager
    def together(self, folder):
        """Says in one line that another process has gone, which TensorFlow says in many."""
        try:
            yield
        except tf.errors.OpError as error:
            gone = (
                tf.errors.UnavailableError,
                tf.errors.AbortedError,
                tf.errors.InternalError,
                tf.errors.CancelledError,
            )
            if self.number == 1 or not isinstance(error, (*gone, tf.errors.DeadlineExceededError)):
                raise
            raise InputError(
                f"worker {self.index} of {self.number} lost the others ({error.message.splitlines()[0][:120]}). "
                f"Start all workers again with the same command: {folder} goes on where it was saved."
            ) from error
