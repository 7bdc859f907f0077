# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._host import pci
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.host.nodes import RECORDINGS, bridges, bus, config_space, good


def real_card() -> bytes:
    text = (RECORDINGS / "h200/gpu-config.hex").read_text().replace("\n", "")
    return bytes.fromhex(text + "0" * (len(text) % 2)).ljust(4096, b"\0")


def test_a_real_card() -> None:
    assert pci.parse_config(real_card()) == {
        "vendor": pci.NVIDIA,
        "device": 0x2335,
        "kind": "endpoint",
        "link": {
            "aspm": False,
            "generation": 5,
            "width": 16,
            "generation_max": 5,
            "width_max": 16,
        },
        "acs": None,  # an SR-IOV endpoint without access control
        "complete": True,
    }


def test_without_root_the_rest_is_not_seen() -> None:
    seen = pci.parse_config(real_card()[:64])
    assert seen["vendor"] == pci.NVIDIA
    assert seen["link"] is None
    assert seen["complete"] is False


@settings(max_examples=50)
@given(
    st.sampled_from([0, 4, 5, 6]),
    st.integers(1, 6),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.integers(0, 0x7F),
    st.integers(0, 3),
)
def test_fields_are_read_where_they_are(
    kind: int, generation: int, width: int, control: int, aspm: int
) -> None:
    space = config_space(0x14AB1022, kind, generation, width, acs=control, aspm=aspm)
    seen = pci.parse_config(space)
    assert (seen["vendor"], seen["device"]) == (0x1022, 0x14AB)
    assert seen["kind"] == {0: "endpoint", 4: "root port"}.get(kind, seen["kind"])
    assert seen["link"]["generation"] == generation
    assert seen["link"]["width"] == width
    assert seen["link"]["aspm"] is (aspm > 0)
    wanted = [name for bit, name in pci.ACS_BITS.items() if control >> bit & 1]
    assert seen["acs"] == wanted


@settings(max_examples=50)
@given(st.binary(max_size=600), st.booleans())
def test_any_bytes_are_read_to_an_end(content: bytes, fill: bool) -> None:
    seen = pci.parse_config(content.ljust(4096, b"\xff") if fill else content)
    assert set(seen) == {"vendor", "device", "kind", "link", "acs", "complete"}


def test_lists_that_go_in_a_circle_end() -> None:
    space = bytearray(config_space(0x14AB1022, 4, 5, 16))
    space[0x78:0x7A] = b"\x05\x60"  # the last capability points back to the first
    space[0x100:0x104] = (0x1000_0001).to_bytes(4, "little")  # the extended one to itself
    seen = pci.parse_config(bytes(space))
    assert seen["link"] is None
    assert seen["acs"] is None


def test_a_bus(tmp_path: Path) -> None:
    node = good()
    node.links[f"sys/devices/{bridges(0)[-1]}/{bus(0)}/driver"] = "../../../bus/pci/drivers/nvidia"
    node.write(tmp_path)
    found = pci.read_pci(tmp_path)
    assert [gpu["address"] for gpu in found["gpus"]] == [bus(card) for card in range(8)]
    assert [gpu["numa"] for gpu in found["gpus"]] == [0] * 4 + [1] * 4
    assert found["gpus"][0]["driver"] == "nvidia"
    above = [bridge for bridge in found["bridges"] if bridge["gpus"]]
    assert len(above) == 24
    kinds = {bridge["kind"] for bridge in above if bus(5) in bridge["gpus"]}
    assert kinds == {"root port", "switch upstream port", "switch downstream port"}
    alone = [bridge for bridge in found["bridges"] if not bridge["gpus"]]
    assert [bridge["address"] for bridge in alone] == ["0000:00:01.1"]
    assert pci.read_pci(tmp_path / "nothing") == {"gpus": [], "bridges": []}
