"""`python -m keras_imagesent` is `imagesent`."""

import sys

from keras_imagesent.cli.main import main

sys.exit(main())
