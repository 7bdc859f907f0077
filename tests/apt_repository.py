# SPDX-License-Identifier: Apache-2.0
"""A small, signed apt repository with NVIDIA's names, versions and dependencies.

The packages hold next to nothing. What stands in for hardware is named so: at boot, the kernel
module's package makes `/sys/module/nvidia/version` appear on the node that it is installed on.
Names, versions and the shape of dependencies are those of NVIDIA's repositories in 2026: exact
dependencies inside the driver, lower bounds on its companions, branch suffixes on Ubuntu up to 580.
"""

from __future__ import annotations

import argparse
import email.utils
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MULTIARCH = "x86_64-linux-gnu"
MODULE_UNIT = """\
[Unit]
Description=Stand-in for the NVIDIA kernel module: its version appears in /sys
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/lib/nvidia/load-stand-in
"""
LOAD = """\
#!/bin/sh
set -e
version=$(basename "$(ls -d /usr/src/nvidia-*)" | cut -d- -f2)
mkdir -p /run/stand-in-modules/nvidia
echo "$version" >/run/stand-in-modules/nvidia/version
mount --bind /run/stand-in-modules /sys/module
"""
PERSISTENCED = """\
[Unit]
Description=NVIDIA Persistence Daemon
[Service]
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""
ALTERNATIVES = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
  update-alternatives --install /usr/local/cuda cuda /usr/local/cuda-{version} {priority}
fi
"""


@dataclass(frozen=True)
class Package:
    """One binary package.

    Attributes:
        name: Package name.
        version: Debian version.
        depends: Its relations, by control field.
        files: Path to content; a path with `->` is a link.
        scripts: Maintainer scripts by name.
    """

    name: str
    version: str
    relations: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    architecture: str = "amd64"

    @property
    def file(self) -> str:
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"


def _exact(names: Iterable[str], version: str) -> str:
    return ", ".join(f"{name} (= {version})" for name in names)


def _module_files(upstream: str) -> dict[str, str | bytes]:
    return {
        f"usr/src/nvidia-{upstream}/dkms.conf": f'PACKAGE_VERSION="{upstream}"\n',
        "usr/lib/nvidia/load-stand-in": LOAD,
        "lib/systemd/system/nvidia-module-stand-in.service": MODULE_UNIT,
        "lib/systemd/system/sysinit.target.wants/nvidia-module-stand-in.service"
        "->../nvidia-module-stand-in.service": "",
    }


def _library_files(upstream: str) -> dict[str, str | bytes]:
    return {
        f"usr/lib/{MULTIARCH}/libnvidia-ml.so.{upstream}": "not a library\n",
        f"usr/lib/{MULTIARCH}/libnvidia-ml.so.1->libnvidia-ml.so.{upstream}": "",
    }


def _persistenced(version: str) -> Package:
    files: dict[str, str | bytes] = {"lib/systemd/system/nvidia-persistenced.service": PERSISTENCED}
    return Package("nvidia-persistenced", version, {}, files)


def debian_driver(version: str) -> list[Package]:
    """The compute part of a driver as NVIDIA packages it for Debian; names never had a suffix."""
    upstream = version.partition("-")[0]
    inner = ["libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1"]
    return [
        Package(
            "nvidia-driver-cuda",
            version,
            {"Depends": f"{_exact(inner, version)}, nvidia-persistenced (>= {upstream})"},
        ),
        Package("libcuda1", version, {"Depends": f"libnvidia-ptxjitcompiler1 (= {version})"}),
        Package("libnvidia-ptxjitcompiler1", version),
        Package("libnvidia-ml1", version, {}, _library_files(upstream)),
        Package(
            "nvidia-kernel-open-dkms",
            version,
            {
                "Depends": f"nvidia-kernel-support (>= {upstream}), "
                f"firmware-nvidia-gsp (= {version})",
                "Conflicts": "nvidia-kernel-dkms",
            },
            _module_files(upstream),
        ),
        Package("nvidia-kernel-support", version, {"Depends": f"nvidia-modprobe (>= {upstream})"}),
        Package("nvidia-modprobe", version),
        Package("firmware-nvidia-gsp", version),
        _persistenced(version),
    ]


