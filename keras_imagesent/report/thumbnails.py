"""Small copies of photos and crops of regions, made once."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image, ImageOps

from keras_imagesent.data.atomic import whole_file
from keras_imagesent.data.photo_check import FORMATS
from keras_imagesent.errors import InputError

WIDTH = 420


def thumbnail_name(filename):
    """A name that is safe in an address and different for photos of the same name in different folders."""
    stem = "".join(c if c.isascii() and c.isalnum() else "-" for c in Path(filename).stem)[:40]
    return f"{stem}-{hashlib.sha256(filename.encode()).hexdigest()[:8]}.jpg"


def make_thumbnails(filenames, photos_folder, out, progress=lambda items, **_: items):
    """Writes a small JPEG of each photo into `out`, leaving those that are newer than their photo; returns the names.

    Example:

    >>> make_thumbnails(["dog.jpg"], "photos", "report/thumbs")
    ['dog-3f2a90c1.jpg']
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    names = [thumbnail_name(filename) for filename in filenames]
    with ThreadPoolExecutor(2) as pool:  # Pillow works outside Python's lock
        work = pool.map(lambda filename, name: _shrink(Path(photos_folder) / filename, out / name), filenames, names)
        list(progress(work, total=len(names)))
    return names


def _shrink(source, target):
    try:
        if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
            return
        with Image.open(source, formats=FORMATS) as image:
            image.draft("RGB", (2 * WIDTH, 2 * WIDTH))
            image = ImageOps.exif_transpose(image)
            if image.has_transparency_data:
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
            image = image.convert("RGB")
    except OSError as error:
        raise InputError(f"cannot read the photo {source} ({error}): name the photos' folder with --photos") from error
    height = max(1, round(image.height * WIDTH / image.width))
    with whole_file(target) as unfinished:  # half a thumbnail would be taken for a whole one by the next run
        image.resize((WIDTH, height), Image.LANCZOS).save(unfinished, "JPEG", quality=82)


def crop_region(photo, box, size=220):
    """The part of an upright photo inside a box (`x0, y0, x1, y1` in 0..1), at most `size` pixels on a side."""
    with Image.open(photo, formats=FORMATS) as image:
        image = ImageOps.exif_transpose(image).convert("RGB")
    x0, y0, x1, y1 = (c * n for c, n in zip(box, image.size * 2, strict=True))
    left, top = min(int(x0), image.width - 1), min(int(y0), image.height - 1)
    crop = image.crop((left, top, max(left + 1, round(x1)), max(top + 1, round(y1))))
    crop.thumbnail((size, size))
    return crop
