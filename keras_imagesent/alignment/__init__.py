"""Which words belong to which region: encoders, score, ranking loss, phrases (section 3.1 of the paper)."""
