"""Train with one's own `model.fit`: python scripts/train_alignment_in_python.py PREPARED MODEL.keras"""

import sys

import keras_imagesent as ki
from keras_imagesent.data.batches import pair_batches
from keras_imagesent.evaluation.retrieval import measure_retrieval
from keras_imagesent.training.fit import validation_split
from keras_imagesent.training.optimizers import build_optimizer

prepared = ki.Prepared.open(sys.argv[1])  # what `imagesent prepare` wrote
photos, validation = prepared.load("train"), prepared.load(validation_split(prepared))
model = ki.build_alignment(
    prepared.feature_dim,
    len(prepared.vocabulary),
    dim=256,
    units=256,
    classes=prepared.classes,
    number_of_regions=prepared.number_of_regions,
)
model.get_layer("region_encoder").get_layer("centre").measure(photos.region_features[photos.region_mask])
model.compile(optimizer=build_optimizer("adam", learning_rate=1e-3))
for epoch in range(5):
    model.fit(pair_batches(prepared, "train", epoch=epoch))
    print(measure_retrieval(model, validation))
model.save(sys.argv[2])
