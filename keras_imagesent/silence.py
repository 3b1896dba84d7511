"""TensorFlow, absl and gRPC write lines of their own on stderr, some marked as errors; a person wants none."""

import contextlib
import logging
import os
import sys


def silence_libraries():
    """Tells the libraries to keep quiet; call it before they are imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    logging.getLogger("absl").setLevel(logging.ERROR)


@contextlib.contextmanager
def silenced():
    """Nothing is written to stderr inside: converters log in C++, where no setting reaches. Errors are raised as ever.

    Example:
        with silenced():
            converter.convert()
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
