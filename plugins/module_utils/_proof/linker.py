# SPDX-License-Identifier: Apache-2.0
"""What the dynamic linker's words mean: which two packages of a release do not fit.

All functions are pure. The words are those of glibc's loader as Python's ImportError carries them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ansible_collections.sm120.sglang.plugins.module_utils._stack import normalise

_SYMBOL = re.compile(r"(?P<file>/?[^\s:'\"]+\.so[^\s:]*): undefined symbol: (?P<name>[^\s,'\")]+)")
_LIBRARY = re.compile(r"(?P<name>[^\s:'\"/]+\.so[^\s:]*): cannot open shared object file")
_VERSION = re.compile(
    r"version [`'](?P<name>[A-Za-z]+_[0-9.]+)' not found \(required by (?P<file>[^\s)]+)\)"
)
# First match wins: whose symbol it is.
_OWNERS = (
    (re.compile(r"^_ZNK?(?:3c10|2at|5torch)|^(?:aoti_torch|torch)_"), "torch"),
    (re.compile(r"^nccl"), "nvidia-nccl"),
    (re.compile(r"^cublas"), "nvidia-cublas"),
    (re.compile(r"^cudnn"), "nvidia-cudnn"),
    (re.compile(r"^nvrtc"), "nvidia-cuda-nvrtc"),
    (re.compile(r"^nvJitLink|^__nvJitLink"), "nvidia-nvjitlink"),
    (re.compile(r"^(?:__)?cuda[A-Z]"), "nvidia-cuda-runtime"),
    (re.compile(r"^cu[A-Z]"), "the NVIDIA driver (libcuda)"),
    (re.compile(r"^_?Py"), "Python"),
    (re.compile(r"^(?:TVMFFI|_ZNK?3tvm)"), "apache-tvm-ffi"),
    (re.compile(r"^_ZNK?S[sta]|^_ZNK?9__gnu_cxx|^__cxa"), "the C++ library (libstdc++)"),
)
_LIBRARY_OWNERS = (
    (re.compile(r"^libcuda\.so"), "the NVIDIA driver (libcuda)"),
    (re.compile(r"^libnvidia-ml"), "the NVIDIA driver (libnvidia-ml)"),
    (re.compile(r"^lib(?:torch|c10)"), "torch"),
    (re.compile(r"^libnccl"), "nvidia-nccl"),
    (re.compile(r"^libcudart\.so\.(\d+)"), "the CUDA {0} runtime (nvidia-cuda-runtime)"),
    (re.compile(r"^libnvrtc\.so\.(\d+)"), "the CUDA {0} compiler library (nvidia-cuda-nvrtc)"),
    (re.compile(r"^libcublas(?:Lt)?\.so\.(\d+)"), "the CUDA {0} library cuBLAS (nvidia-cublas)"),
    (re.compile(r"^lib(\w+)\.so\.(\d+)"), "lib{0} {1} of the system"),
)
# Folder in site-packages to the package that owns it, where they differ.
_FOLDERS = {"sgl_kernel": ("sgl-kernel", "sglang-kernel"), "flashinfer": ("flashinfer-python",)}


@dataclass(frozen=True)
class Mismatch:
    """Two things that do not fit.

    Attributes:
        package: The package whose file cannot be loaded, with its version.
        other: Whose symbol or library it misses, with its version where known.
        missing: The symbol in readable form, or the library.
        remedy: What to do.
    """

    package: str
    other: str
    missing: str
    remedy: str

    def sentence(self) -> str:
        """The mismatch for people."""
        return f"{self.package} x {self.other}: {self.missing}. {self.remedy}"


def explain(
    error: str, installed: Mapping[str, str], demangle: Callable[[str], str] | None = None
) -> Mismatch | None:
    """Read a loader error.

    Args:
        error: The exception's text; it may be long and hold the loader's words somewhere.
        installed: Normalised package to version.
        demangle: Turns a mangled C++ name into a readable one; `readable` when left out.

    Returns:
        The pair, or None when the text holds no word of the loader.
    """
    symbol = _SYMBOL.search(error)
    if symbol:
        owner = next((o for p, o in _OWNERS if p.search(symbol["name"])), "an unknown package")
        name = (demangle or readable)(symbol["name"])
        return Mismatch(
            _owner_of(symbol["file"], installed),
            _with_version(owner, installed),
            f"{_short(symbol['file'])} needs {name}, which is not there",
            _remedy(owner),
        )
    version = _VERSION.search(error)
    if version:
        what = {"GLIBC": "the C library", "GLIBCXX": "the C++ library (libstdc++)"}
        label, _, number = version["name"].partition("_")
        return Mismatch(
            _owner_of(version["file"], installed),
            f"{what.get(label, label)} of this node",
            f"{_short(version['file'])} needs {label} {number} or newer",
            "Take a newer system, or a stack whose wheels are older (glibc in the stack file)",
        )
    library = _LIBRARY.search(error)
    if library:
        owner = _library_owner(library["name"])
        return Mismatch(
            _named_before(error, library.start(), installed),
            _with_version(owner, installed),
            f"{library['name']} is not there",
            _remedy(owner),
        )
    return None


def _library_owner(name: str) -> str:
    for pattern, owner in _LIBRARY_OWNERS:
        match = pattern.search(name)
        if match:
            return owner.format(*match.groups())
    return name


def _remedy(owner: str) -> str:
    if "driver" in owner:
        return "Install a driver as new as the stack's CUDA asks for (minimum_driver)"
    if owner.startswith(("the C++", "lib")):
        return "Install that library on the node"
    return (
        "The two were not built for each other: lock the stack with builds of one torch and one "
        "CUDA version, and look whether something was installed into the release by hand"
    )


def _owner_of(file: str, installed: Mapping[str, str]) -> str:
    _, found, rest = file.partition("site-packages/")
    folder = (rest if found else file.rpartition("/")[2]).partition("/")[0]
    for package in _FOLDERS.get(folder, (normalise(folder.partition(".")[0]),)):
        if package in installed:
            return f"{package} {installed[package]}"
    return folder


def _named_before(error: str, position: int, installed: Mapping[str, str]) -> str:
    files = re.findall(r"/[^\s:'\"]*site-packages/[^\s:'\"]+", error[:position])
    return _owner_of(files[-1], installed) if files else "a package of the release"


def _with_version(owner: str, installed: Mapping[str, str]) -> str:
    for name in (owner, f"{owner}-cu13", f"{owner}-cu12"):
        if name in installed:
            return f"{name} {installed[name]}"
    return owner


def _short(file: str) -> str:
    _, found, rest = file.partition("site-packages/")
    return rest if found else file


def readable(symbol: str) -> str:
    """The qualified name of a mangled C++ function, without its arguments.

    Args:
        symbol: As the loader prints it, such as `_ZN3c105ErrorC2ENS_14SourceLocationESs`.

    Returns:
        `c10::Error::Error(...)`; with the mangled form behind it, for a full demangler. A name
        that is not mangled, or whose form this does not read, comes back as it is.
    """
    match = re.match(r"_Z(?P<nested>NK?V?)?(?=\d|S|C|D)", symbol)
    if not match:
        return symbol
    parts: list[str] = []
    rest = symbol[match.end() :]
    while rest:
        number = re.match(r"\d+", rest)
        if number:
            length, start = int(number[0]), number.end()
            if start + length > len(rest):
                return symbol
            parts.append(rest[start : start + length])
            rest = rest[start + length :]
            if not match["nested"]:
                break
        elif rest.startswith("St"):
            parts.append("std")
            rest = rest[2:]
        elif re.match(r"[CD]\d", rest) and parts:
            parts.append(("~" if rest[0] == "D" else "") + parts[-1])
            rest = rest[2:]
        else:
            break  # arguments, templates, substitutions
    if not parts:
        return symbol
    return f"{'::'.join(parts)}(...) [{symbol}]"
