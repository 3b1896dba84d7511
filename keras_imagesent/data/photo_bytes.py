"""A photo in whatever form a person has it, as the encoded bytes that the models take."""

import io
import os
from pathlib import Path
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageOps

from keras_imagesent.errors import InputError

Photo: TypeAlias = str | os.PathLike | bytes | Image.Image | np.ndarray


def photo_bytes(photo: Photo) -> bytes:
    """The encoded bytes of a photo: a path, bytes that are encoded already, a Pillow image, or an array of pixels.

    Pillow images are turned upright as their EXIF says. Arrays are `(H,W,3)` RGB or `(H,W)` gray, of type uint8. Both
    are encoded as PNG, which loses nothing.

    Example:
        >>> photo_bytes(np.zeros((8, 8, 3), np.uint8))[:4]
        b'\\x89PNG'
    """
    if isinstance(photo, bytes):
        return photo
    if isinstance(photo, str | os.PathLike):
        try:
            return Path(photo).read_bytes()
        except OSError as error:
            raise InputError(f"{photo}: {error.strerror or 'cannot be read'}") from None
    if isinstance(photo, np.ndarray):
        if photo.dtype != np.uint8 or photo.ndim not in (2, 3) or (photo.ndim == 3 and photo.shape[2] != 3):
            raise InputError(
                "an array of pixels must be uint8 of shape (height, width, 3) or (height, width). "
                f"Received: {photo.dtype} of shape {photo.shape}"
            )
        photo = Image.fromarray(photo)
    if not isinstance(photo, Image.Image):
        raise InputError(
            "a photo is a path, encoded bytes, a Pillow image or a NumPy array of pixels. "
            f"Received: {type(photo).__name__}"
        )
    encoded = io.BytesIO()
    ImageOps.exif_transpose(photo).convert("RGB").save(encoded, "PNG")
    return encoded.getvalue()


def photo_name(photo: Photo) -> str:
    """What a complaint calls a photo: its path, or "the photo"."""
    return os.fspath(photo) if isinstance(photo, str | os.PathLike) else "the photo"
