# SPDX-License-Identifier: Apache-2.0
"""A release beside a complete one of the same wheels, with the real uv."""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import os
import py_compile
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _built, _release
from ansible_collections.sm120.sglang.plugins.modules import release_build, release_seal

FIRST, SECOND = "lab-0123456789ab", "lab-second"
SCRIPT = "[console_scripts]\ntorchrun = torch:main\n"


class Node:
    """A product's folder with a complete first release."""

    def __init__(self, run: Any, build: dict[str, Any], seal: dict[str, Any]) -> None:
        self.run, self.build_arguments, self.seal_arguments = run, build, seal
        self.root = Path(build["root"])

    def build(self, release: str, **more: Any) -> dict[str, Any]:
        built: dict[str, Any] = self.run(
            release_build, {**self.build_arguments, "release": release, **more}
        )
        assert not built.get("failed"), built
        return built

    def seal(self, release: str, shared_with: str) -> Path:
        sealed = self.run(
            release_seal,
            {**self.seal_arguments, "release": release, "shared_with": shared_with},
        )
        assert not sealed.get("failed"), sealed
        return Path(sealed["path"])

    def whole(self, release: str, **more: Any) -> Path:
        return self.seal(release, self.build(release, **more)["shared_with"])


def pinned(wheels: list[Path], pins: list[str]) -> str:
    return "".join(
        f"{pin} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for pin, path in zip(pins, wheels, strict=True)
    )


@pytest.fixture
def node(
    run_module: Any,
    build_arguments: dict[str, Any],
    seal_arguments: dict[str, Any],
    make_wheel: Any,
) -> Node:
    """Its torch has a script, folders, data and a file that is not for this Python."""
    wheels = Path(build_arguments["wheels"])
    more = {
        "torch/nn/__init__.py": "layers = 1\n",
        "torch/lib/data.bin": "data",
        "torch/old.py": "print 'of another Python'\n",
        "torch-2.13.0+cpu.dist-info/entry_points.txt": SCRIPT,
    }
    make_wheel(wheels, "torch", "2.13.0+cpu", more)
    pins = ["sglang==0.5.9", "torch==2.13.0+cpu", "transformers==4.57.6"]
    made = [
        next(wheels.glob(f"{pin.partition('=')[0]}-{pin.rpartition('=')[2]}-*.whl")) for pin in pins
    ]
    node = Node(run_module, {**build_arguments, "requirements": pinned(made, pins)}, seal_arguments)
    node.whole(FIRST)
    return node


def contents(tree: Path) -> dict[str, tuple[str, Any]]:
    """Mode and what stands for the content of everything in a tree, by name."""
    found: dict[str, tuple[str, Any]] = {}
    for path in sorted(tree.rglob("*")):
        name, mode = str(path.relative_to(tree)), oct(path.lstat().st_mode)
        if path.is_symlink():
            found[name] = (mode, str(path.readlink()))
        elif path.suffix == ".pyc":
            # The same code may be written in two ways (which objects marshal refers back to).
            code = marshal.loads(path.read_bytes()[16:])  # noqa: S302 - made by this test
            found[name] = (mode, (code, code.co_filename))
        elif path.is_file() and path.name not in ("files.list", "SHA256SUMS", "COMPLETE"):
            found[name] = (mode, hashlib.sha256(path.read_bytes()).hexdigest())
        else:
            found[name] = (mode, "")
    return found


def sums(tree: Path) -> list[str]:
    lines = (tree / "SHA256SUMS").read_text().splitlines()
    return [line for line in lines if not line.endswith(".pyc")]


def edit_engine(node: Node, release: str) -> None:
    """As a patch does: a new file under the old name."""
    package = node.root / f"releases/.building-{release}"
    path = _release.site_packages(package) / "sglang/srt/models/kimi_k25.py"
    fresh = path.with_suffix(".new")
    fresh.write_text(path.read_text() + "patched = True\n")
    fresh.replace(path)


