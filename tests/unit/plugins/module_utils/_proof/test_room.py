# SPDX-License-Identifier: Apache-2.0
"""On which GPUs a release is proved while others serve there; nvidia-smi as two H200 said it."""

from __future__ import annotations

from ansible_collections.sm120.sglang.plugins.module_utils._node.processes import parse_gpus
from ansible_collections.sm120.sglang.plugins.module_utils._proof.room import Room, choose

from tests.unit.plugins.module_utils._node.test_processes import RECORDINGS

RECORDED_GPUS = (RECORDINGS / "gpus-held.txt").read_text()
FIRST, SECOND = parse_gpus(RECORDED_GPUS)
FULL = RECORDED_GPUS.replace("35610", "900")


def test_beside_an_engine_that_leaves_room_all_are_used() -> None:
    assert choose([FIRST, SECOND]) == Room()
    assert choose([]) == Room(), "nobody can say"


def test_a_full_card_is_left_out_and_said() -> None:
    room = choose(parse_gpus(FULL))
    assert dict(room.environment) == {"CUDA_VISIBLE_DEVICES": SECOND.uuid}
    (said,) = room.left_out
    assert said.startswith("GPU 0 is left out of the proof: 900 MiB of it are free")
    assert not room.none


def test_an_engine_that_fills_all_its_cards_is_left_alone() -> None:
    room = choose(parse_gpus(FULL.replace("143153", "2047")))
    assert room.none
    assert len(room.left_out) == 2


def test_of_an_engine_with_cards_of_its_own_only_those_count() -> None:
    full = parse_gpus(FULL)
    assert choose(full, "1") == Room()
    assert choose(full, SECOND.uuid) == Room()
    assert choose(full, 0).none
