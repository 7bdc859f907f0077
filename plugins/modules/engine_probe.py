#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_probe
short_description: Name the state that an engine is in
description:
  - Looks at unit, journal and HTTP server over one SSH connection of its own, within a few seconds,
    and changes nothing. A request that does not come back in time is given up and said so.
  - "The states: C(not deployed); C(stopped); C(crashed), with the cause; C(starting), with how
    far it is; C(warming), the port is open and the warm-up runs; C(ready); C(draining), which was
    told to end and finishes what runs; C(overloaded), it does not answer in time but its
    scheduler does; C(hung), the scheduler does not either; C(generation broken), healthy, but its
    answer is wrong or none. docs/operations.md tells them apart."
  - Never fails because of the state; a node that cannot be reached is a failure.
extends_documentation_fragment: sm120.sglang.engine
options:
  root:
    description: The product's folder on the node.
    type: str
    default: /opt/sglang
  timeout:
    description: Seconds that each request may take; they are sent at the same time.
    type: float
    default: 4
  known_answer:
    description:
      - A request whose answer is known, as for M(sm120.sglang.engine_gate). Without one a
        completion of 8 tokens is asked for, and only its absence counts as broken.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
    description: The same in check mode.
seealso:
  - module: sm120.sglang.engine_gate
  - module: sm120.sglang.wait_engine_ready
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Look at the engine
  sm120.sglang.engine_probe:
    api_key: "{{ engine_api_key }}"
  become: true
  register: engine

- name: Say what it does
  ansible.builtin.debug:
    msg: "{{ engine.state }}: {{ engine.why }}"
"""

RETURN = r"""
state:
  description: One of the states above.
  returned: always
  type: str
  sample: ready
why:
  description: What it was decided by, in words.
  returned: always
  type: str
release:
  description: Id of the release that C(current) points to, empty without one.
  returned: always
  type: str
sglang:
  description: SGLang's version, as the engine says, else as it is installed.
  returned: always
  type: str
patches:
  description: Patches of that release.
  returned: always
  type: list
  elements: str
uptime:
  description: Seconds since this start, null when it does not run.
  returned: always
  type: int
restarts:
  description: How often systemd restarted the unit by itself.
  returned: always
  type: int
accept_length:
  description: Tokens per verify step since the start, bonus token included; null until it is known.
  returned: always
  type: float
throughput:
  description: Tokens generated a second, over the engine's last log interval.
  returned: always
  type: float
kv_use:
  description: Used share of the KV pool, 0 to 1.
  returned: always
  type: float
running:
  description: Requests that run.
  returned: always
  type: int
queued:
  description: Requests that wait.
  returned: always
  type: int
gpus:
  description: Each card's memory (MiB), load, temperature and power; empty without cards.
  returned: always
  type: list
  elements: dict
main_pid:
  description: The engine's main process.
  returned: always
  type: int
node:
  description: Which of its engine's nodes this is; 1 is the one that serves.
  returned: always
  type: int
nodes:
  description: How many nodes form the engine, by what runs.
  returned: always
  type: int
invocation_id:
  description: systemd's identifier of this start.
  returned: always
  type: str
seconds:
  description: Seconds that the probe took.
  returned: always
  type: float
problems:
  description: What could not be read.
  returned: always
  type: list
  elements: str
"""
