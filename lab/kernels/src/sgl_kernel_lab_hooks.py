# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLC0415 - nothing heavy may be imported when the interpreter starts
"""Import hooks of the CPU stand-ins, installed when the interpreter starts.

A `.pth` file calls `install`: a `sitecustomize` module of a wheel would be shadowed by the
distribution's own.  Installing costs a list insertion; torch is imported only when a module that a
hook waits for is imported.

1. The torchvision wheel of the package index is linked to CUDA.  Beside a CPU torch its operators
   do not load, and its own import then fails while registering fakes for them ("operator
   torchvision::nms does not exist").  The two schemas are declared just before.
2. Up to about 0.5.15, `sglang.srt.speculative.eagle_utils` picks its kernels only under CUDA and
   leaves their names undefined elsewhere (0.5.9, eagle_utils.py:13 and :172).  They are handed over
   right after the module ran.  Newer releases have a CPU branch of their own and are left alone.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_NMS_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def declare_torchvision_schemas(_module: ModuleType) -> None:
    """Declare the operators that torchvision registers fakes for, where it could not load them."""
    import torch
    from torchvision import extension

    if not extension._has_ops():
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", _NMS_SCHEMA)


def provide_eagle_kernels(module: ModuleType) -> None:
    """Give an older `eagle_utils` the kernels that it takes only under CUDA."""
    import torch

    if torch.cuda.is_available() or hasattr(module, "_is_cpu"):
        return
    import sgl_kernel

    module.sgl_build_tree_kernel_efficient = sgl_kernel.build_tree_kernel_efficient
    module._is_cuda = True  # this module's own flag: `verify_tree_greedy_func` asks it


_BEFORE: dict[str, Callable[[ModuleType], None]] = {
    "torchvision._meta_registrations": declare_torchvision_schemas,
}
_AFTER: dict[str, Callable[[ModuleType], None]] = {
    "sglang.srt.speculative.eagle_utils": provide_eagle_kernels,
}


class _HookedLoader(Loader):
    """Runs a module as its own loader would, with a hook before and after."""

    def __init__(self, inner: Loader, name: str) -> None:
        self._inner = inner
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave the choice of the module object to the module's own loader."""
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module between its hooks."""
        if self._name in _BEFORE:
            _BEFORE[self._name](module)
        self._inner.exec_module(module)
        if self._name in _AFTER:
            _AFTER[self._name](module)

    def __getattr__(self, name: str) -> object:
        # inspect and traceback ask the loader for the source.
        return getattr(self._inner, name)


class HookFinder(MetaPathFinder):
    """Wraps the loader of exactly the modules that have a hook."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Find a hooked module where it would be found anyway; leave all others alone."""
        if fullname not in _BEFORE and fullname not in _AFTER:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _HookedLoader(spec.loader, fullname)
        return spec


def install() -> None:
    """Put the hooks first in the import system, once."""
    if not any(isinstance(finder, HookFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, HookFinder())
