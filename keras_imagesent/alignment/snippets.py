"""What a phrase says of its region, in snippets that a region captioner can learn from."""

from collections import Counter

from keras_imagesent.data.tokenizer import tokenize

SNIPPET_WORDS = 6  # "A man wearing a black hat"; what people say of a box is shorter than what they say of a photo


def opening_words(captions, share=0.0025):
    """Words that only open what follows ("a", "with", "is"): sentences end with them at less than this share of the
    times that they are used. A word used fewer than 1 / share times may just not have ended one yet.

    Example:
        opening_words([["a dog", "a cat with a dog"] * 500])  # {"a", "cat", "with"}
    """
    used, last = Counter(), Counter()
    for words in (tokenize(caption) for group in captions for caption in group):
        used.update(words)
        last.update(words[-1:])
    return {word for word, times in used.items() if last[word] + 1 < share * times}


def joining_words(captions, openers, share=0.01):
    """Those opening words that join what they open to what was said before ("with", "is", not "a"): sentences begin
    with them at less than this share of the times that they are used.

    Example:
        joining_words([["a dog", "a cat with a dog"] * 500], {"a", "with"})  # {"with"}
    """
    used, first = Counter(), Counter()
    for words in (tokenize(caption) for group in captions for caption in group):
        used.update(words)
        first.update(words[:1])
    return {word for word in openers if first[word] < share * used[word]}


def snippets(words, openers, joiners, most=SNIPPET_WORDS):
    """What a phrase, words as typed, says of its region, in snippets of about as many words as people would use.

    It is cut where an opening word follows one that is none, if it would have more than `most` words. What joins a
    snippet to the one before is left out, and so is what is left open at its end. A word alone teaches nobody to
    describe a region.

    Example:
        snippets("A dog with a ball is wet".split(), {"a", "with", "is"}, {"with", "is"}, 5)  # "A dog with a ball"
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
