"""Writes golden_captions.json: sentences from a small grammar, and what pycocoevalcap says of them.

python tests/evaluation/make_golden_captions.py
"""

import json
import random
from pathlib import Path

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

PARTS = [
    ["a", "two", "the", "a small", "an old"],
    ["dog", "dogs", "man", "woman in red", "boy", "girl", "cat"],
    ["runs", "sits", "is running", "jumps", "is sitting quietly", "plays"],
    ["on the grass", "in the snow", "by the sea", "", "with a ball", "on a bench in the park"],
]


def sentence(rng):
    words = " ".join(rng.choice(part) for part in PARTS).split()
    return " ".join(words[: rng.randint(1, 12)] if rng.random() < 0.3 else words)


def main():
    rng = random.Random(0)
    photos = []
    for number in range(60):
        references = [sentence(rng) for _ in range(rng.randint(1, 6))]
        candidate = rng.choice(references) if number % 7 == 0 else sentence(rng)
        if number == 5:
            candidate = ""
        if number == 9:
            candidate = "dog dog dog dog"
        photos.append({"candidate": candidate, "references": references})
    wanted = {n: photo["references"] for n, photo in enumerate(photos)}
    given = {n: [photo["candidate"]] for n, photo in enumerate(photos)}
    cider, cider_scores = Cider().compute_score(wanted, given)
    golden = {
        "bleu": Bleu(4).compute_score(wanted, given, verbose=0)[0],
        "rouge_l": float(Rouge().compute_score(wanted, given)[0]),
        "cider": float(cider),
        "cider_scores": cider_scores.tolist(),
        "photos": photos,
    }
    Path(__file__).with_name("golden_captions.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
