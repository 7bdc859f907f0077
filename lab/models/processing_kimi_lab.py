# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Processor of the lab's Kimi-K2.5-shaped model; travels with the checkpoint.

SGLang from 0.5.11 on asks a Kimi-K2.5 checkpoint for one, also for text alone.
"""

from transformers import ProcessorMixin


class _MediaProcessor:
    """Says how images would be cut into patches; the sizes fit the miniature vision tower."""

    media_proc_cfg = {  # noqa: RUF012 - the engine reads a plain dict from the instance
        "patch_size": 14,
        "merge_kernel_size": 2,
        "in_patch_limit": 64,
        "patch_limit_on_one_side": 16,
        "fixed_output_tokens": None,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }

    def media_tokens_calculator(self, media):  # noqa: ARG002 - the engine's own signature
        """Return how many tokens stand for one image."""
        return 1


class KimiLabProcessor(ProcessorMixin):
    """A tokenizer beside the media settings."""

    attributes = ["tokenizer"]  # noqa: RUF012 - transformers' own class attribute
    tokenizer_class = "AutoTokenizer"

    def __init__(self, tokenizer=None, **_kwargs):
        super().__init__(tokenizer)
        self.media_processor = self.image_processor = _MediaProcessor()

    def __call__(self, text=None, return_tensors=None, **_kwargs):
        """Tokenize text."""
        return self.tokenizer(text, return_tensors=return_tensors)
