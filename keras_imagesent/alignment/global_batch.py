"""The rows of the global batch when replicas hold a part of it each."""

import tensorflow as tf


def gather_rows(x):
    """Joins the replicas' rows, in order; gradients flow back to each. With one device, `x` itself."""
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return x
    x = tf.identity(x)  # on this replica's device: between machines, what comes straight from the batch has none
    return tf.ensure_shape(replica.all_gather(x, axis=0), [None, *x.shape[1:]])  # the gathering forgets the shape
