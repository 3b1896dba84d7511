"""Copies a few photos that may be passed on out of the scikit-image wheel: `python scripts/demo_photos.py FOLDER`.

astronaut.png  Eileen Collins, by NASA, public domain
camera.png     a man with a camera, by Lav Varshney, CC0
chelsea.png    a cat, by Stefan van der Walt, CC0
coffee.png     a cup of coffee, by Rachel Michetti, courtesy of Pikolo Espresso Bar, CC0
rocket.jpg     a Falcon 9 lifting off, by SpaceX, public domain
"""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

PHOTOS = ("astronaut.png", "camera.png", "chelsea.png", "coffee.png", "rocket.jpg")

source = Path(find_spec("skimage").origin).parent / "data"
target = Path(sys.argv[1])
target.mkdir(parents=True, exist_ok=True)
for name in PHOTOS:
    shutil.copyfile(source / name, target / name)
print(__doc__.partition("\n\n")[2].strip())
