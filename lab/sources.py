# SPDX-License-Identifier: Apache-2.0
"""Read the machine's own APT configuration, so that nodes install from where the machine does."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.state import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

# Components that the distributions themselves publish: a vendor's repository that borrows the
# suite name (`bookworm stable`) has others.
_COMPONENTS = {
    "debian": {"main", "contrib", "non-free", "non-free-firmware"},
    "ubuntu": {"main", "restricted", "universe", "multiverse"},
}
_DEBIAN_ALIASES = {"stable", "oldstable"}
_POCKETS = ("", "-updates", "-security", "/updates")
_PERSONAL_ARCHIVE = re.compile(r"(^|[/.])ppa[./]")
# deb822 field -> option of the one-line style, see sources.list(5).
_OPTIONS = {
    "architectures": "arch",
    "languages": "lang",
    "targets": "target",
    "signed-by": "signed-by",
    "trusted": "trusted",
    "by-hash": "by-hash",
    "pdiffs": "pdiffs",
    "allow-insecure": "allow-insecure",
    "check-valid-until": "check-valid-until",
    "check-date": "check-date",
}
_KEPT_SETTINGS = re.compile(
    r"Acquire::(https?(::.*)?|Retries|ForceIPv[46]|Check-Valid-Until|Check-Date)", re.IGNORECASE
)
# A command of this machine, which nodes do not have.
_DROPPED_SETTINGS = re.compile(r".*::Proxy-?Auto-?Detect", re.IGNORECASE)
_FILE_SETTINGS = re.compile(r".*::(CAInfo|CRLFile|SslCert|SslKey|IssuerCert)", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """One binary package source: a single URI and suite.

    Attributes:
        uri: where the archive is.
        suite: `bookworm-updates` and the like.
        components: `main` and the like; empty for a flat repository.
        options: (name, value) pairs in the one-line style, several values joined by commas.
        key: an armored key that stood in the file itself; empty when there was none.
        origin: file:line that it was read from.
    """

    uri: str
    suite: str
    components: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()
    key: str = ""
    origin: str = ""

    @property
    def keyrings(self) -> list[str]:
        """Key files that `signed-by` names (fingerprints, which it may hold too, are no files)."""
        values = dict(self.options).get("signed-by", "").split(",")
        return [value for value in values if value.startswith("/")]

    def one_line(self) -> str:
        """The source as a line of sources.list(5)."""
        options = " ".join(f"{name}={value}" for name, value in self.options)
        bracket = f"[{options}] " if options else ""
        return f"deb {bracket}{self.uri} {self.suite} {' '.join(self.components)}".rstrip()


def parse_list(text: str, name: str) -> list[Source]:
    """Read the one-line style (`*.list`).

    Args:
        text: content of the file.
        name: its path, for messages.

    Returns:
        Its active `deb` entries.

    Raises:
        LabError: a `deb` line is not of that style.
    """
    sources = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.partition("#")[0].strip()
        if not re.match(r"deb\s", entry):
            continue
        match = re.fullmatch(r"deb\s+(?:\[\s*([^]]*?)\s*\]\s+)?(\S+)\s+(\S+)((?:\s+\S+)*)", entry)
        if not match:
            raise LabError(f"{name}:{number}: not a package source: {entry}")
        options, uri, suite, components = match.groups()
        pairs = tuple(
            (option.lower(), value)
            for option, _, value in (word.partition("=") for word in (options or "").split())
        )
        origin = f"{name}:{number}"
        sources.append(Source(uri, suite, tuple(components.split()), pairs, "", origin))
    return sources


def parse_deb822(text: str, name: str) -> list[Source]:
    """Read the deb822 style (`*.sources`).

    Args:
        text: content of the file.
        name: its path, for messages.

    Returns:
        Its enabled `deb` entries, one per URI and suite.

    Raises:
        LabError: a line is neither a field, a continuation, a comment nor blank.
    """
    sources: list[Source] = []
    fields: dict[str, str] = {}
    start, last = 1, ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if not line.strip():
            sources += _from_fields(fields, f"{name}:{start}")
            fields, last = {}, ""
        elif line[0] in " \t" and last:
            fields[last] += f"\n{line.strip()}"
        elif ":" in line and line[0] not in " \t":
            start = number if not fields else start
            last, _, value = line.partition(":")
            last = last.strip().lower()
            fields[last] = value.strip()
        else:
            raise LabError(f"{name}:{number}: not a field of a package source: {line}")
    return sources


def _from_fields(fields: Mapping[str, str], origin: str) -> list[Source]:
    disabled = fields.get("enabled", "yes").lower() in {"no", "false", "0", "off", "without"}
    if disabled or "deb" not in fields.get("types", "").split():
        return []
    signed_by = fields.get("signed-by", "")
    key = ""
    if "BEGIN PGP" in signed_by:
        # A line with only a dot stands for an empty one.
        key = "\n".join("" if line == "." else line for line in signed_by.strip().split("\n"))
    pairs = tuple(
        (option, ",".join(fields[field].split()))
        for field, option in _OPTIONS.items()
        if fields.get(field) and not (field == "signed-by" and key)
    )
    components = tuple(fields.get("components", "").split())
    return [
        Source(uri, suite, components, pairs, f"{key}\n" if key else "", origin)
        for uri in fields.get("uris", "").split()
        for suite in fields.get("suites", "").split()
    ]


def read_sources(etc_apt: Path) -> list[Source]:
    """All package sources of a machine.

    Args:
        etc_apt: its /etc/apt.

    Returns:
        Active `deb` entries of sources.list and sources.list.d, in APT's order.
    """
    files = [etc_apt / "sources.list"]
    folder = etc_apt / "sources.list.d"
    if folder.is_dir():
        files += sorted(path for path in folder.iterdir() if path.suffix in {".list", ".sources"})
    sources: list[Source] = []
    for path in files:
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            parse = parse_deb822 if path.suffix == ".sources" else parse_list
            sources += parse(text, str(path))
    return sources


def of_distribution(
    sources: Iterable[Source], distribution: str, codename: str, mirrors: Mapping[str, str]
) -> list[Source]:
    """Choose the sources of the distribution itself.

    Kept are entries of the suite and its update and security pockets with the distribution's own
    components. When some of them are checked against the distribution's archive keyring, others
    that name a different key are left out: those are third-party archives that borrow the suite's
    name. So are personal package archives, and media that a node cannot reach (cdrom, file).

    Args:
        sources: all sources of the machine.
        distribution: `debian` or `ubuntu`.
        codename: the suite.
        mirrors: content of local mirror lists (`mirror+file:`) by path.

    Returns:
        At least one source; mirror lists are replaced by their preferred mirror.

    Raises:
        LabError: there is none for the suite itself.
    """
    names = {
        f"{base}{pocket}" for base in (codename, *_aliases(distribution)) for pocket in _POCKETS
    }
    seen = list(sources)
    chosen = []
    for source in seen:
        components = tuple(c for c in source.components if c in _COMPONENTS[distribution])
        uri = _resolve_mirror(source, mirrors)
        if (
            source.suite in names
            and components
            and not uri.startswith(("cdrom:", "file:", "copy:"))
            and not _PERSONAL_ARCHIVE.search(uri)
        ):
            chosen.append(
                Source(uri, source.suite, components, source.options, source.key, source.origin)
            )
    archive = f"{distribution}-archive-keyring"
    if any(archive in ring for source in chosen for ring in source.keyrings):
        chosen = [
            source
            for source in chosen
            if not source.key and all(archive in ring for ring in source.keyrings)
        ]
    if not any(source.suite in {codename, *_aliases(distribution)} for source in chosen):
        raise LabError(
            f"no package source for {distribution} {codename} in /etc/apt "
            f"({len(seen)} entries seen, none of the suite itself); "
            "the lab builds its nodes from this machine's own sources"
        )
    return list(dict.fromkeys(chosen))


def _aliases(distribution: str) -> set[str]:
    return _DEBIAN_ALIASES if distribution == "debian" else set()


def mirror_list(uri: str) -> str:
    """Path of the local mirror list that a URI names, else an empty text.

    Args:
        uri: for example `mirror+file:/etc/apt/mirrors.txt`, see apt-transport-mirror(1).
    """
    match = re.fullmatch(r"mirror\+file:(?://)?(/.+)", uri)
    return match.group(1) if match else ""


def _resolve_mirror(source: Source, mirrors: Mapping[str, str]) -> str:
    path = mirror_list(source.uri)
    if not path:
        return source.uri
    entries = []
    for line in mirrors.get(path, "").splitlines():
        uri, *marks = line.partition("#")[0].split() or [""]
        priorities = [int(m.partition(":")[2]) for m in marks if m.startswith("priority:")]
        if uri:
            entries.append((min(priorities, default=2**31), uri))
    if not entries:
        raise LabError(f"{source.origin}: mirror list {path} is missing or empty")
    return min(entries, key=lambda entry: entry[0])[1]


def settings(dump: str, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """APT settings without which a node could not reach the sources: proxies, TLS, validity.

    Args:
        dump: output of `apt-config dump`.
        environ: environment; its proxies count where APT has none of its own, as in apt.conf(5).

    Returns:
        (key, value) pairs.
    """
    kept = []
    for line in dump.splitlines():
        match = re.fullmatch(r'(\S+) "(.*)";', line)
        key, value = match.groups() if match else ("", "")
        if value and _KEPT_SETTINGS.fullmatch(key) and not _DROPPED_SETTINGS.fullmatch(key):
            kept.append((key, value))
    names = {key.lower() for key, _ in kept}
    for scheme in ("http", "https"):
        proxy = environ.get(f"{scheme}_proxy", "")
        if proxy and f"acquire::{scheme}::proxy" not in names:
            kept.append((f"Acquire::{scheme}::Proxy", proxy))
            hosts = (host.strip().lstrip(".") for host in environ.get("no_proxy", "").split(","))
            kept += [(f"Acquire::{scheme}::Proxy::{host}", "DIRECT") for host in hosts if host]
    return kept


def settings_files(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Files (certificates, keys) that such settings name."""
    return [v for key, v in pairs if _FILE_SETTINGS.fullmatch(key) and v.startswith("/")]


def render_settings(pairs: Iterable[tuple[str, str]]) -> str:
    """The settings as a file of /etc/apt/apt.conf.d."""
    return "".join(f'{key} "{value}";\n' for key, value in pairs)


def parse_os_release(text: str) -> dict[str, str]:
    """Fields of an os-release(5) file, quotes removed."""
    fields = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            fields[name] = "".join(shlex.split(value)[:1])
    return fields
