#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_engine_ready
short_description: Wait until the engine is ready, or say at once why it died
description:
  - Follows one start of the engine's systemd unit from the controller, over one SSH connection of
    its own. The engine's port is reached through that connection and is not opened anywhere.
  - Prints a line whenever the start gets further (weights, KV cache, graphs, warm-up).
  - Ends as soon as the unit is dead or was restarted, with the line that explains it and a remedy,
    not when a clock runs out.
  - Asks C(/model_info) at most once a second; C(/health), which runs a generation of one token in
    releases before 0.5.20, at most every 5 seconds and only once the port is open.
  - On an engine that serves already it returns after one C(/model_info) and one readiness request.
  - Uses the host's own SSH settings as OpenSSH resolves them (C(ssh -G)), jump hosts included.
    Host key checking is always on. C(ansible_connection=local) works too.
extends_documentation_fragment: sm120.sglang.engine
options:
  timeout:
    description:
      - Upper bound in seconds. Large models need many minutes; a dead engine ends the wait early.
    type: float
    default: 1800
  rank:
    description:
      - Which of its engine's nodes this is. All but the first answer C(/health) alone, as soon as
        their schedulers have loaded.
    type: int
    default: 0
  others:
    description:
      - The other nodes of the engine, in the same task. The wait ends as soon as one of them is
        seen to be dead.
    type: list
    elements: str
    default: []
notes:
  - Set C(become) unless the remote user may read the journal (group C(systemd-journal)). Only sudo
    is supported.
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Wait for the engine
  sm120.sglang.wait_engine_ready:
    host: 127.0.0.1
    port: 30000
    api_key: "{{ engine_api_key }}"
    timeout: 3600
    remedies:
      - pattern: has no attribute 'set_eagle3_layers_to_capture'
        remedy: apply the patch kimi_k25_eagle3_delegation
  become: true
"""

RETURN = r"""
ready:
  description: Whether the engine is ready.
  returned: always
  type: bool
already_serving:
  description: Whether it was ready before this task looked.
  returned: always
  type: bool
seconds:
  description: Seconds from the unit's start to ready; 0 when it served already.
  returned: always
  type: float
waited:
  description: Seconds that this task took.
  returned: always
  type: float
phase:
  description: The last phase seen (starting, loading, memory, compiling, graphs, warmup, ready).
  returned: always
  type: str
phase_times:
  description: Seconds spent in each phase that was seen.
  returned: always
  type: dict
  sample: {starting: 30.1, loading: 412.6, memory: 3.2, graphs: 61.0, warmup: 9.4}
release:
  description: The version that the engine says it has.
  returned: when ready
  type: str
  sample: 0.5.9
invocation_id:
  description: systemd's identifier of this start.
  returned: always
  type: str
main_pid:
  description: The engine's main process.
  returned: always
  type: int
lost_to:
  description: The other node of the engine that was seen to be dead, empty without one.
  returned: always
  type: str
engine:
  description: What C(/model_info) says about the model; never its secrets.
  returned: always
  type: dict
cause:
  description: Why the engine died.
  returned: when it died
  type: dict
  contains:
    summary:
      description: One line, mostly an exception.
      type: str
    location:
      description: Where the engine's own code raised it.
      type: str
      sample: model_runner.py:622
    root:
      description: The first exception of the chain, where it is another one.
      type: str
    rank:
      description: The rank that failed first, where the engine names it.
      type: str
    evidence:
      description: Frames or journal lines.
      type: list
      elements: str
    remedy:
      description: What to do, empty when unknown.
      type: str
    signature:
      description: Which entry of the tables matched.
      type: str
    known:
      description: What that entry says, empty when none matched.
      type: str
    source:
      description: Where that entry comes from, a public thread or a release's file and line.
      type: str
    chain:
      description: The whole chain of exceptions, oldest first, each with its innermost frames.
      type: list
      elements: str
"""
