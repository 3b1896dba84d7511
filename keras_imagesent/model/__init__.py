"""Trained models: a run folder from disk, and the model that answers for photos."""
