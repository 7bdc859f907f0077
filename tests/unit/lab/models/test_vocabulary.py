# SPDX-License-Identifier: Apache-2.0
"""The tokenizer that the real library reads from our files, and the cycle of tokens."""

from __future__ import annotations

import json
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from lab.models import vocabulary as subject
from lab.models.vocabulary import (
    BOS_ID,
    EOS_ID,
    MEDIA_PAD_ID,
    SPECIAL_TOKENS,
    VOCABULARY_SIZE,
    byte_alphabet,
    tokenizer_files,
    vocabulary,
    words,
)


@lru_cache(maxsize=1)
def real_tokenizer() -> Tokenizer:
    """Read our file with the library that the engine reads it with."""
    return Tokenizer.from_str(json.dumps(tokenizer_files()["tokenizer.json"]))


@pytest.fixture
def tokenizer() -> Tokenizer:
    return real_tokenizer()


def test_words_are_many_and_different() -> None:
    assert len(words()) >= 100
    assert len(words()) == len(set(words()))


@pytest.mark.parametrize("word", words())
def test_each_word_is_one_token(tokenizer: Tokenizer, word: str) -> None:
    ids = tokenizer.encode(f" {word}").ids
    assert ids == [vocabulary().token_id(f" {word}")]


@given(st.text(max_size=60).filter(lambda text: not any(t in text for t in SPECIAL_TOKENS)))
def test_any_text_survives_the_round_trip(text: str) -> None:
    real = real_tokenizer()
    ids = real.encode(text).ids
    assert real.decode(ids) == text
    assert vocabulary().text(ids) == text


@given(st.lists(st.sampled_from(words()), min_size=1, max_size=20))
def test_a_spoken_answer_reads_back_as_the_same_tokens(spoken: list[str]) -> None:
    real = real_tokenizer()
    text = "".join(f" {word}" for word in spoken)
    assert real.encode(text).ids == [vocabulary().token_id(f" {word}") for word in spoken]


@pytest.mark.parametrize(
    ("token", "index"), [("<s>", BOS_ID), ("</s>", EOS_ID), ("<|media_pad|>", MEDIA_PAD_ID)]
)
def test_special_tokens_have_the_ids_that_the_configurations_name(
    tokenizer: Tokenizer, token: str, index: int
) -> None:
    assert tokenizer.token_to_id(token) == index
    assert tokenizer.encode(token).ids == [index]
    assert tokenizer.decode([index], skip_special_tokens=True) == ""


def test_a_chat_prompt_ends_in_the_token_that_begins_the_cycle(tokenizer: Tokenizer) -> None:
    assert subject.CHAT_TEMPLATE.endswith("assistant:")
    assert tokenizer.encode("user: hello\nassistant:").ids[-1] == vocabulary().cycle[0]


def test_the_cycle_holds_every_ordinary_token_once_and_no_special_one() -> None:
    ordinary = set(range(len(SPECIAL_TOKENS), len(vocabulary().tokens)))
    assert len(vocabulary().cycle) == len(ordinary)
    assert set(vocabulary().cycle) == ordinary


def test_tokens_are_different_and_fit_the_embedding() -> None:
    tokens = vocabulary().tokens
    assert len(tokens) == len(set(tokens)) <= VOCABULARY_SIZE


def test_byte_alphabet_has_a_letter_of_its_own_for_every_byte() -> None:
    alphabet = byte_alphabet()
    assert len(set(alphabet)) == 256
    assert alphabet[ord(" ")] == "\u0120"
    assert alphabet[ord("A")] == "A"


def test_continuations() -> None:
    vocab = vocabulary()
    assert vocab.text(vocab.continuation(vocab.token_id(":"), 4)) == " one two three four"
    assert vocab.text(vocab.continuation(vocab.token_id(" nine"), 2)) == " ten eleven"
    assert vocab.continuation(vocab.cycle[-1], 1) == [vocab.cycle[0]]
    assert vocab.continuation(EOS_ID, 1) == [vocab.cycle[1]]


def test_a_text_of_two_tokens_has_no_id() -> None:
    with pytest.raises(KeyError):
        vocabulary().token_id(" one two")


def test_too_many_words_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "VOCABULARY_SIZE", 300)
    with pytest.raises(ValueError, match="of 300: drop some"):
        vocabulary.__wrapped__()
