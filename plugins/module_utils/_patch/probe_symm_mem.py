# SPDX-License-Identifier: Apache-2.0
"""Run a release's real symmetric-memory communicator without torch and without a GPU.

Runs in a process of its own: reads one JSON job from standard input, writes one JSON answer.
``torch`` is a stub that reports a compute capability and a world size; everything else of the
``sglang`` package is a stub too, except the communicator's and the tables' own source.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import logging
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

_ELEMENTS = 1024  # a small tensor: eligible for the fast path in every release


class Anything:
    """Stands for whatever the communicator imports but does not need: false, callable, open."""

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *_args: object, **_kwargs: object) -> Anything:
        return Anything()

    def __bool__(self) -> bool:
        return False


class Tensor:
    """A tensor as far as the communicator looks at one."""

    def __init__(self, dtype: object, device: object) -> None:
        self.dtype, self.device, self.shape = dtype, device, (_ELEMENTS,)

    def numel(self) -> int:
        """Number of elements."""
        return _ELEMENTS

    def element_size(self) -> int:
        """Bytes of an element (bfloat16)."""
        return 2

    def view(self, *_shape: object) -> Tensor:
        """Itself: the stub has no layout."""
        return self

    def copy_(self, _other: object) -> Tensor:
        """Itself: the stub has no content."""
        return self

    def __getitem__(self, _index: object) -> Tensor:
        return self


class Device(str):
    """``torch.device``: equal by its text."""

    __slots__ = ()


class Kernels:
    """``torch.ops.symm_mem``: remembers which all-reduce was called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_kwargs: self.called.append(name)


class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers every import below ``torch`` and ``sglang``.

    Args:
        sources: real module sources by dotted name.
        members: members of stub modules by dotted name.
    """

    def __init__(
        self, sources: Mapping[str, str], members: Mapping[str, Mapping[str, object]]
    ) -> None:
        self.sources, self.members = sources, members

    def find_spec(
        self, fullname: str, _path: object = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Claim the module where it belongs to a stubbed package."""
        if fullname.split(".", maxsplit=1)[0] not in {"torch", "sglang"}:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: types.ModuleType) -> None:
        """Fill the module: real source where there is one, else open stubs."""
        name = module.__name__
        if name in self.sources:
            exec(compile(self.sources[name], name, "exec"), module.__dict__)  # noqa: S102
            return
        module.__dict__.update(self.members.get(name, {}))
        module.__dict__["__getattr__"] = _open_member


def _open_member(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    if name.startswith("is_"):
        return lambda *_args: name == "is_cuda"
    return Anything()


class Messages(logging.Handler):
    """Keeps warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self.texts.append(record.getMessage())


def outcome(job: Mapping[str, Any], *, multicast: bool) -> dict[str, Any]:
    """Build the communicator once and let it reduce one tensor.

    Args:
        job: names and sources of the two modules, capability, world size.
        multicast: whether the stubbed hardware reports a multicast address.

    Returns:
        ``result``: ``disabled``, the kernel's name, or ``raises``; ``detail``: the warning or
        the error with the method it came from; ``error``: name of the exception or "".
    """
    kernels, messages = Kernels(), Messages()
    bfloat16 = types.SimpleNamespace(itemsize=2)
    handle = types.SimpleNamespace(multicast_ptr=4096 if multicast else 0)
    members: dict[str, dict[str, object]] = {
        "torch": {
            "bfloat16": bfloat16,
            "device": Device,
            "Tensor": Tensor,
            "empty_like": lambda tensor: tensor,
            "ops": types.SimpleNamespace(symm_mem=kernels),
            "cuda": types.SimpleNamespace(
                set_device=lambda _device: None,
                get_device_capability=lambda *_device: (job["capability"], 0),
            ),
        },
        "torch.distributed": {"get_world_size": lambda *_group: job["world_size"]},
        "torch.distributed._symmetric_memory": {
            "empty": lambda *_size, device, dtype: Tensor(dtype, device),
            "rendezvous": lambda *_arguments: handle,
        },
    }
    finder = StubFinder(job["sources"], members)
    for name in [name for name in sys.modules if name.split(".")[0] in {"torch", "sglang"}]:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    logging.getLogger().addHandler(messages)
    stage = "import"
    try:
        module = importlib.import_module(job["communicator"])
        kind = _communicator_class(module)
        stage = "__init__"
        communicator = kind(types.SimpleNamespace(group_name="tp"), 0)
        if communicator.disabled:
            return _answer("disabled", messages.texts[-1] if messages.texts else "")
        stage = "all_reduce"
        communicator.all_reduce(Tensor(bfloat16, communicator.device))
    except Exception as error:
        return _answer(
            "raises", f"{type(error).__name__}: {error} in {stage}", type(error).__name__
        )
    finally:
        sys.meta_path.remove(finder)
        logging.getLogger().removeHandler(messages)
    return _answer(kernels.called[-1] if kernels.called else "nothing", "")


def _answer(result: str, detail: str, error: str = "") -> dict[str, Any]:
    return {"result": result, "detail": detail, "error": error}


def _communicator_class(module: types.ModuleType) -> Any:
    for value in vars(module).values():
        own = isinstance(value, type) and value.__module__ == module.__name__
        if own and hasattr(value, "all_reduce"):
            return value
    raise LookupError("no class with all_reduce")


def main(arguments: Sequence[str]) -> int:
    """Answer one job for each multicast case."""
    job = json.load(sys.stdin)
    cases = [{"multicast": case, **outcome(job, multicast=case)} for case in (False, True)]
    sys.stdout.write("\n".join([*arguments, json.dumps(cases)]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
