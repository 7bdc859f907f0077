# SPDX-License-Identifier: Apache-2.0
"""Faults of target and draft together."""

from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import (
    CLASS,
    Signature,
)

SIGNATURES = (
    Signature(
        "eagle3-capture",
        r"has no attribute 'set_eagle3_layers_to_capture'",
        "apply the patch kimi_k25_eagle3_delegation (source_patches_ids), or take SGLang 0.5.10 or "
        "newer, which has the method",
        cause="the target's class cannot hand the draft its hidden states: EAGLE-3 delegation is "
        "missing",
        source="SGLang 0.5.9 model_executor/model_runner.py:622; sgl-project/sglang#19689",
        releases="<0.5.10",
    ),
    Signature(
        "eagle3-embed",
        r"has no attribute '[gs]et_embed_and_head'",
        "apply the whole patch kimi_k25_eagle3_delegation, all three methods; one alone only moves "
        "the crash behind a full load",
        cause="the target's class cannot hand the draft its embedding and head",
        source="SGLang 0.5.9 speculative/eagle_worker.py:157; sgl-project/sglang#18374",
        releases="<0.5.23",
    ),
    Signature(
        "eagle3-not-implemented",
        r"Model (?P<model>\w+) does not implement set_eagle3_layers_to_capture",
        r"\g<model> cannot serve with EAGLE-3 in this release: serve without a draft "
        "(engine_speculation: off), or take a release whose class has the method",
        cause="this release checks for the EAGLE-3 method and does not find it",
        source="SGLang 0.5.23 model_executor/model_runner_components/attention_backend_setup.py:55",
        releases=">=0.5.23",
    ),
    Signature(
        "context-length",
        r"ValueError: .*context_length \((\d+)\) is greater than the derived context_length "
        r"\((\d+)\)",
        r"the draft's context (\2) is shorter than the target's (\1): set "
        r"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 in the engine's environment, or lower the "
        r"context length to \2",
        cause="the draft was trained for a shorter context than the target serves",
        source="SGLang 0.5.9 configs/model_config.py:382; sgl-project/sglang#9388",
    ),
    Signature(
        "spec-v2-topk",
        r"Spec v2 currently only supports topk = 1",
        "set eagle_topk to 1 in engine_speculation_settings, or leave SGLANG_ENABLE_SPEC_V2 out",
        cause="the overlapped speculation of this release drafts a chain, not a tree",
        source="SGLang 0.5.9 server_args.py:2381",
        releases="<0.5.14",
    ),
    Signature(
        "spec-topk-pages",
        r"speculative_eagle_topk > 1 with page_size > 1 is",
        "set eagle_topk to 1 in engine_speculation_settings, or the page size to 1",
        cause="a drafted tree and a paged KV cache do not go together with this attention backend",
        source="SGLang 0.5.9 server_args.py:2458, 0.5.14 arg_groups/speculative_hook.py:402",
    ),
    Signature(
        "draft-mla",
        r"Model architectures .*Eagle3Deepseek\w*.* are not supported",
        "this draft needs SGLang 0.5.12 or newer: take a newer stack, or a draft of the "
        "architecture LlamaForCausalLMEagle3",
        cause="an MLA draft on a release that has only the Llama-shaped one",
        source="SGLang 0.5.12 models/kimi_k25_eagle3.py; sgl-project/sglang#25673",
        releases="<0.5.12",
    ),
    Signature(
        "draft-quantization",
        r"Quantization method specified in the model config \((?P<own>[\w-]+)\) does not match "
        r"the quantization method specified in the `quantization` argument \((?P<given>[\w-]+)\)",
        r"one --quantization is used for target and draft: set speculative-draft-model-quantization"
        r" (\g<own> or unquant) in engine_arguments, or leave quantization out so that each "
        r"model's config decides",
        cause="the draft inherited the target's quantization",
        source="SGLang 0.5.9 configs/model_config.py:943; sgl-project/sglang#28196",
    ),
    Signature(
        "chunked-prefix",
        r"assert forward_batch\.num_prefix_chunks is not None|num_prefix_chunks is not None",
        "set disable-chunked-prefix-cache in engine_arguments, or take a newer release",
        cause="the draft worker overwrote the target's arguments: a long or cached prompt meets "
        "the chunked prefix cache unprepared",
        source="SGLang 0.5.9 models/deepseek_common/attention_forward_methods/forward_mha.py:352; "
        "sgl-project/sglang#22682",
    ),
    Signature(
        "speculation-nan",
        r"Detected errors during sampling! NaN in the logits",
        "serve without a draft (engine_speculation: off) until it is found; a repeated prompt that "
        "hits the prefix cache is the usual trigger: disable-radix-cache tells",
        cause="the logits are not numbers: speculation met a prefix cache hit, or a kernel "
        "computes wrong results",
        source="SGLang 0.5.9 speculative/spec_utils.py:712; sgl-project/sglang#19897",
    ),
    Signature(
        "speculation-bounds",
        r"Out Of Bound Tensor access detected",
        "serve without a draft (engine_speculation: off), or cap engine_context_length at the "
        "draft's own context",
        cause="the draft reads or writes outside of its KV pool",
        source="sgl-project/sglang#3513, sgl-project/sglang#37936",
    ),
    Signature(
        "probability-nan",
        r"probability tensor contains either `inf`, `nan` or element < 0",
        "look at the known answer at temperature 0: when it is wrong too, a kernel computes wrong "
        "results; else serve without a draft",
        cause="sampling got something that is no probability",
        source="sgl-project/sglang#19796, sgl-project/sglang#20043",
        says=CLASS,
    ),
)
