"""How much a captioner repeats what it was taught."""

from keras_imagesent.data.tokenizer import tokenize


def novelty(captions, training_captions, vocabulary):
    """Share of captions found among the training sentences, number of distinct ones, mean number of words.

    A training sentence is compared as it was learned: its words in the vocabulary.

    Example:
        >>> novelty(["a dog runs", "a cat"], ["A dog runs!"], vocabulary)
        {'in_training': 0.5, 'distinct': 2, 'words': 2.5}
    """
    known = set(vocabulary.words)
    taught = {" ".join(word for word in tokenize(text) if word in known) for text in training_captions}
    return {
        "in_training": sum(caption in taught for caption in captions) / len(captions),
        "distinct": len(set(captions)),
        "words": sum(len(caption.split()) for caption in captions) / len(captions),
    }
