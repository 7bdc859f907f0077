# SPDX-License-Identifier: Apache-2.0
"""Names that can be imported but not called.

SGLang imports kernels by the dozen at module level, also those that a CPU engine never calls.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_PACKAGE = "sgl_kernel"
_LEFT_OUT = f"{_PACKAGE}.scalar_type"
"""SGLang falls back to its own copy when this module is missing (0.5.9,
layers/quantization/utils.py), so a placeholder would only do harm."""


class MissingKernel:
    """A kernel that this wheel does not have; calling it, or anything in it, raises."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name

    def __getattr__(self, name: str) -> MissingKernel:
        if name.startswith("_"):
            raise AttributeError(f"{self.__name__} is a placeholder without {name!r}")
        return MissingKernel(f"{self.__name__}.{name}")

    def __call__(self, *_arguments: object, **_options: object) -> None:
        """Refuse, saying which kernel was wanted.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"{self.__name__} is a CUDA kernel, and this is the lab's CPU stand-in for sgl-kernel, "
            "which has only what EAGLE decoding needs. Either an engine option sends the CPU "
            "engine down a CUDA path, or this release needs one more stand-in in lab/kernels."
        )

    def __repr__(self) -> str:
        return f"<missing CUDA kernel {self.__name__}>"


class _PlaceholderLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import system make an ordinary, empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Make every public name of the module a placeholder."""
        prefix = module.__name__

        def placeholder(name: str) -> MissingKernel:
            if name.startswith("__"):
                raise AttributeError(f"module {prefix!r} has no attribute {name!r}")
            return MissingKernel(f"{prefix}.{name}")

        # A module's own __getattr__ answers for the names that it lacks (PEP 562).
        module.__dict__["__getattr__"] = placeholder


class _SubmoduleFinder(MetaPathFinder):
    """Finds `sgl_kernel.anything` that no file provides."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the import system's own signature
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Answer for public submodules of this package, at any depth."""
        package, _, rest = fullname.partition(".")
        if package != _PACKAGE or not rest or rest.startswith("_") or fullname == _LEFT_OUT:
            return None
        return ModuleSpec(fullname, _PlaceholderLoader(), is_package=True)


def install_submodule_finder() -> None:
    """Register the finder behind all others, so that real files win; once."""
    if not any(isinstance(finder, _SubmoduleFinder) for finder in sys.meta_path):
        sys.meta_path.append(_SubmoduleFinder())
