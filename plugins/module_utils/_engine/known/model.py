# SPDX-License-Identifier: Apache-2.0
"""Faults of the models' files and of what they are served with."""

from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import (
    CLASS,
    Signature,
)

SIGNATURES = (
    Signature(
        "corrupt-weights",
        r"SafetensorError|Error while deserializing header|incomplete metadata",
        "a weight file is damaged: verify the model store against its manifest and copy it again",
        cause="a file of the model is not what its publisher made",
        source="recorded with SGLang 0.5.9; huggingface/huggingface_hub#3643",
    ),
    Signature(
        "weights-missing",
        r"Cannot find any model weights with `(?P<path>[^`]+)`",
        r"\g<path> holds no weights: correct the model's source, or copy it again",
        cause="the model's folder has no safetensors",
        source="SGLang 0.5.9 model_loader/loader.py:469",
    ),
    Signature(
        "weights-shape",
        r"Attempted to load weight \((?P<file>[^)]*\)?)\) *into parameter \((?P<wanted>[^)]*\)?)\)"
        r"|size mismatch for",
        "config.json and weights are of two models: verify the store against its manifest; a draft "
        "of another target shows here too",
        cause="the weights do not have the shape that config.json describes",
        source="SGLang 0.5.9 model_loader/weight_utils.py:1028",
    ),
    Signature(
        "architecture",
        r"Model architectures .* are not supported for now",
        "this release does not know that model: take a newer stack, or correct config.json",
        cause="config.json names an architecture that this release has not",
        source="SGLang 0.5.9 models/registry.py:48",
        says=CLASS,
    ),
    Signature(
        "transformers",
        r"but Transformers does not recognize this architecture",
        "this stack's transformers is older than the model: take a newer stack, or keep "
        "trust-remote-code on",
        cause="transformers does not know the model's type",
        source="transformers models/auto/configuration_auto.py",
    ),
    Signature(
        "remote-code",
        r"Please pass the argument `trust_remote_code=True`|contains custom code which must be "
        r"executed",
        "Kimi brings code of its own: leave trust-remote-code on (the role sets it)",
        cause="the model brings code that the engine may not run",
        source="transformers dynamic_module_utils.py",
    ),
    Signature(
        "config-json",
        r"It looks like the config file at '(?P<path>[^']+)' is not a valid JSON file",
        r"\g<path> is damaged: verify the model store against its manifest",
        cause="config.json cannot be read",
        source="transformers configuration_utils.py",
    ),
    Signature(
        "processor",
        r"Can't load (?:image|feature) ?(?:processor|extractor) for"
        r"|file named preprocessor_config\.json",
        "the model's folder lacks the image processor's files: copy all files of the model, not "
        "the weights alone",
        cause="Kimi-K2.5 sees images and its processor is missing",
        source="SGLang 0.5.12.post1 multimodal/processors/kimi_k25.py",
    ),
    Signature(
        "reasoning-mark",
        r"think_end_token '(?P<mark>[^']*)' must encode to exactly one token",
        r"copy the tokenizer's files of the model again; where \g<mark> is no token of its "
        "own in them, serve without a reasoning parser (reasoning-parser: false in "
        "engine_arguments) or take 0.5.17 or newer",
        releases=">=0.5.12,<0.5.17",
        cause="the reasoning parser's mark is several tokens in this tokenizer",
        source="recorded with SGLang 0.5.12.post1; constrained/reasoner_grammar_backend.py:237",
    ),
    Signature(
        "model-path",
        r"Repo id must (?:be|use)|HFValidationError|is not a local folder|LocalEntryNotFoundError"
        r"|couldn't connect to .* to load|outgoing traffic has been disabled",
        "the model path does not exist on the node and the engine took it for a hub name: correct "
        "the path in the engine's arguments",
        cause="the engine looks for the model on the hub",
        source="recorded with SGLang 0.5.9",
    ),
    Signature(
        "tensor-parallel",
        r"AssertionError: (?P<what>\d+ is not divisible by \d+)",
        r"\g<what>: choose an engine_tp_size that divides the model's heads and experts",
        cause="the model cannot be split over this many GPUs",
        source="SGLang 0.5.9 distributed/utils.py:22",
    ),
    Signature(
        "quantization-name",
        r"Unknown quantization method: (?P<method>\S+?)\.",
        r"\g<method> is not in this release: correct the argument, or leave it out (the model's "
        "config names it)",
        cause="this release does not know that quantization",
        source="SGLang 0.5.9 configs/model_config.py:962",
    ),
    Signature(
        "warmup-timeout",
        r"warmup error: .*(?:ReadTimeout|Read timed out|timed out)",
        "the first request compiles kernels and took longer than allowed: raise "
        "SGLANG_WARMUP_TIMEOUT in engine_environment, and start again with the now warm cache",
        cause="the warm-up request did not come back in time",
        source="sgl-project/sglang#13187; SGLang 0.5.9 entrypoints/http_server.py:1811",
    ),
    Signature(
        "warmup",
        r"Initialization failed\. warmup error",
        "the engine's own first request failed: the exception behind it has the reason",
        cause="the warm-up request failed",
        source="SGLang 0.5.9 entrypoints/http_server.py:1811",
        says=CLASS,
    ),
    Signature(
        "arguments",
        r"unrecognized arguments?: (?P<argument>.+)",
        r"this release does not know \g<argument>: remove or rename it in the engine's arguments",
        cause="an argument of another release",
        source="recorded with SGLang 0.5.9",
    ),
    Signature(
        "argument-ambiguous",
        r"ambiguous option: (?P<argument>--[\w-]+)\S* could match (?P<options>.+)",
        r"\g<argument> is gone from this release; name one of \g<options> instead",
        cause="argparse completes a removed argument to several newer ones",
        source="SGLang 0.5.20 arg_groups/fields (cuda-graph-max-bs was split)",
        releases=">=0.5.20",
    ),
    Signature(
        "argument-value",
        r"argument refused: (?P<argument>argument .+)",
        "correct that value in the engine's arguments",
        cause="a value that this release refuses",
        source="SGLang 0.5.9 server_args.py",
        says=CLASS,
    ),
)
