"""Detectors beside the default one: any detection SavedModel, Model Garden, boxes from a file, a fixed grid."""