def test_what_is_taken_over_is_what_a_build_from_nothing_gives(node: Node) -> None:
    built = node.build(SECOND)
    assert (built["shared_with"], built["shared"]) == (FIRST, 2)
    edit_engine(node, SECOND)
    taken = node.seal(SECOND, FIRST)
    first = node.root / "releases" / FIRST
    for name, shared in (("torch/nn/__init__.py", True), ("sglang/srt/server_args.py", False)):
        for path in (name, _built.bytecode_name(name, _built.cache_tag(_of(taken)))):
            assert (_of(first) / path).samefile(_of(taken) / path) is shared, path
    for name in ("COMPLETE", "SHA256SUMS"):
        subprocess.run(["sha256sum", "--check", "--quiet", name], cwd=taken, check=True)
    assert _release.drift(taken, full=True) == []
    assert _release.drift(first, full=True) == []
    seen = contents(taken), sums(taken)

    shutil.rmtree(node.root / "releases")
    shutil.rmtree(node.root / "cache")
    built = node.build(SECOND)
    assert (built["shared_with"], built["shared"]) == ("", 0)
    edit_engine(node, SECOND)
    alone = node.seal(SECOND, "")
    assert (contents(alone), sums(alone)) == seen


def _of(tree: Path) -> Path:
    return _release.site_packages(tree)


def test_every_source_has_its_bytecode(node: Node) -> None:
    """That of an edited one too; one that does not compile has none in any release."""
    node.build(SECOND)
    edit_engine(node, SECOND)
    packages = _of(node.seal(SECOND, FIRST))
    names = [str(path.relative_to(packages)) for path in packages.rglob("*.py")]
    assert len(names) > 5
    assert _built.stale(packages, names, _built.cache_tag(packages)) == ["torch/old.py"]
    python = packages.parents[2] / "bin/python"
    script = "import sglang.srt.models.kimi_k25 as m; print(m.patched, m.Kimi.__init_subclass__)"
    done = subprocess.run([python, "-v", "-c", script], capture_output=True, text=True, check=True)
    assert f"matches {packages}/sglang/srt/models/kimi_k25.py" in done.stderr
    # Where the source lies now is what a traceback names.
    script = (
        "import torch.nn, sys; print(torch.nn.__spec__.loader.get_code('torch.nn').co_filename)"
    )
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{packages}/torch/nn/__init__.py"


