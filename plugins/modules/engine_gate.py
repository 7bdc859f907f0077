#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_gate
short_description: Decide whether a started engine may stay
description:
  - Makes real requests to the engine, over one SSH connection of its own to the node's loopback,
    and gives each check a verdict of its own; a green C(/health) alone never passes.
  - Checks the unit, its port, C(/model_info), readiness, a real completion (the known answer where
    there is one), and the accept length of speculative decoding.
  - "Then, where O(quick) is false and nothing has failed: C(/server_info), the KV cache's size, the
    reasoning parser, sampling, a long prompt and the same again, several requests at once, a tool
    call, a picture, and free GPU memory. A check that does not apply, or is not wanted, is
    C(skipped) and says why."
  - "The accept length is 1 + accepted draft tokens / verify steps, added up over as many requests
    as it takes to reach O(min_verify_steps). Figures that are absent, or of fewer steps, are a
    failure, not a value."
  - A check that is wanted and cannot be made fails, also for want of time; the message names the
    limit. The task fails when a check fails, and warns when one warns.
  - A node that cannot be reached any more is no verdict on its engine (RV(no_verdict)).
extends_documentation_fragment: sm120.sglang.engine
options:
  model:
    description: The served model name; asked of the engine when not given.
    type: str
  known_answer:
    description: A request whose answer is known; sampled at temperature 0.
    type: dict
    suboptions:
      prompt:
        description: A plain text for C(/generate). Either this or O(known_answer.messages).
        type: str
      messages:
        description: Messages for C(/v1/chat/completions).
        type: list
        elements: dict
      max_tokens:
        description: How many tokens to generate at most.
        type: int
        default: 16
      expect:
        description: A text that the answer contains. Either this or O(known_answer.matches).
        type: str
      matches:
        description:
          - A regular expression that is found in the answer; of a model that thinks, in the
            thinking or in what follows.
        type: str
  speculative:
    description: Whether the engine runs with speculative decoding.
    type: bool
    default: true
  min_verify_steps:
    description: Verify steps below which an accept length is not trusted.
    type: int
    default: 40
  accept_length_warn:
    description: Accept length below which the gate warns.
    type: float
    default: 2.0
  accept_length_fail:
    description: Accept length below which the gate fails.
    type: float
    default: 1.2
  request_timeout:
    description:
      - Seconds for one request. The first one may compile kernels for more than a minute.
    type: float
    default: 300
  timeout:
    description: Seconds after which no further check is begun; what is not made by then fails.
    type: float
    default: 1200
  kv_tokens:
    description: Tokens that the KV cache must hold; 0 for no floor.
    type: int
    default: 0
  long_prompt_tokens:
    description:
      - Length of a long prompt, sent twice, with the known question at its end; 0 for none.
      - Where the answer does not say how much of it came from the prefix cache (the chat interface
        does with C(--enable-cache-report) alone), the padding is sent to C(/generate) twice too.
    type: int
    default: 0
  concurrency:
    description: Requests that are sent at once; below 2 none.
    type: int
    default: 0
  sampling:
    description: Whether one request with a temperature is made.
    type: bool
    default: false
  tool_call:
    description: Whether a tool call is asked for, where the engine has a parser for it.
    type: bool
    default: false
  image:
    description: Whether a picture is sent, where the model takes one.
    type: bool
    default: false
  gpu_free_mib:
    description:
      - MiB that should be free on each GPU in the end; the gate warns below, and where
        C(nvidia-smi) does not say it. 0 for none.
    type: int
    default: 0
  quick:
    description:
      - For a re-run without differences; unit, C(/model_info), readiness and one short completion.
    type: bool
    default: false
seealso:
  - module: sm120.sglang.wait_engine_ready
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Prove that the engine serves
  sm120.sglang.engine_gate:
    api_key: "{{ engine_api_key }}"
    known_answer:
      messages:
        - role: user
          content: "Reply with one word: what is the capital of France?"
      max_tokens: 512 # for a model that thinks first
      matches: (?i)\bparis\b
  become: true

- name: Look again, briefly
  sm120.sglang.engine_gate:
    api_key: "{{ engine_api_key }}"
    quick: true
  become: true
"""

RETURN = r"""
verdict:
  description: The worst verdict of all checks (ok, warn, fail).
  returned: always
  type: str
checks:
  description: Every check that was made, in order.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description:
        - unit, port, model_info, readiness, completion or known_answer, accept_length,
          server_info, kv_tokens, reasoning, sampling, long_prompt, repeated_prompt, concurrency,
          tool_call, image, gpu_memory.
      type: str
    verdict:
      description: ok, warn, fail or skipped.
      type: str
    value:
      description: What was measured.
      type: raw
    limit:
      description: What it was measured against.
      type: raw
    evidence:
      description: The numbers behind it.
      type: str
    remedy:
      description: What to do about it, empty when nothing is to be done.
      type: str
no_verdict:
  description: Whether nobody could look; then nothing else is returned, and the engine may be well.
  returned: when the node cannot be asked
  type: bool
answer:
  description: The text that the engine answered to the known question, or in its place.
  returned: always
  type: str
accept_length:
  description: Tokens per verify step, bonus token included; null when not measured.
  returned: always
  type: float
  sample: 2.71
verify_steps:
  description: Verify steps behind the accept length.
  returned: always
  type: int
seconds:
  description: Seconds that the gate took.
  returned: always
  type: float
engine:
  description: What C(/model_info) says about the model; never its secrets.
  returned: always
  type: dict
main_pid:
  description: The engine's main process.
  returned: always
  type: int
invocation_id:
  description: systemd's identifier of this start.
  returned: always
  type: str
"""
