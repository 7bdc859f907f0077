# SPDX-License-Identifier: Apache-2.0
"""bfloat16 rounding, reproducible noise, and files that the real library reads."""

from __future__ import annotations

import json
import math
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from lab.models.tensors import Tensor, bfloat16, from_bfloat16, noise, ones, serialize, zeros

LARGEST = 3.3895313892515355e38  # bfloat16's own


def value_of(bits: int) -> float:
    """Return the number that 16 bits stand for, read by the definition of the format."""
    (number,) = struct.unpack(">f", struct.pack(">I", bits << 16))
    return float(number)


@given(st.floats(-LARGEST, LARGEST, width=32))
def test_rounding_takes_the_nearest_and_the_even_one_of_two(number: float) -> None:
    bits = int(bfloat16([number]).values[0])
    chosen = value_of(bits)
    assert math.copysign(1, chosen) == math.copysign(1, number)
    for neighbour in (bits - 1, bits + 1):
        other = value_of(neighbour & 0xFFFF)
        if not math.isfinite(other) or (neighbour & 0x8000) != (bits & 0x8000):
            continue
        mine = abs(Fraction(chosen) - Fraction(number))
        theirs = abs(Fraction(other) - Fraction(number))
        assert mine < theirs or (mine == theirs and bits % 2 == 0)


@pytest.mark.parametrize(
    ("number", "bits"),
    [
        pytest.param(1.0, 0x3F80, id="exact"),
        pytest.param(-2.0, 0xC000, id="sign"),
        pytest.param(1.0 + 2**-8, 0x3F80, id="tie to even, down"),
        pytest.param(1.0 + 3 * 2**-8, 0x3F82, id="tie to even, up"),
        pytest.param(1.0 + 2**-8 + 2**-20, 0x3F81, id="above half"),
        pytest.param(2.0 - 2**-9, 0x4000, id="carry into the exponent"),
    ],
)
def test_rounding_by_hand(number: float, bits: int) -> None:
    tensor = bfloat16(number)
    assert tensor.dtype == "bfloat16"
    assert int(tensor.values) == bits
    assert float(from_bfloat16(tensor.values)) == value_of(bits)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 3.4e38])
def test_what_is_not_finite_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        bfloat16([0.0, number])


def test_noise_depends_on_the_name_alone() -> None:
    assert np.array_equal(noise("a", (4, 8), 1.0).values, noise("a", (4, 8), 1.0).values)
    assert not np.array_equal(noise("a", (4, 8), 1.0).values, noise("b", (4, 8), 1.0).values)


def test_noise_has_the_asked_deviation_and_no_bias() -> None:
    numbers = from_bfloat16(noise("a", (200, 500), 0.05).values).astype(np.float64)
    assert numbers.std() == pytest.approx(0.05, rel=0.01)
    assert abs(numbers.mean()) < 0.001
    assert abs(numbers).max() <= 0.05 * math.sqrt(3) * 1.004


def test_first_values_of_the_noise_are_pinned() -> None:
    # A change here changes every model: their digests are recorded where they were deployed.
    assert noise("pinned", (4,), 1.0).values.tolist() == [48066, 48922, 48942, 48184]


def test_a_file_reads_back_in_the_real_library(tmp_path: Path) -> None:
    tensors = {
        "b.numbers": bfloat16([[1.0, -2.5], [0.0, 3.0]]),
        "a.offsets": Tensor("int64", np.array([1, 2, 3], dtype="<i8")),
        "flags": Tensor("bool", np.array([True, False])),
    }
    path = tmp_path / "file.safetensors"
    path.write_bytes(serialize(tensors))
    with safe_open(path, framework="np") as opened:
        assert opened.metadata() == {"format": "pt"}
        assert set(opened.keys()) == set(tensors)
        assert opened.get_tensor("a.offsets").tolist() == [1, 2, 3]
        assert opened.get_tensor("flags").tolist() == [True, False]
        assert opened.get_slice("b.numbers").get_dtype() == "BF16"
        assert opened.get_slice("b.numbers").get_shape() == [2, 2]


def test_a_transposed_array_is_stored_in_its_own_order() -> None:
    turned = bfloat16(np.arange(6.0).reshape(2, 3).T)
    content = serialize({"x": turned})
    (length,) = struct.unpack("<Q", content[:8])
    assert json.loads(content[8 : 8 + length])["x"]["shape"] == [3, 2]
    stored = np.frombuffer(content[8 + length :], dtype="<u2")
    assert from_bfloat16(stored).tolist() == [0, 3, 1, 4, 2, 5]


def test_order_of_the_tensors_does_not_matter() -> None:
    one, two = ones(3), zeros(2)
    assert serialize({"one": one, "two": two}) == serialize({"two": two, "one": one})
