"""Sentences to words and ids inside the TensorFlow graph, so that training and serving can never differ."""

import tensorflow as tf
import tensorflow_text as tf_text

from keras_imagesent.data.tokenizer import BLANKS, SPLIT_VOWELS, UNSEEN, UNSPACED


def _characters(escaped):
    """A character class with the characters themselves: RE2 does not read Python's escapes."""
    return "[" + escaped.encode("ascii").decode("unicode_escape") + "]"


_BLANKS = _characters(BLANKS) + "+"
_UNSEEN = _characters(UNSEEN)
_UNSPACED = _characters(UNSPACED)


def typed_words_in_graph(sentences):
    """Strings (B,) -> two ragged (B, words): as typed, and as the vocabulary knows them. See `typed_words`."""
    valid = tf.strings.unicode_transcode(sentences, "UTF-8", "UTF-8")  # bytes that are no UTF-8 become U+FFFD
    for whole, parts in SPLIT_VOWELS.items():
        valid = tf.strings.regex_replace(valid, whole, parts)
    valid = tf.strings.regex_replace(valid, f"({_UNSPACED})", r" \1 ")
    typed = tf.strings.split(tf.strings.regex_replace(valid, _BLANKS, " "))  # (B, None)
    words = tf_text.case_fold_utf8(tf.strings.regex_replace(typed.flat_values, _UNSEEN, ""))
    words = typed.with_flat_values(tf.strings.regex_replace(words, r"[^\p{L}\p{M}\p{N}]", ""))
    has_letters = words.with_flat_values(tf.strings.length(words.flat_values) > 0)
    return tf.ragged.boolean_mask(typed, has_letters), tf.ragged.boolean_mask(words, has_letters)


def close_gaps(sentences):
    """Takes the blanks out from between characters of scripts without blanks: `join_words` as a graph."""
    for _ in range(2):  # a character that was matched at the end of one pair begins the next only in another pass
        sentences = tf.strings.regex_replace(sentences, f"({_UNSPACED}) ({_UNSPACED})", r"\1\2")
    return sentences


def tokenize_in_graph(sentences):
    """Strings (B,) -> ragged words (B, None): `tokenize` as a graph.

    Example:

    >>> tokenize_in_graph(tf.constant(["A red-haired MAN!"]))
    <tf.RaggedTensor [[b'a', b'redhaired', b'man']]>
    """
    return typed_words_in_graph(sentences)[1]


class SentenceToIds(tf.Module):
    """Looks up the words of sentences; a module, so that a SavedModel keeps the table.

    Call arguments:
        sentences: strings (B,).

    Returns the words as typed and their ids, both ragged (B, None); a word outside the vocabulary has id -1.

    Example:

    >>> ids = SentenceToIds(Vocabulary(["a", "dog"], [9, 5]))
    >>> ids(tf.constant(["A purple dog."]))
    (<tf.RaggedTensor [[b'A', b'purple', b'dog.']]>, <tf.RaggedTensor [[1, -1, 2]]>)
    """

    def __init__(self, vocabulary, name="sentence_to_ids"):
        super().__init__(name=name)
        ids = tf.range(1, len(vocabulary) + 1, dtype=tf.int32)
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(vocabulary.words), ids), default_value=-1
        )

    def __call__(self, sentences):
        typed, words = typed_words_in_graph(sentences)
        return typed, words.with_flat_values(self.table.lookup(words.flat_values))
