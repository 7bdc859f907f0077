# SPDX-License-Identifier: Apache-2.0
"""Faults of the GPUs, of kernels on SM120, and of their memory, as the engine tells them."""

from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import (
    CLASS,
    Signature,
)

_LOWER = (
    "lower mem_fraction_static (engine_mem_fraction_static: auto picks one that fits), or the "
    "context length, and look for other processes on the GPUs"
)

SIGNATURES = (
    Signature(
        "symm-mem-capability",
        r"^KeyError: 12\b",
        "symmetric memory has no entry for compute capability 12 in this release: drop "
        "--enable-torch-symm-mem, or apply the two sm120 patches of the catalogue",
        cause="a table of sizes is indexed by the card's capability and has no row for it",
        source="sgl-project/sglang#10571; SGLang 0.5.9 distributed/device_communicators/"
        "torch_symm_mem.py:81",
        releases="<0.5.14",
    ),
    Signature(
        "fusion-flag",
        r"FlashInfer allreduce fusion requires SM90 or SM10X",
        "remove enable-flashinfer-allreduce-fusion from engine_arguments: from 0.5.14 it ends the "
        "start on SM120, before that it did nothing",
        cause="a flag that this release refuses on SM120",
        source="SGLang 0.5.14 layers/flashinfer_comm_fusion.py:51",
        releases=">=0.5.14",
    ),
    Signature(
        "fusion-architecture",
        r"No supported CUDA architectures found for major versions",
        "a kernel without SM120 support was chosen: set the attention backends explicitly and "
        "leave FlashInfer's all-reduce fusion off",
        cause="FlashInfer cannot compile this kernel for SM120",
        source="sgl-project/sglang#15650",
    ),
    Signature(
        "deep-gemm",
        r"deep_?gemm.*(?:Unsupported architecture|Unknown SF transformation)",
        "set SGLANG_ENABLE_JIT_DEEPGEMM: 0 in engine_environment",
        cause="DeepGEMM has no kernels for SM120",
        source="sgl-project/sglang#19948; rtx6kpro wiki, common issues",
    ),
    Signature(
        "attention-architecture",
        r"Unsupported architecture",
        "set prefill and decode attention backends explicitly (triton, or flashinfer) in "
        "engine_arguments; trtllm_mla is chosen by itself in some releases and has no SM120 kernel",
        cause="an attention kernel without SM120 support was chosen",
        source="sgl-project/sglang#24633, flashinfer-ai/flashinfer#3263",
    ),
    Signature(
        "fa3-capability",
        r"FlashAttention v3 Backend requires SM>=80 and SM<=90"
        r"|The 'fa3' backend is not supported on Blackwell",
        "set attention-backend: triton (and mm-attention-backend: triton_attn) in engine_arguments",
        cause="FlashAttention 3 has no kernels for Blackwell",
        source="SGLang 0.5.9 layers/attention/attention_registry.py:133, vision.py:745",
    ),
    Signature(
        "fa4-capability",
        r"FP8 is only supported on SM100 .*FA4|Only SM 10\.x and 11\.x are supported"
        r"|Unsupported compute capability\. Supported: 9\.x, 10\.x",
        "set attention-backend: triton in engine_arguments; fa4 has no SM120 kernels",
        cause="FlashAttention 4 has no kernels for SM120",
        source="sgl-project/sglang#18748, sgl-project/sglang#23985, sgl-project/sglang#28297",
    ),
    Signature(
        "pdmux-capability",
        r"Unsupported compute capability: 12\.\d",
        "remove enable-pdmux from engine_arguments",
        cause="prefill-decode multiplexing knows no SM120",
        source="sgl-project/sglang#32933; SGLang 0.5.9 multiplex/pdmux_context.py:67",
    ),
    Signature(
        "quantization-capability",
        r"quantization method (?P<method>[\w-]+) is not supported for the current GPU",
        r"\g<method> does not run on this card: take weights in another format",
        cause="the weights' format needs another card",
        source="SGLang 0.5.9 model_loader/loader.py:237",
    ),
    Signature(
        "triton-shared-memory",
        r"out of resource: shared memory",
        "a Triton kernel wants more shared memory than SM120 has: choose the flashinfer attention "
        "backend",
        cause="the block sizes were tuned for a card with more shared memory",
        source="sgl-project/sglang#17908",
    ),
    Signature(
        "no-kernel-image",
        r"no kernel image is available for execution on the device"
        r"|with CUDA capability sm_12\d is not compatible with the current PyTorch",
        "install a stack whose torch and kernels are built for sm_120 (CUDA 12.8 or newer); the "
        "stacks of this collection are",
        cause="a package holds no code for SM120",
        source="sgl-project/sglang#12178",
    ),
    Signature(
        "illegal-instruction",
        r"an illegal instruction was encountered|cudaErrorIllegalInstruction",
        "leave all-reduce fusion and custom all-reduce off (disable-custom-all-reduce: true)",
        cause="a kernel uses cluster launch, which SM90 and SM100 have and SM120 has not",
        source="NVIDIA/TensorRT-LLM#13169",
    ),
    Signature(
        "illegal-address",
        r"an illegal memory access was encountered|cudaErrorIllegalAddress",
        "start again with CUDA_LAUNCH_BLOCKING=1 in engine_environment to find the kernel; serve "
        "without a draft to see whether speculation is at fault; clear the release's kernel cache "
        "if packages were changed by hand",
        cause="a kernel reached outside of its memory",
        source="sgl-project/sglang#9388, lightseekorg/tokenspeed#284",
        says=CLASS,
    ),
    Signature(
        "device-assert",
        r"device-side assert triggered",
        "serve without a draft (engine_speculation: off) to see whether speculation is at fault; "
        "compare the vocabularies of draft, target and tokenizer",
        cause="an index was outside of its table on the GPU",
        source="sgl-project/sglang#19796, sgl-project/sglang#26335",
        says=CLASS,
    ),
    Signature(
        "launch-failure",
        r"unspecified launch failure|cudaErrorLaunchFailure",
        "`journalctl -k | grep -i xid` on the node names what the driver saw",
        cause="a kernel died on the GPU",
        source="sgl-project/sglang#3762",
        says=CLASS,
    ),
    Signature(
        "graph-memory",
        r"Capture cuda graph failed: .*out of memory",
        f"{_LOWER}; fewer graphs help too (cuda-graph-max-bs, from 0.5.20 "
        "cuda-graph-max-bs-decode)",
        cause="memory ran out while graphs were captured: weights and KV pool left too little",
        source="SGLang 0.5.9 model_executor/cuda_graph_runner.py:373",
    ),
    Signature(
        "graph-capture",
        r"Capture cuda graph failed:",
        "the text behind it has the reason; disable-cuda-graph tells whether the model runs at all",
        cause="a kernel cannot be captured in a graph",
        source="SGLang 0.5.9 model_executor/cuda_graph_runner.py:373; sgl-project/sglang#4205",
        says=CLASS,
    ),
    Signature(
        "kv-pool-allocation",
        r"(?:OutOfMemoryError|CUDA out of memory).*\(memory_pool\.py:\d+",
        "lower mem_fraction_static: the target's KV pool took all that the fraction allows, and "
        "the draft's pool of as many tokens comes on top (not budgeted up to 0.5.12, and as if a "
        "layer of it were one of the target's later); engine_mem_fraction_static: auto counts both",
        cause="a KV pool did not fit: the draft's is not budgeted",
        source="measured with SGLang 0.5.12.post1 on one H200; 0.5.12.post1 model_executor/"
        "pool_configurator.py:107",
    ),
    Signature(
        "gpu-memory",
        r"OutOfMemoryError|CUDA out of memory|HIP out of memory",
        "GPU memory ran out: lower mem_fraction_static (the draft's KV pool comes on top of it in "
        "several releases) or the context length, and look for other processes on the GPUs",
        cause="GPU memory ran out",
        source="measured with SGLang 0.5.12.post1 on one H200; sgl-project/sglang#25464",
        says=CLASS,
    ),
    Signature(
        "kv-pool-memory",
        r"Not enough memory.*--mem-fraction-static|memory pool.*is too small",
        "no memory is left for the KV cache after the weights: raise mem_fraction_static, or free "
        "GPU memory",
        cause="the weights alone take what mem_fraction_static allows",
        source="SGLang 0.5.9 model_executor/model_runner_kv_cache_mixin.py:417",
    ),
    Signature(
        "kv-pool-exhausted",
        r"(?:Prefill|Decode) out of memory\. Try to lower your batch size",
        "lower max-running-requests, or raise mem_fraction_static where memory is free",
        cause="the KV pool holds fewer tokens than the running requests need",
        source="SGLang 0.5.9 mem_cache/common.py:285",
    ),
    Signature(
        "kv-pool-leak",
        r"(?:pool|allocator) memory leak detected!",
        "restart; if it returns, serve without a draft and report it with the release",
        cause="the engine's own count of its KV pool does not add up",
        source="SGLang 0.5.9 managers/scheduler_runtime_checker_mixin.py:223",
    ),
    Signature(
        "memory-unbalanced",
        r"RuntimeError: The memory capacity is unbalanced",
        "another process holds memory on some of the GPUs: `nvidia-smi` on the node names it; end "
        "what an earlier engine left behind",
        cause="the GPUs do not have the same free memory",
        source="SGLang 0.5.9 model_executor/model_runner.py:842; sgl-project/sglang#23627",
    ),
    Signature(
        "too-few-gpus",
        r"invalid device ordinal",
        "set engine_tp_size to the number of GPUs that `nvidia-smi -L` shows; look for one that "
        "fell off the bus",
        cause="a rank asks for a GPU that is not there",
        source="CUDA runtime API, cudaErrorInvalidDevice",
    ),
    Signature(
        "engine-watchdog",
        r"watchdog timeout \(self\.watchdog_timeout=",
        "the stacks of all ranks stand above in the journal (py-spy): a collective that does not "
        "return is a P2P or NCCL fault (NCCL_P2P_DISABLE: 1 tells); a compile that takes long "
        "needs a larger watchdog-timeout",
        cause="one forward pass took longer than the engine's watchdog allows: it hangs",
        source="SGLang 0.5.9 utils/watchdog.py:152; sgl-project/sglang#3666",
    ),
    Signature(
        "nccl-timeout",
        r"Watchdog caught collective operation timeout",
        "P2P between these cards hangs: IOMMU off or in passthrough, ACS off on the bridges, or "
        "NCCL_P2P_DISABLE: 1 with disable-custom-all-reduce",
        cause="a collective never came back",
        source="NVIDIA/nccl#1999, vllm-project/vllm#33041",
    ),
    Signature(
        "nccl-shared-memory",
        r"Error while creating shared memory segment|failed to extend /dev/shm/nccl"
        r"|Call to posix_fallocate failed : No space left",
        "make /dev/shm larger (mount -o remount,size=32G /dev/shm) and remove /dev/shm/nccl-* of "
        "dead engines",
        cause="shared memory (/dev/shm) is too small, or full of what dead processes left",
        source="NVIDIA/nccl#290, NVIDIA/nccl#342",
    ),
    Signature(
        "nccl-calloc",
        r"Failed to CUDA calloc",
        "lower mem_fraction_static by 0.02: NCCL needs GPU memory of its own, more with a graph "
        "file",
        cause="NCCL found no GPU memory for its buffers",
        source="NVIDIA/nccl#2127",
    ),
    Signature(
        "nccl-peer",
        r"peer access is not supported between these two devices|peer mapping resources exhausted",
        "set NCCL_P2P_DISABLE: 1 in engine_environment, or large BAR1 in the firmware",
        cause="the GPUs cannot reach each other's memory",
        source="club-3090#873",
    ),
    Signature(
        "nccl-system",
        r"NCCL error.*unhandled (?:system|cuda) error|ncclSystemError|ncclUnhandledCudaError",
        "set NCCL_DEBUG: WARN in engine_environment and start again: NCCL then names the call that "
        "failed",
        cause="NCCL could not set up its communicator",
        source="NVIDIA/nccl#328, NVIDIA/nccl#425",
        says=CLASS,
    ),
    Signature(
        "distributed-port",
        r"server socket has failed to listen on any local network address",
        "another engine or a leftover of one holds the port of the process group: `ss -ltnp` names "
        "it; or set dist-init-addr to a free one",
        cause="the port of the process group is taken",
        source="torch distributed, TCPStore; sgl-project/sglang#30110",
    ),
)
