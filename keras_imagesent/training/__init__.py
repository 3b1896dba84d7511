"""Runs: optimizers, devices, and the one training loop that both trainers share."""