def ubuntu_driver(version: str) -> list[Package]:
    """The compute part of a driver as NVIDIA packages it for Ubuntu, suffixed up to 580."""
    upstream = version.partition("-")[0]
    branch = upstream.partition(".")[0]
    old = int(branch) < 590

    def name(stem: str, tail: str = "") -> str:
        return f"{stem}-{branch}{tail}" if old else f"{stem}{tail}"

    common = name("nvidia-kernel-common")
    library = {} if old else _library_files(upstream)
    packages = [
        Package(
            name("libnvidia-compute"),
            version,
            {
                "Depends": f"{name('libnvidia-gpucomp')} (= {version}), nvidia-persistenced (>= "
                f"{version}), {common}-{upstream}"
            },
            _library_files(upstream) if old else library,
        ),
        Package(name("libnvidia-gpucomp"), version),
        Package(
            common,
            version,
            {
                "Depends": f"{name('nvidia-firmware')} (= {version}), "
                f"nvidia-modprobe (>= {version})",
                "Provides": f"{common}-{upstream}",
            },
        ),
        Package(name("nvidia-firmware"), version),
        Package("nvidia-modprobe", version),
        _persistenced(version),
        Package(
            name("nvidia-dkms", "-open"),
            version,
            {"Depends": f"{name('nvidia-kernel-source', '-open')} (= {version})"},
            _module_files(upstream),
        ),
        Package(name("nvidia-kernel-source", "-open"), version),
    ]
    if old:
        packages.append(Package(f"nvidia-utils-{branch}", version))
    return packages


def pinning(branch: str, revision: str) -> Package:
    """NVIDIA's own lock on a branch."""
    name = f"nvidia-driver-pinning-{branch}"
    record = (
        "Package: nvidia-* libnvidia-* libcuda1 firmware-nvidia-*\n"
        f"Pin: version {branch}.*\nPin-Priority: 1000\n"
    )
    same = dict.fromkeys(("Provides", "Conflicts", "Replaces"), "nvidia-driver-pinning")
    return Package(
        name, f"{branch}-{revision}", same, {f"etc/apt/preferences.d/{name}": record}, {}, "all"
    )


def toolkit(version: str, wheels: Sequence[Path] = ()) -> list[Package]:
    """A CUDA toolkit that registers itself as /usr/local/cuda; its compiler is NVIDIA's own.

    Args:
        version: Major and minor, like 13.0.
        wheels: NVIDIA's wheels whose files become the toolkit; none makes an empty one.
    """
    dashed, home = version.replace(".", "-"), f"usr/local/cuda-{version}"
    files: dict[str, str | bytes] = {f"{home}/version.json": "{}\n"}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                path = member.filename.partition("nvidia/cu13/")[2]
                if path and not member.is_dir():
                    files[f"{home}/{path}"] = archive.read(member)
    config = f"cuda-toolkit-{dashed}-config-common"
    script = ALTERNATIVES.format(version=version, priority=version.replace(".", ""))
    return [
        Package(
            f"cuda-toolkit-{dashed}",
            f"{version}.2-1",
            {"Depends": f"cuda-nvcc-{dashed} (>= {version}), {config} (>= {version})"},
        ),
        Package(f"cuda-nvcc-{dashed}", f"{version}.88-1", {}, files),
        Package(config, f"{version}.96-1", {}, {}, {"postinst": script}, "all"),
    ]


def headers(release: str) -> Package:
    """Headers of a kernel, enough for their presence to be seen."""
    path = f"lib/modules/{release}/build/Makefile"
    return Package(f"linux-headers-{release}", "1-1", {}, {path: "all:\n"})


def build(package: Package, pool: Path) -> Path:
    """Build a package, unless it is there."""
    target = pool / package.file
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=pool, prefix=".build-") as name:
        root = Path(name)
        for path, content in package.files.items():
            place, _, link = path.partition("->")
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            if link:
                (root / place).symlink_to(link)
            else:
                data = content if isinstance(content, bytes) else content.encode()
                (root / place).write_bytes(data)
                program = data[:2] == b"#!" or data[:4] == b"\x7fELF"
                (root / place).chmod(0o755 if program else 0o644)
        control = root / "DEBIAN"
        control.mkdir()
        fields = {
            "Package": package.name,
            "Version": package.version,
            "Architecture": package.architecture,
            "Maintainer": "Test <test@example.org>",
            "Section": "multiverse/devel",
            **package.relations,
            "Description": "a stand-in with NVIDIA's name",
        }
        (control / "control").write_text("".join(f"{k}: {v}\n" for k, v in fields.items()))
        for script, text in package.scripts.items():
            (control / script).write_text(text)
            (control / script).chmod(0o755)
        root.chmod(0o755)
        command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", name, str(target)]
        subprocess.run(command, check=True, capture_output=True)
    return target


