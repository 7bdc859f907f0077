# SPDX-License-Identifier: Apache-2.0
"""Token embeddings on which "the next token" is one fixed rotation.

A token at place t of a cycle of N tokens is embedded as

    e[t] = (c, 0, a cos(w_1 t), a sin(w_1 t), ..., a cos(w_63 t), a sin(w_63 t)),   w_j = 2 pi k_j/N

with 63 distinct whole frequencies k_j.  All embeddings have the same length, and e[t + 1] = R e[t]
for a matrix R that turns each pair by w_j.  The dot product of two different tokens is small
against the length squared, so "which token is this" is answered by the largest dot product, with
a margin that neither rounding nor a little noise can cross.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lab.models.vocabulary import VOCABULARY_SIZE, Vocabulary

Matrix = npt.NDArray[np.float64]

HIDDEN = 128
PAIRS = 63
FIRST_PAIR = 2
"""Dimension 0 is the constant, 1 is unused, the pairs begin at 2."""
CONSTANT = 2.0
"""Value of the constant dimension: the draft opens its MLP gate with it."""
AMPLITUDE = float(np.sqrt((HIDDEN - CONSTANT**2) / PAIRS))
"""Makes the mean square of an embedding 1, so that RMSNorm leaves it as it is."""

_CANDIDATES = 128


def correlation(frequencies: tuple[int, ...], length: int) -> Matrix:
    """Return the mean of cos(2 pi k d / length) over the frequencies, for every distance d.

    Shape (length,); the value at 0 is 1.
    """
    places = np.arange(length)[:, None] * np.array(frequencies)[None, :]
    cosines: Matrix = np.cos(2 * np.pi * places / length)
    mean: Matrix = cosines.mean(axis=1)
    return mean


@lru_cache(maxsize=4)
def frequencies(length: int) -> tuple[int, ...]:
    """Choose the frequencies that keep different tokens of a cycle furthest apart.

    The best of a fixed list of pseudo-random choices: equally spaced frequencies would make some
    tokens indistinguishable.
    """

    def choice(seed: int) -> tuple[int, ...]:
        def rank(frequency: int) -> bytes:
            return hashlib.sha256(f"{seed}/{frequency}".encode()).digest()

        return tuple(sorted(sorted(range(1, (length + 1) // 2), key=rank)[:PAIRS]))

    def worst(candidate: tuple[int, ...]) -> float:
        return float(correlation(candidate, length)[1:].max())

    return min((choice(seed) for seed in range(_CANDIDATES)), key=worst)


def cycle_embeddings(length: int) -> Matrix:
    """Return e[t] for every place of the cycle, shape (length, HIDDEN)."""
    angles = 2 * np.pi * np.arange(length)[:, None] * np.array(frequencies(length)) / length
    embeddings = np.zeros((length, HIDDEN))
    embeddings[:, 0] = CONSTANT
    embeddings[:, FIRST_PAIR::2] = AMPLITUDE * np.cos(angles)
    embeddings[:, FIRST_PAIR + 1 :: 2] = AMPLITUDE * np.sin(angles)
    return embeddings


def rotation(length: int) -> Matrix:
    """Return R with e[t + 1] = R e[t], shape (HIDDEN, HIDDEN)."""
    matrix = np.eye(HIDDEN)
    for pair, frequency in enumerate(frequencies(length)):
        angle = 2 * np.pi * frequency / length
        first = FIRST_PAIR + 2 * pair
        matrix[first : first + 2, first : first + 2] = [
            [np.cos(angle), -np.sin(angle)],
            [np.sin(angle), np.cos(angle)],
        ]
    return matrix


def token_embeddings(vocab: Vocabulary) -> Matrix:
    """Return the embedding of every token id, shape (VOCABULARY_SIZE, HIDDEN).

    Special tokens and unused rows share the embedding of the cycle's first token: whatever the
    prompt ends in, the answer is defined.
    """
    embeddings = cycle_embeddings(len(vocab.cycle))
    table = np.tile(embeddings[0], (VOCABULARY_SIZE, 1))
    table[list(vocab.cycle)] = embeddings
    return table


def next_token_head(vocab: Vocabulary, gain: float) -> Matrix:
    """Return the output layer that names each token's successor.

    Args:
        vocab: tokens and their cycle.
        gain: what an embedding's dot product is multiplied with to become a logit.

    Returns:
        Shape (VOCABULARY_SIZE, HIDDEN): the row of next(t) is gain * e[t] without the constant,
        which all tokens share; rows of special and unused ids are zero.
    """
    embeddings = cycle_embeddings(len(vocab.cycle))
    embeddings[:, 0] = 0.0
    head = np.zeros((VOCABULARY_SIZE, HIDDEN))
    head[[*vocab.cycle[1:], vocab.cycle[0]]] = gain * embeddings
    return head
