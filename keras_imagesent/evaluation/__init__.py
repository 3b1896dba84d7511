"""Measuring: retrieval, grounding, magnitudes, caption metrics, baselines, and the tables they fill."""