def describe(package: Package, pool: Path) -> str:
    """A package's paragraph in `Packages`."""
    path = pool / package.file
    data = path.read_bytes()
    fields = {
        "Package": package.name,
        "Version": package.version,
        "Architecture": package.architecture,
        **package.relations,
        "Filename": f"pool/{package.file}",
        "Size": str(len(data)),
        "SHA256": hashlib.sha256(data).hexdigest(),
        "Description": "a stand-in with NVIDIA's name",
    }
    return "".join(f"{key}: {value}\n" for key, value in fields.items())


def make_key(home: Path) -> str:
    """Make a signing key in a keyring of its own; its fingerprint is returned."""
    home.mkdir(mode=0o700, parents=True)
    base = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    kind = [
        "--pinentry-mode",
        "loopback",
        "--quick-generate-key",
        "Test <t@example.org>",
        "rsa2048",
    ]
    subprocess.run([*base, *kind, "sign", "never"], check=True, capture_output=True)
    listing = [*base, "--with-colons", "--list-keys"]
    shown = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    return next(line.split(":")[9] for line in shown.splitlines() if line.startswith("fpr:"))


def publish(folder: Path, packages: Iterable[Package], pool: Path, home: Path, age: float) -> None:
    """Write a stage: the index of some packages, signed.

    Args:
        folder: Where.
        packages: Built packages.
        pool: Folder that holds them, beside `folder`.
        home: The signing key's keyring.
        age: Seconds that the stage is old; apt takes a younger one for new.
    """
    folder.mkdir(parents=True)
    (folder / "pool").symlink_to(f"../{pool.name}")
    index = "\n".join(describe(package, pool) for package in packages).encode()
    (folder / "Packages").write_bytes(index)
    (folder / "Packages.gz").write_bytes(gzip.compress(index, mtime=0))
    when = time.time() - age
    lines = [
        "Origin: NVIDIA",
        "Label: NVIDIA CUDA",
        "Architectures: amd64 all",
        f"Date: {email.utils.formatdate(when, usegmt=True).replace('GMT', 'UTC')}",
        "SHA256:",
    ]
    for name in ("Packages", "Packages.gz"):
        data = (folder / name).read_bytes()
        lines.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}")
    release = folder / "Release"
    release.write_text("\n".join(lines) + "\n")
    base = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--yes"]
    sign = [*base, "--clearsign", "--output", str(folder / "InRelease"), str(release)]
    subprocess.run(sign, check=True, capture_output=True)
    export = [*base, "--armor", "--export", "--output", str(folder / "key.asc")]
    subprocess.run(export, check=True, capture_output=True)
    for file in folder.iterdir():
        if not file.is_symlink():
            os.utime(file, (when, when))


def stages(system: str, wheels: Sequence[Path], kernel: str) -> dict[str, list[Package]]:
    """What the repository holds as time goes by, by stage."""
    driver = debian_driver if system == "debian" else ubuntu_driver
    end = "1" if system == "debian" else "0ubuntu1"
    base = [headers(kernel), *toolkit("13.0", wheels)]
    first = [*driver(f"580.95.05-{end}"), *base]
    newer = [*first, *driver(f"580.105.08-{end}"), *toolkit("13.1")]
    branch = [*newer, *driver(f"590.48.01-{end}"), pinning("590", end)]
    return {"first": first, "newer": newer, "branch": branch}


def main() -> int:
    """Build all stages below a folder: `pool`, stages, `fingerprints`; and a tar of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--system", choices=["debian", "ubuntu"], required=True)
    parser.add_argument("--wheels", type=Path, help="folder with NVIDIA's compiler wheels")
    options = parser.parse_args()
    wheels = sorted(options.wheels.glob("*.whl")) if options.wheels else []
    shutil.rmtree(options.folder, ignore_errors=True)
    pool = options.folder / "pool"
    pool.mkdir(parents=True)
    all_stages = stages(options.system, wheels, os.uname().release)
    with tempfile.TemporaryDirectory(prefix="gnupg-") as homes:
        one, two = Path(homes) / "one", Path(homes) / "two"
        prints = [make_key(one), make_key(two)]
        for number, (name, packages) in enumerate(all_stages.items()):
            for package in packages:
                build(package, pool)
            publish(options.folder / name, packages, pool, one, 7200 - 60 * number)
        publish(options.folder / "rotated", all_stages["branch"], pool, two, 3600)
    (options.folder / "fingerprints").write_text("\n".join(prints) + "\n")
    shutil.make_archive(str(options.folder), "tar", options.folder.parent, options.folder.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
