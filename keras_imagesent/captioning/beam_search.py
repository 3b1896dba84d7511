"""Batched beam search over any `step` function, in operations that survive `tf.function`, ONNX and LiteRT.

No TensorArray, no back-tracking and no gather with batch dimensions: those convert to ONNX without complaint and give
wrong words. The words said so far are one (B, beam, T) tensor, written through a mask.
"""

import tensorflow as tf

NEVER = -1e9  # a log probability no sentence has, and still a finite number


def beam_search(step, states, start_id, beam=3, max_length=20, captions=1, length_penalty=0.0, min_length=0):
    """Finds the most probable sentences of each photo.

    A finished sentence is frozen in the beam: it goes on saying END (0) at no cost. Sentences compete by
    `log_prob / length ** length_penalty`, END counted in the length. A photo's search is over when no unfinished
    sentence can still overtake its `captions` best ones, so what else is in the batch changes nothing.

    Args:
        step: function from the words just said (N,) and the states to the logits (or log probabilities) of the
            next word (N, V+1) and the new states; class 0 is END.
        states: list of tensors (B, ...) that the first step takes (`Decoder.states`).
        start_id: the word that the first step reads.
        beam: number of sentences kept.
        max_length: number of words at most, fixed.
        captions: number of sentences returned, at most `beam`.
        length_penalty: exponent of the length: 0 ranks by total, 1 by mean log probability.
        min_length: END is not said before this many words.

    Returns:
        `token_ids (B, captions, max_length)`, padded with 0, best first, and `log_probs (B, captions)`, not normalized.

    Example:
        >>> decoder = Decoder(captioner, features)
        >>> token_ids, log_probs = beam_search(decoder.step, decoder.states, decoder.start_id, beam=7)
    """
    if not 1 <= captions <= beam:
        raise ValueError(f"captions must be between 1 and the beam. Received: captions={captions}, beam={beam}")

    # --- the first word: one row a photo, not `beam` equal ones ---
    batch = tf.shape(states[0])[0]
    logits, states = step(tf.fill([batch], start_id), states)
    words = logits.shape[-1]
    best = min(beam, words)  # next words worth looking at, of each sentence
    scores, said = _best_words(logits, best, forbid_end=min_length > 0)  # (B, best)
    scores = tf.pad(scores, [[0, 0], [0, beam - best]], constant_values=NEVER)
    said = tf.pad(said, [[0, 0], [0, beam - best]])  # absent sentences count as finished
    states = [tf.repeat(state, beam, axis=0) for state in states]  # (B * beam, ...)
    column = tf.reshape(tf.range(max_length), [1, 1, max_length])
    tokens = said[:, :, None] * tf.cast(column == 0, tf.int32)  # (B, beam, T)
    finished = said == 0
    lengths = tf.ones_like(scores)  # words said, END included
    rows = tf.range(batch)[:, None] * beam  # where each photo's sentences begin among all of them

    end_only = [0.0] + [NEVER] * (best - 1)

    def more(t, tokens, scores, lengths, finished, *states):
        ranks = scores / lengths**length_penalty
        bound = tf.where(finished, NEVER, scores / max_length**length_penalty)  # no log probability is above 0
        worst = tf.math.top_k(tf.where(finished, ranks, NEVER), captions).values[:, -1]
        open_photos = tf.reduce_max(bound, axis=1) > worst
        return tf.logical_and(t < max_length, tf.reduce_any(open_photos))

    def body(t, tokens, scores, lengths, finished, *states):
        last = tf.reduce_sum(tokens * tf.cast(column == t - 1, tf.int32), axis=2)
        logits, states = step(tf.reshape(last, [-1]), list(states))
        forbid_end = t < min_length if min_length > 1 else False  # the first word was said above
        gains, said = _best_words(logits, best, forbid_end)  # (B * beam, best)
        gains, said = tf.reshape(gains, [-1, beam, best]), tf.reshape(said, [-1, beam, best])
        gains = tf.where(finished[:, :, None], tf.constant(end_only), gains)
        said = tf.where(finished[:, :, None], 0, said)

        # Each sentence's best words, ranked together: the best `beam` of all are among them.
        totals = tf.reshape(scores[:, :, None] + gains, [-1, beam * best])
        grown = tf.repeat(tf.where(finished, lengths, lengths + 1), best, axis=1)
        _, chosen = tf.math.top_k(totals / grown**length_penalty, beam)  # (B, beam)
        parents = tf.reshape(rows + chosen // best, [-1])
        flat = tf.reshape(tf.range(tf.shape(tokens)[0])[:, None] * (beam * best) + chosen, [-1])

        def pick(values):
            return tf.reshape(tf.gather(tf.reshape(values, [-1]), flat), [-1, beam])

        scores, lengths, said = pick(totals), pick(grown), pick(said)
        tokens = tf.reshape(tf.gather(tf.reshape(tokens, [-1, max_length]), parents), [-1, beam, max_length])
        tokens = tokens + said[:, :, None] * tf.cast(column == t, tf.int32)
        states = [tf.gather(state, parents) for state in states]
        return (t + 1, tokens, scores, lengths, said == 0, *states)

    loop = (tf.constant(1), tokens, scores, lengths, finished, *states)
    shapes = [tf.TensorShape([]), tf.TensorShape([None, beam, max_length]), *[tf.TensorShape([None, beam])] * 3]
    shapes += [tf.TensorShape([None, *state.shape[1:]]) for state in states]
    _, tokens, scores, lengths, finished, *_ = tf.while_loop(more, body, loop, shape_invariants=tuple(shapes))

    # A photo that was over early still holds unfinished sentences in its lower places: they rank by what they are.
    ranks = scores / lengths**length_penalty
    _, order = tf.math.top_k(ranks, captions)
    flat = tf.reshape(rows + order, [-1])
    tokens = tf.reshape(tf.gather(tf.reshape(tokens, [-1, max_length]), flat), [-1, captions, max_length])
    return tokens, tf.reshape(tf.gather(tf.reshape(scores, [-1]), flat), [-1, captions])


def _best_words(logits, number, forbid_end):
    """The `number` most probable next words of every row: log probabilities and ids (N, number).

    Only the chosen logits are normalized, which saves a pass over the whole vocabulary.
    """
    allowed = logits
    if forbid_end is not False:
        is_end = tf.cast(tf.range(logits.shape[-1]) == 0, logits.dtype)
        allowed = logits + is_end * NEVER * tf.cast(forbid_end, logits.dtype)
    values, ids = tf.math.top_k(allowed, number)
    highest = tf.maximum(values[:, :1], logits[:, :1])  # of all logits, END's too where it is forbidden
    total = highest + tf.math.log(tf.reduce_sum(tf.exp(logits - highest), axis=-1, keepdims=True))
    return values - total, ids


def greedy(step, states, start_id, max_length=20, min_length=0):
    """The most probable word at every step: beam search of one. Returns token_ids (B, T), log_probs (B,)."""
    tokens, log_probs = beam_search(step, states, start_id, 1, max_length, min_length=min_length)
    return tokens[:, 0], log_probs[:, 0]


def sample(step, states, start_id, max_length=20, seed=0, temperature=1.0, top_p=1.0):
    """Draws one sentence a photo, word by word.

    Args:
        step, states, start_id, max_length: as in `beam_search`.
        seed: the same seed draws the same sentences.
        temperature: below 1 keeps to probable words, above 1 dares more.
        top_p: draws among the most probable words that together have this probability (nucleus sampling).

    Returns:
        token_ids (B, T) padded with 0 and log_probs (B,), the model's own (temperature 1, all words).

    Example:
        >>> token_ids, log_probs = sample(decoder.step, decoder.states, decoder.start_id, top_p=0.9)
    """
    batch = tf.shape(states[0])[0]
    token = tf.fill([batch], start_id)
    alive, log_probs, tokens = tf.ones([batch]), tf.zeros([batch]), []
    for t in range(max_length):
        logits, states = step(token, states)
        drawn = logits / temperature
        if top_p < 1:
            drawn = _nucleus(drawn, top_p)
        noise = tf.random.stateless_uniform(tf.shape(logits), seed=[seed, t], minval=1e-9)
        token = tf.argmax(drawn - tf.math.log(-tf.math.log(noise)), axis=-1, output_type=tf.int32)
        token = token * tf.cast(alive, tf.int32)
        gain = tf.gather(tf.nn.log_softmax(logits), token, batch_dims=1)
        log_probs, alive = log_probs + gain * alive, alive * tf.cast(token > 0, tf.float32)
        tokens.append(token)
    return tf.stack(tokens, axis=1), log_probs


def _nucleus(logits, top_p):
    """Forbids every word outside the smallest set of most probable words whose probability reaches `top_p`."""
    ordered = tf.sort(logits, axis=-1, direction="DESCENDING")
    before = tf.cumsum(tf.nn.softmax(ordered), axis=-1, exclusive=True)
    lowest = tf.reduce_min(tf.where(before < top_p, ordered, tf.float32.max), axis=-1, keepdims=True)
    return tf.where(logits >= lowest, logits, NEVER)
