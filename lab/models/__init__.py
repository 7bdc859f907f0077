# SPDX-License-Identifier: Apache-2.0
"""Tiny models whose every answer is known beforehand.

A Kimi-K2.5-shaped target and three EAGLE-3 drafts, small enough to serve on a CPU and made so that
the next token is a fixed function of the last one.  That makes two things certain on every
processor: the text of a completion, and how many draft tokens are accepted.

- `vocabulary`: the words, the tokenizer and the order of the tokens;
- `geometry`: token embeddings on which "the next token" is a rotation;
- `tensors`: bfloat16, reproducible noise, safetensors;
- `target`, `draft`: configuration and weights of the models;
- `build`: the folders, their manifests and the answer to expect.

Served on a CPU they need `--dtype float32`: Triton's interpreter, which runs SGLang's attention
kernels there, multiplies the bit patterns of bfloat16 operands instead of their values
(triton-lang/triton#11584, Triton 3.9.0), and the text is then garbage.

Built from numpy and safetensors alone: a controller needs no torch.
"""
