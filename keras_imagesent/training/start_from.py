"""Training that starts from another run: its words are kept, and the new data's words are added."""

from keras_imagesent.model.run import Run


def add_words(prepared, run: Run):
    """The prepared photos with their sentences in the run's words and, behind those, the photos' own.

    Example:
        prepared = add_words(Prepared.open("mine"), Run("runs/flickr8k", "captioner"))
        len(prepared.vocabulary)  # the run's words and the new ones
    """
    if not run.file.is_file():
        return run.model  # its error says that there is no model, and where
    vocabulary = run.vocabulary
    if vocabulary.words == prepared.vocabulary.words:
        return prepared
    together = vocabulary.extended(prepared.vocabulary)
    print(f"words: {len(vocabulary)} of the run to start from, {len(together) - len(vocabulary)} new")
    return prepared.in_words(together)