def in_place(path: Path, content: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(content)


def compiled_from(path: Path, text: str) -> bytes:
    """Bytecode of another source, with the time and size of the one that is there."""
    source = path.parent.parent / f"{path.name.partition('.')[0]}.py"
    other = path.parents[6] / "other.py"
    other.write_text(text)
    target = other.with_suffix(".pyc")
    py_compile.compile(str(other), cfile=str(target))
    status = source.stat()
    header = importlib.util.MAGIC_NUMBER + b"\0" * 4
    header += (int(status.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little")
    header += status.st_size.to_bytes(4, "little")
    content = header + target.read_bytes()[16:]
    other.unlink()
    target.unlink()
    return content


def replace(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(".fresh")
    fresh.write_bytes(content)
    fresh.replace(path)


BAD = "layers = 666\n"


def bytecode(packages: Path, name: str = "torch/nn/__init__.py") -> Path:
    return packages / _built.bytecode_name(name, _built.cache_tag(packages))


def in_place_and_mark_touched(packages: Path) -> None:
    in_place(bytecode(packages), compiled_from(bytecode(packages), BAD))
    (packages.parents[3] / "COMPLETE").touch()


@pytest.mark.parametrize(
    "edit",
    [
        lambda packages: in_place(packages / "torch/nn/__init__.py", BAD.encode()),
        lambda packages: replace(packages / "torch/nn/__init__.py", BAD.encode()),
        lambda packages: in_place(bytecode(packages), compiled_from(bytecode(packages), BAD)),
        lambda packages: replace(bytecode(packages), compiled_from(bytecode(packages), BAD)),
        in_place_and_mark_touched,
        lambda packages: (packages / "torch/nn/__init__.py").chmod(0o666),
        lambda packages: (packages / "torch/nn/__init__.py").unlink(),
        lambda packages: (packages / "sitecustomize.py").write_text("import torch.nn as n"),
    ],
    ids=[
        "source in place",
        "source replaced",
        "bytecode in place",
        "bytecode replaced",
        "bytecode in place, and the mark touched",
        "mode",
        "source removed",
        "module added",
    ],
)
def test_what_was_changed_by_hand_in_the_first_does_not_reach_the_second(
    node: Node, edit: Callable[[Path], object]
) -> None:
    clean = contents(node.root / "releases" / FIRST)
    edit(_of(node.root / "releases" / FIRST))
    second = node.whole(SECOND)
    found = contents(second)
    assert {name: found[name] for name in found if name in clean} == clean
    assert found.keys() == clean.keys()
    python = second / "venv/bin/python"
    script = "import torch.nn; print(torch.nn.layers)"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
    assert _release.drift(second, full=True) == []
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=second, check=True)


def test_a_changed_release_that_makes_builds_slow_is_named(node: Node) -> None:
    assert "warnings" not in node.build("lab-other")
    in_place(_of(node.root / "releases" / FIRST) / "torch/nn/__init__.py", BAD.encode())
    (said,) = node.build(SECOND)["warnings"]
    assert f"release {FIRST}: 1 of its libraries' files changed by hand" in said
    assert "torch/nn/__init__.py" in said


def test_with_a_full_reading_nothing_is_taken_over(node: Node) -> None:
    """An edit that size and time hide is in uv's cache too, and in no release built that way."""
    edited = _of(node.root / "releases" / FIRST) / "torch/nn/__init__.py"
    status = edited.stat()
    in_place(edited, b"layers = 6\n")
    os.utime(edited, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert _release.drift(node.root / "releases" / FIRST) == []
    built = node.build(SECOND, verify="full")
    assert (built["shared_with"], built["shared"]) == ("", 0)
    assert (Path(built["package"]).parent / "torch/nn/__init__.py").read_text() == "layers = 1\n"


def test_a_release_is_never_rebuilt_from_what_drifted(node: Node) -> None:
    node.whole(SECOND)
    first = node.root / "releases" / FIRST
    edited = _of(first) / "torch/nn/__init__.py"
    in_place(edited, BAD.encode())
    found = _release.drift(first)
    assert found
    built = node.build(FIRST, drift=found)
    assert built["shared_with"] == ""
    assert (_of(node.seal(FIRST, "")) / "torch/nn/__init__.py").read_text() == "layers = 1\n"
    # The other one has the file by the same edit, and says so.
    assert [one["what"] for one in _release.drift(node.root / "releases" / SECOND)] == [
        "changed by hand"
    ]


def test_an_edited_engine_is_rebuilt_from_another_release(node: Node) -> None:
    node.whole(SECOND)
    first = node.root / "releases" / FIRST
    edited = _of(first) / "sglang/srt/server_args.py"
    text = edited.read_text()
    in_place(edited, b"edited = True\n")
    assert node.build(FIRST, drift=_release.drift(first))["shared_with"] == SECOND
    assert (_of(node.seal(FIRST, SECOND)) / "sglang/srt/server_args.py").read_text() == text


def test_only_wheels_that_both_have_are_taken_over(node: Node, make_wheel: Any) -> None:
    wheels = Path(node.build_arguments["wheels"])
    kept = [line for line in node.build_arguments["requirements"].splitlines() if "torch" in line]
    new = [
        make_wheel(wheels, "transformers", "5.0", {"transformers/new.py": "new = 1\n"}),
        make_wheel(wheels, "sglang", "0.5.10", {"sglang/srt/server_args.py": "x = 10\n"}),
    ]
    text = kept[0] + "\n" + pinned(new, ["transformers==5.0", "sglang==0.5.10"])
    built = node.build(SECOND, requirements=text)
    assert (built["shared_with"], built["shared"]) == (FIRST, 1)
    second = node.seal(SECOND, FIRST)
    assert _built.installed(_of(second)) == {
        "torch": "2.13.0+cpu",
        "transformers": "5.0",
        "sglang": "0.5.10",
    }
    assert bytecode(_of(second), "transformers/new.py").is_file()
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=second, check=True)


def test_a_record_that_names_what_is_not_there_is_no_obstacle(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _built.files_of

    def more(folder: Path, packages: str) -> dict[str, str]:
        return {**real(folder, packages), f"{packages}/torch/gone.py": "0" * 64}

    monkeypatch.setattr(_built, "files_of", more)
    tree = node.whole(SECOND, verify="full")
    assert bytecode(_of(tree)).is_file()


def test_without_a_usable_record_every_source_is_compiled(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_built, "files_of", lambda folder, packages: {})
    tree = node.whole(SECOND, verify="full")
    assert bytecode(_of(tree)).is_file()


def test_what_is_built_can_be_read_by_others_under_any_umask(node: Node) -> None:
    before = os.umask(0o077)
    try:
        tree = node.whole(SECOND, verify="full")
    finally:
        os.umask(before)
    paths = [path for path in [tree, *tree.rglob("*")] if not path.is_symlink()]
    assert [path for path in paths if not path.stat().st_mode & stat.S_IROTH] == []


def test_names_that_no_sum_stands_for_are_sealed_too(node: Node, make_wheel: Any) -> None:
    """sha256sum writes a backslash in another way, so such a file has no line in either."""
    wheels, name = Path(node.build_arguments["wheels"]), "torch/lib/odd\\name.bin"
    pins = ["sglang==0.5.9", "torch==2.14.0", "transformers==4.57.6"]
    odd = make_wheel(wheels, "torch", "2.14.0", {"torch/nn/__init__.py": "", name: "data"})
    (other,) = wheels.glob("sglang-0.5.9-*.whl")
    made = [other, odd, next(wheels.glob("transformers-4.57.6-*.whl"))]
    node.build_arguments["requirements"] = pinned(made, pins)
    first, second = node.whole("lab-odd"), node.whole(SECOND)
    assert (_of(first) / name).samefile(_of(second) / name)
    for tree in (first, second):
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tree, check=True)
        assert "odd" not in (tree / "SHA256SUMS").read_text()
        assert _release.drift(tree, full=True) == []
    # What it holds is not read; its size and time are.
    (_of(second) / name).unlink()
    (_of(second) / name).write_text("other data")
    assert [Path(change["file"]).name for change in _release.drift(second)] == [Path(name).name]


def test_another_python_takes_nothing_over(node: Node) -> None:
    """An update of the node's Python: its bytecode may be of no use, and uv says which it is."""
    place = node.root / "releases" / FIRST
    path = place / "venv/pyvenv.cfg"
    path.write_text(path.read_text().replace("version_info = 3", "version_info = 2"))
    paths = _release.Paths(node.root, FIRST)
    place.rename(paths.building)
    _release.seal(paths)
    assert _release.drift(place) == []
    assert node.build(SECOND)["shared_with"] == ""


def test_sums_are_read_where_a_file_was_changed_between_build_and_seal(node: Node) -> None:
    node.build(SECOND)
    packages = _of(node.root / f"releases/.building-{SECOND}")
    in_place(packages / "torch/lib/data.bin", b"more data")  # the first one's too
    replace(packages / "transformers/__init__.py", b"__version__ = '4'  # replaced\n")
    second = node.seal(SECOND, FIRST)
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=second, check=True)


@pytest.mark.parametrize("name", ["gone", "../../etc", FIRST])
def test_a_seal_that_names_a_release_which_is_not_there_reads_everything(
    node: Node, name: str
) -> None:
    node.build(SECOND)
    if name == FIRST:
        (node.root / "releases" / FIRST / "COMPLETE").unlink()
    second = node.seal(SECOND, name)
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=second, check=True)
