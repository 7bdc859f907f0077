# SPDX-License-Identifier: Apache-2.0
"""Headers of weight files: what they hold, what is refused, and what is not read twice."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _safetensors


def write(path: Path, tensors: dict[str, tuple[str, list[int], int]]) -> None:
    """A file with a header and no data, as long as its header says."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + end)


def test_tensors_of_one_kind_are_counted_together(tmp_path: Path) -> None:
    write(
        tmp_path / "a.safetensors",
        {
            "layers.0.q_proj.weight": ("BF16", [4, 8], 64),
            "layers.11.q_proj.weight": ("BF16", [4, 8], 64),
        },
    )
    write(tmp_path / "b.safetensors", {"layers.2.q_proj.weight": ("BF16", [4, 8], 64)})
    read = _safetensors.read_weights(tmp_path, ["b.safetensors", "a.safetensors", "config.json"])
    assert read["problem"] == ""
    assert read["groups"] == [
        {
            "name": "layers.*.q_proj.weight",
            "dtype": "BF16",
            "shape": [4, 8],
            "count": 3,
            "bytes": 192,
        }
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "shorter than a header"),
        (b"\xff" * 8 + b"{}", "does not fit into the file"),
        (struct.pack("<Q", 3) + b"abc", "is not JSON"),
        (struct.pack("<Q", 2) + b"[]", "is no mapping"),
        (struct.pack("<Q", 8) + b'{"a":{}}', "is malformed"),
    ],
)
def test_what_is_no_weight_file_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "a.safetensors").write_bytes(content)
    read = _safetensors.read_weights(tmp_path, ["a.safetensors"])
    assert read["groups"] == []
    assert "a.safetensors" in read["problem"]
    assert problem in read["problem"]


def test_a_missing_file_and_no_file_at_all_are_named(tmp_path: Path) -> None:
    assert "No such file" in _safetensors.read_weights(tmp_path, ["a.safetensors"])["problem"]
    assert _safetensors.read_weights(tmp_path, ["x.bin"])["problem"] == "no safetensors files"


def test_a_file_is_read_again_only_after_it_changed(tmp_path: Path) -> None:
    path, cache = tmp_path / "a.safetensors", tmp_path / ".1.headers"
    write(path, {"x": ("BF16", [2], 4)})
    first = _safetensors.read_weights(tmp_path, [path.name], cache)
    stored = cache.read_bytes()
    assert _safetensors.read_weights(tmp_path, [path.name], cache) == first
    assert cache.read_bytes() == stored
    # The cache is what is believed while size and time stand...
    changed = json.loads(stored)
    changed[path.name]["groups"][0]["bytes"] = 99
    cache.write_text(json.dumps(changed))
    assert _safetensors.read_weights(tmp_path, [path.name], cache)["groups"][0]["bytes"] == 99
    # ... and no longer.
    os.utime(path, ns=(1, 1))
    assert _safetensors.read_weights(tmp_path, [path.name], cache) == first


@pytest.mark.parametrize("content", ["{", "[]", '{"a.safetensors": 1}'])
def test_a_damaged_cache_is_no_error(tmp_path: Path, content: str) -> None:
    write(tmp_path / "a.safetensors", {"x": ("BF16", [2], 4)})
    cache = tmp_path / ".1.headers"
    cache.write_text(content)
    read = _safetensors.read_weights(tmp_path, ["a.safetensors"], cache)
    assert (read["problem"], len(read["groups"])) == ("", 1)


def test_a_cache_that_cannot_be_kept_is_no_error(tmp_path: Path) -> None:
    write(tmp_path / "a.safetensors", {"x": ("BF16", [2], 4)})
    read = _safetensors.read_weights(tmp_path, ["a.safetensors"], tmp_path / "none/x.headers")
    assert read["problem"] == ""


def test_sixty_four_files_are_fast_the_second_time(tmp_path: Path) -> None:
    """As many tensors a file as Kimi-K2.5 has, in fewer files: the second reading parses none."""
    tensors = {
        f"language_model.model.layers.7.mlp.experts.{expert}.{part}.{kind}": ("I32", [8, 8], 0)
        for expert in range(384)
        for part in ("gate_proj", "up_proj", "down_proj")
        for kind in ("weight_packed", "weight_scale", "weight_shape")
    }
    write(tmp_path / "0.safetensors", tensors)
    names = [f"{number}.safetensors" for number in range(64)]
    for name in names[1:]:
        os.link(tmp_path / names[0], tmp_path / name)
    cache = tmp_path / ".1.headers"
    cold = _safetensors.read_weights(tmp_path, names, cache)
    begun = time.process_time()
    assert _safetensors.read_weights(tmp_path, names, cache) == cold
    assert time.process_time() - begun < 0.3
    assert sum(group["count"] for group in cold["groups"]) == 64 * len(tensors)
