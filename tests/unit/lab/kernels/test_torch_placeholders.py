# SPDX-License-Identifier: Apache-2.0
"""What is not implemented imports, says its name when called, and stays out of torch's way."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import subprocess
import sys
import types
from pathlib import Path

import pytest
import sgl_kernel
import torch
from sgl_kernel import silu_and_mul, spatial
from sgl_kernel.flash_attn import flash_attn_varlen_func
from sgl_kernel_lab_hooks import HookFinder, declare_torchvision_schemas

pytestmark = pytest.mark.torch

SOURCE = Path(sgl_kernel.__file__).parents[1]


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        pytest.param(silu_and_mul, "sgl_kernel.silu_and_mul", id="in the package"),
        pytest.param(
            flash_attn_varlen_func,
            "sgl_kernel.flash_attn.flash_attn_varlen_func",
            id="in a submodule",
        ),
        pytest.param(
            spatial.create_greenctx_stream_by_value,
            "sgl_kernel.spatial.create_greenctx_stream_by_value",
            id="in a placeholder",
        ),
    ],
)
def test_a_missing_kernel_names_itself_when_called(kernel, name):
    with pytest.raises(NotImplementedError, match=rf"^{name} is a CUDA kernel"):
        kernel(torch.zeros(1), out=None)
    assert name in repr(kernel)


def test_scalar_type_stays_missing_so_that_the_engine_falls_back():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("sgl_kernel.scalar_type")


def test_private_names_are_not_invented():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("sgl_kernel._nothing")
    with pytest.raises(AttributeError):
        _ = silu_and_mul.__torch_function__


@pytest.mark.skipif(torch.cuda.is_available(), reason="the stand-ins leave a real CUDA alone")
def test_cuda_housekeeping_does_nothing_without_cuda():
    assert torch.cuda.synchronize() is None
    assert torch.cuda.synchronize(device="cuda:0") is None
    assert torch.cuda.empty_cache() is None


@pytest.mark.parametrize("own_cpu_branch", [False, True])
def test_older_eagle_utils_get_the_kernels_and_newer_ones_are_left_alone(tmp_path, own_cpu_branch):
    name = "sglang.srt.speculative.eagle_utils"
    flag = "_is_cpu = True" if own_cpu_branch else ""
    (tmp_path / "eagle_utils.py").write_text(f"_is_cuda = False\n{flag}\n")
    spec = HookFinder().find_spec(name, [str(tmp_path)])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module._is_cuda is not own_cpu_branch
    kernel = getattr(module, "sgl_build_tree_kernel_efficient", None)
    assert kernel is (None if own_cpu_branch else sgl_kernel.build_tree_kernel_efficient)
    # Tracebacks show source lines: they ask the wrapped loader for them.
    assert "_is_cuda = False" in inspect.getsource(module)


@pytest.mark.parametrize("name", ["sglang.srt.speculative.eagle_worker", "torchvision", "json"])
def test_hooks_leave_all_other_modules_to_the_import_system(name):
    assert HookFinder().find_spec(name) is None


def test_torchvision_operators_that_loaded_are_left_alone(monkeypatch):
    extension = types.SimpleNamespace(_has_ops=lambda: True)
    monkeypatch.setitem(sys.modules, "torchvision", types.SimpleNamespace(extension=extension))
    declare_torchvision_schemas(types.ModuleType("torchvision._meta_registrations"))
    assert not hasattr(torch.ops.torchvision, "nms")


def test_torchvision_imports_although_its_operators_did_not_load(tmp_path):
    # As torchvision does: __init__ imports _meta_registrations, which registers fakes for
    # operators that its CUDA library would have defined.
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("from torchvision import _meta_registrations\n")
    (package / "extension.py").write_text("def _has_ops():\n    return False\n")
    (package / "_meta_registrations.py").write_text(
        "import torch\n"
        "@torch.library.register_fake('torchvision::nms')\n"
        "def nms(*arguments):\n"
        "    return arguments[0]\n"
    )
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(SOURCE)!r}]\n"
        "import sgl_kernel_lab_hooks; sgl_kernel_lab_hooks.install()\n"
        "import torchvision, torch\n"
        "print(torch.ops.torchvision.nms.default._schema)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "float iou_threshold" in done.stdout
