# SPDX-License-Identifier: Apache-2.0
"""The vocabulary: a byte-level BPE in which every word of a list is one token.

The tokens stand in one closed cycle, in which each token's successor is what the target model says
next.  The cycle begins with a colon and readable words, so that a chat prompt, which ends in
`assistant:`, is answered ` one two three four ...`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

# The marks of thinking are one token each, as in Kimi's own tokenizer: 0.5.12 refuses to start with
# a reasoning parser otherwise. The tiny model never says them.
SPECIAL_TOKENS = (
    "<s>",
    "</s>",
    "<|media_pad|>",
    "<|media_start|>",
    "<|media_end|>",
    "<think>",
    "</think>",
)
BOS_ID, EOS_ID, MEDIA_PAD_ID = 0, 1, 2
VOCABULARY_SIZE = 1024
"""Rows of the embedding: a round number, a few of them unused."""

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "assistant:"
)

_WORDS = """
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
million
alfa bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november oscar papa
quebec romeo sierra tango uniform victor whiskey xray yankee zulu
Monday Tuesday Wednesday Thursday Friday Saturday Sunday
January February March April May June July August September October November December
spring summer autumn winter north east south west
red orange yellow green blue indigo violet black white grey
Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune
alpha beta gamma epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon
phi chi psi omega
"""


def words() -> list[str]:
    """Return the words in the order in which the target model says them."""
    return _WORDS.split()


@lru_cache(maxsize=1)
def byte_alphabet() -> tuple[str, ...]:
    """Return the printable character that byte-level BPE writes for each of the 256 byte values.

    Printable Latin-1 characters stand for themselves; the other bytes take the code points from
    256 on, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


def encode_bytes(text: str) -> str:
    """Write text in the alphabet of byte-level BPE (a space becomes `Ġ`)."""
    alphabet = byte_alphabet()
    return "".join(alphabet[byte] for byte in text.encode())


@dataclass(frozen=True)
class Vocabulary:
    """Tokens in the order of their ids, the merges that make them, and the order of the cycle.

    Attributes:
        tokens: token strings in the byte alphabet; the index is the id.
        merges: pairs of tokens, best rank first.
        cycle: ids of all ordinary tokens; each one's successor is the next one, the last one's
            the first.  No special token is in it, so a completion never ends by itself.
    """

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    cycle: tuple[int, ...]

    @cached_property
    def ids(self) -> dict[str, int]:
        """Return the id of every token."""
        return {token: index for index, token in enumerate(self.tokens)}

    def token_id(self, text: str) -> int:
        """Return the id of the one token that writes `text`.

        Raises:
            KeyError: no single token writes it.
        """
        return self.ids[encode_bytes(text)]

    def text(self, ids: list[int]) -> str:
        """Return what ordinary tokens write."""
        value_of = {character: value for value, character in enumerate(byte_alphabet())}
        data = bytes(value_of[character] for index in ids for character in self.tokens[index])
        return data.decode(errors="replace")

    def continuation(self, last: int, count: int) -> list[int]:
        """Return the `count` token ids that the target says after the token `last`.

        A special token is followed by what follows the cycle's first token (see
        `geometry.token_embeddings`).
        """
        start = self.cycle.index(last) if last in self.cycle else 0
        return [self.cycle[(start + step) % len(self.cycle)] for step in range(1, count + 1)]


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    """Build the vocabulary: special tokens, the 256 bytes, then every prefix of every word.

    A word grows letter by letter from its leading space.  No other merge exists, so at any moment
    only one can apply and a word always becomes its one token.

    Raises:
        ValueError: the words need more than `VOCABULARY_SIZE` tokens.
    """
    spoken = [encode_bytes(f" {word}") for word in words()]
    merges: dict[str, tuple[str, str]] = {}
    for word in spoken:
        for end in range(2, len(word) + 1):
            merges.setdefault(word[:end], (word[: end - 1], word[end - 1]))
    tokens = (*SPECIAL_TOKENS, *byte_alphabet(), *merges)
    if len(tokens) > VOCABULARY_SIZE:
        raise ValueError(f"the words need {len(tokens)} tokens of {VOCABULARY_SIZE}: drop some")
    # Readable tokens first; single bytes outside ASCII, which decode to nothing readable, last.
    order = dict.fromkeys((encode_bytes(":"), *spoken, *merges, *byte_alphabet()))
    ids = {token: index for index, token in enumerate(tokens)}
    return Vocabulary(tokens, tuple(merges.values()), tuple(ids[token] for token in order))


def tokenizer_files() -> dict[str, object]:
    """Return the tokenizer's JSON files as `{name: content}`."""
    vocab = vocabulary()
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    special = [
        {"id": index, "content": token, **flags, "special": True}
        for index, token in enumerate(SPECIAL_TOKENS)
    ]
    byte_level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "add_prefix_space": False},
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab.ids,
            "merges": [list(pair) for pair in vocab.merges],
        },
    }
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    return {
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {
            **names,
            "added_tokens_decoder": {
                str(entry["id"]): {key: value for key, value in entry.items() if key != "id"}
                for entry in special
            },
            "chat_template": CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
            "extra_special_tokens": {},
            "model_max_length": 2048,
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
        "special_tokens_map.json": names,
        "generation_config.json": {
            "bos_token_id": BOS_ID,
            "eos_token_id": EOS_ID,
            "pad_token_id": EOS_ID,
        },
    }
