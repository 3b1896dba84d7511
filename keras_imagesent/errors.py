"""The one error that a person's input can cause."""


class InputError(ValueError):
    """Something the user gave is wrong: says what, where, and what to do.

    The command line prints it as `imagesent: ...` and ends with status 2, without a traceback.

    Example:

    >>> raise InputError("no photos in ./photos: give the folder that holds them with --photos")
    Traceback (most recent call last):
    keras_imagesent.errors.InputError: no photos in ./photos: give the folder that holds them with --photos
    """
