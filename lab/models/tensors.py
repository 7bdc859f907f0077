# SPDX-License-Identifier: Apache-2.0
"""Tensors without torch: bfloat16, noise that is the same everywhere, safetensors files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import safetensors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Tensor:
    """Values as they are stored.

    Attributes:
        dtype: the element type's name in safetensors.
        values: the stored bits; bfloat16 is held as uint16.
    """

    dtype: str
    values: npt.NDArray[Any]


def bfloat16(values: npt.ArrayLike) -> Tensor:
    """Round to bfloat16, to nearest, ties to even.

    Args:
        values: finite numbers of any shape.

    Raises:
        ValueError: a value is not finite, or too large for bfloat16.
    """
    single = np.asarray(values, dtype=np.float32)
    bits = single.view(np.uint32)
    # Adding just under half of the dropped part, plus the kept part's last bit, carries upward
    # exactly when the dropped part is above one half, or is one half beside an odd kept part.
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16).astype(np.uint16)
    if ((rounded & np.uint16(0x7F80)) == np.uint16(0x7F80)).any():
        raise ValueError("a value is not finite in bfloat16")
    return Tensor("bfloat16", rounded)


def from_bfloat16(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Return the numbers that bfloat16 bits stand for."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def noise(name: str, shape: Sequence[int], deviation: float) -> Tensor:
    """Return reproducible pseudo-random bfloat16 values that depend on the name alone.

    Drawn from SHAKE-256 of the name, so they are the same with every numpy and processor, and
    adding a tensor changes no other.

    Args:
        name: seed; a tensor's own name.
        shape: shape of the result.
        deviation: standard deviation; the distribution is uniform around zero.
    """
    count = int(np.prod(shape))
    drawn = np.frombuffer(hashlib.shake_256(name.encode()).digest(2 * count), dtype="<i2")
    # i2 / 2**15 is uniform in [-1, 1), whose standard deviation is 1/sqrt(3).
    return bfloat16((drawn / 2**15 * np.sqrt(3) * deviation).reshape(shape))


def ones(size: int) -> Tensor:
    """Return a vector of ones: the weight of a norm."""
    return bfloat16(np.ones(size))


def zeros(size: int) -> Tensor:
    """Return a vector of zeros: a bias."""
    return bfloat16(np.zeros(size))


def serialize(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the content of a safetensors file with these tensors."""
    arrays = {name: np.ascontiguousarray(tensor.values) for name, tensor in tensors.items()}
    specs = {
        name: safetensors.TensorSpec(
            dtype=tensor.dtype,
            shape=list(arrays[name].shape),
            data_ptr=arrays[name].ctypes.data,
            data_len=arrays[name].nbytes,
        )
        for name, tensor in sorted(tensors.items())
    }
    return bytes(safetensors.serialize(specs, {"format": "pt"}))
