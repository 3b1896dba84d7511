"""What a phrase says of its region, in snippets that a region captioner can learn from."""

from collections import Counter

from keras_imagesent.data.tokenizer import tokenize

SNIPPET_WORDS = 6  # "A man wearing a black hat"; what people say of a box is shorter than what they say of a photo


def opening_words(captions, share=0.0025):
    """Function words ("a", "with", "is"): words that almost never end a sentence, less often than in a `share` of
    their uses. Words used fewer than 1 / share times are left out: they may end one in the next caption.

    Example:
        >>> sorted(opening_words([["a dog", "a cat with a dog"] * 500]))
        ['a', 'cat', 'with']
    """
    used, last = Counter(), Counter()
    for words in (tokenize(caption) for group in captions for caption in group):
        used.update(words)
        last.update(words[-1:])
    return {word for word, times in used.items() if last[word] + 1 < share * times}


def joining_words(captions, openers, share=0.01):
    """Those function words that tie what follows to what was said before ("with", "is", but not "a"): they begin a
    sentence in less than a `share` of their uses.

    Example:
        >>> joining_words([["a dog", "a cat with a dog"] * 500], {"a", "with"})
        {'with'}
    """
    used, first = Counter(), Counter()
    for words in (tokenize(caption) for group in captions for caption in group):
        used.update(words)
        first.update(words[:1])
    return {word for word in openers if first[word] < share * used[word]}


def snippets(words, openers, joiners, most=SNIPPET_WORDS):
    """A phrase as short descriptions of its region, each a list of words as typed.

    A phrase of more than `most` words is split before function words (`openers`). Function words left at an end are
    trimmed: `joiners` at the start, `openers` at the end. Single words are dropped: they do not teach a captioner to
    describe a region.

    Args:
        words: the words of the phrase, as typed.
        openers: from `opening_words`.
        joiners: from `joining_words`.
        most: most words of a snippet.

    Example:
        >>> snippets("A dog with a ball is wet".split(), {"a", "with", "is"}, {"with", "is"}, 5)
        [['A', 'dog', 'with', 'a', 'ball']]
    """
    parts, opening = [], False
    for word in words:
        opens = openers.issuperset(tokenize(word))
        if not parts or (opens and not opening):
            parts.append([])
        parts[-1].append(word)
        opening = opens

    def trim(snippet):
        inner = [n for n, word in enumerate(snippet) if not joiners.issuperset(tokenize(word))]
        closed = [n for n, word in enumerate(snippet) if not openers.issuperset(tokenize(word))]
        return snippet[inner[0] : closed[-1] + 1] if closed else []

    found = [[]]
    for part in parts:
        if len(trim(found[-1] + part)) > most:
            found.append([])
        found[-1] += part
    return [snippet for snippet in map(trim, found) if len(snippet) > 1]
