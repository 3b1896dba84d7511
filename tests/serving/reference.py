"""The captioner and its beam search in plain NumPy, a photo and a sentence at a time: the oracle of every runtime."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu_cell(z, states, kernel, bias):
    h = np.maximum(z + states[0] @ kernel + bias, 0)
    return h, [h]


def lstm_cell(z, states, kernel, bias):
    h, memory = states
    total = z + h @ kernel + bias
    i, f, o, g = np.split(total, 4)
    memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(memory)
    return h, [h, memory]


def gru_cell(z, states, kernel, bias):
    (h,) = states
    zu, zr, zc = np.split(z, 3)
    pu, pr, pc = np.split(h @ kernel + bias, 3)
    update, reset = sigmoid(zu + pu), sigmoid(zr + pr)
    h = update * h + (1 - update) * np.tanh(zc + reset * pc)
    return h, [h]


CELLS = {"relu": (relu_cell, 1), "lstm": (lstm_cell, 2), "gru": (gru_cell, 1)}


def captions_of(captioner, cell, features, beam, captions, max_length, length_penalty):
    """Image vectors (B,F) -> [[(words' ids, log probability), ...], ...], best first (Eqs. 13 to 15)."""
    image, words = captioner.get_layer("image_encoder"), captioner.get_layer("word_encoder")

    def weights(layer):
        return [np.asarray(value, np.float64) for value in layer.get_weights()]

    mean, scale = weights(image.get_layer("centring"))
    (image_kernel,) = weights(image.get_layer("image_bias"))
    (vectors,) = weights(words.get_layer("word_vectors"))
    (word_kernel,) = weights(words.get_layer("word_input"))
    *project, kernel, bias = weights(captioner.get_layer("recurrence"))  # the ReLU cell adds its input as it is
    out_kernel, out_bias = weights(captioner.get_layer("output"))
    step, number_of_states = CELLS[cell]
    start, units = len(vectors) - 1, len(kernel)

    def search(feature):
        first = ((feature - mean) * scale) @ image_kernel
        beams = [(0.0, (), [np.zeros(units)] * number_of_states, False)]  # log probability, words, states, finished
        for t in range(max_length):
            grown = []
            for total, said, states, finished in beams:
                if finished:
                    grown.append((total, said, states, True))
                    continue
                z = vectors[said[-1] if said else start] @ word_kernel + (first if t == 0 else 0)
                h, states = step(z @ project[0] if project else z, states, kernel, bias)
                logits = h @ out_kernel + out_bias
                log_probs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
                grown += [(total + gain, (*said, word), states, word == 0) for word, gain in enumerate(log_probs)]
            grown.sort(key=lambda beam: -beam[0] / len(beam[1]) ** length_penalty)
            beams = grown[:beam]
        return [([word for word in said if word], total) for total, said, _, _ in beams[:captions]]

    return [search(feature) for feature in np.asarray(features, np.float64)]
