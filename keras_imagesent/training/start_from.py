"""Training that starts from another run: its words are kept, and the new data's words are added."""

from keras_imagesent.model.run import Run


def add_words(prepared, run: Run):
    """The prepared photos with their sentences in the run's words and, behind those, the photos' own.

    Example:
        prepared = add_words(Prepared.open("mine"), Run("runs/flickr8k", "captioner"))
        len(prepared.vocabulary)  # the run's words and the new ones
    """
    run.model  # before its words: the error of a folder without a model names the model  # noqa: B018
    vocabulary = run.vocabulary
    if vocabulary.words == prepared.vocabulary.words:
        return prepared
    together = vocabulary.extended(prepared.vocabulary)
    print(f"words: {len(vocabulary)} of the run to start from, {len(together) - len(vocabulary)} new")
    return prepared.in_words(together)
