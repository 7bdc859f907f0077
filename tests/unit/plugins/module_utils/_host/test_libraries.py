# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from ansible_collections.sm120.sglang.plugins.module_utils._host import libraries


def write(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_system_without_anything(tmp_path: Path) -> None:
    assert libraries.read_libraries(tmp_path, "") == {"compat": [], "preload": [], "paths": {}}


def test_a_compat_folder_counts_when_the_loader_takes_it(tmp_path: Path) -> None:
    compat = "/usr/local/cuda-13.0/compat"
    write(tmp_path, f"{compat[1:]}/libcuda.so.1")
    # Installed, and on nobody's path: no harm.
    assert libraries.read_libraries(tmp_path, "")["compat"] == []
    write(tmp_path, "etc/ld.so.conf", "# head\ninclude ld.so.conf.d/*.conf\n/opt/lib\n")
    write(tmp_path, "etc/ld.so.conf.d/cuda.conf", f"{compat} # by cuda-compat-13-0\n")
    assert libraries.read_libraries(tmp_path, "")["compat"] == [compat]
    (tmp_path / f"{compat[1:]}/libcuda.so.1").unlink()
    assert libraries.read_libraries(tmp_path, "")["compat"] == []


def test_the_units_path_counts_too(tmp_path: Path) -> None:
    write(tmp_path, "usr/local/cuda/compat/libcuda.so.1")
    found = libraries.read_libraries(tmp_path, 'A=1 "LD_LIBRARY_PATH=/x:/usr/local/cuda/compat"')
    assert found["compat"] == ["/usr/local/cuda/compat"]
    assert found["paths"] == {"the unit": "/x:/usr/local/cuda/compat"}


def test_preloads_are_named_with_their_place(tmp_path: Path) -> None:
    write(tmp_path, "etc/ld.so.preload", "/a.so\n/b.so\n")
    write(tmp_path, "etc/environment", 'PATH="/bin"\nLD_PRELOAD="/c.so"\n')
    write(tmp_path, "etc/sglang/engine.env", "LD_PRELOAD=/d.so\n")
    assert libraries.read_libraries(tmp_path, "LD_PRELOAD=/e.so")["preload"] == [
        "/a.so /b.so (/etc/ld.so.preload)",
        "/c.so (/etc/environment)",
        "/e.so (the unit)",
        "/d.so (/etc/sglang/engine.env)",
    ]


def test_includes_that_name_each_other_end(tmp_path: Path) -> None:
    write(tmp_path, "etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
    write(tmp_path, "etc/ld.so.conf.d/a.conf", "include /etc/ld.so.conf\n/a/compat\n")
    write(tmp_path, "a/compat/libcuda.so")
    assert libraries.read_libraries(tmp_path, "")["compat"] == ["/a/compat"]
