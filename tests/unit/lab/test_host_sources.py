# SPDX-License-Identifier: Apache-2.0
"""Package sources of the machine: both file formats, and which entries nodes get."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import sources
from lab.sources import Source
from lab.state import LabError

if TYPE_CHECKING:
    from pathlib import Path

RING = "/usr/share/keyrings/debian-archive-keyring.gpg"
UBUNTU_RING = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
SIGNED = (("signed-by", RING),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deb http://m/debian bookworm main", [Source("http://m/debian", "bookworm", ("main",))]),
        (
            "deb [ signed-by=/k.gpg arch=amd64,arm64 ] http://m bookworm main contrib  # note",
            [
                Source(
                    "http://m",
                    "bookworm",
                    ("main", "contrib"),
                    (("signed-by", "/k.gpg"), ("arch", "amd64,arm64")),
                )
            ],
        ),
        (
            "  deb\thttp://m  bookworm/updates\tmain",
            [Source("http://m", "bookworm/updates", ("main",))],
        ),
        ("deb http://m ./", [Source("http://m", "./", ())]),
        ("deb-src http://m bookworm main\n# deb http://m bookworm main\n\n", []),
    ],
)
def test_one_line_style(text: str, expected: list[Source]) -> None:
    assert [without_origin(s) for s in sources.parse_list(text, "f")] == expected


def test_one_line_style_names_the_line_that_is_wrong() -> None:
    with pytest.raises(LabError, match=r"^/etc/apt/a\.list:2: not a package source: deb http://m$"):
        sources.parse_list("# fine\ndeb http://m\n", "/etc/apt/a.list")


DEB822 = """\
# written by the installer
Types: deb deb-src
# a comment in the middle
URIs: http://m/debian
Suites: bookworm
 bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://off
Suites: bookworm
Components: main

Types: deb-src
URIs: http://only-source
Suites: bookworm
Components: main


types: deb
uris: http://a http://b
suites: bookworm-security
components: main
architectures: amd64 arm64
trusted: yes
"""


def test_deb822_style() -> None:
    found = [without_origin(s) for s in sources.parse_deb822(DEB822, "f")]
    last = (("arch", "amd64,arm64"), ("trusted", "yes"))
    assert found == [
        Source("http://m/debian", "bookworm", ("main", "contrib"), SIGNED),
        Source("http://m/debian", "bookworm-updates", ("main", "contrib"), SIGNED),
        Source("http://a", "bookworm-security", ("main",), last),
        Source("http://b", "bookworm-security", ("main",), last),
    ]


def test_deb822_style_says_where_an_entry_stood() -> None:
    assert [s.origin for s in sources.parse_deb822(DEB822, "f")] == ["f:2", "f:2", "f:22", "f:22"]


def test_deb822_key_in_the_file_is_kept_apart() -> None:
    text = (
        "Types: deb\nURIs: http://m\nSuites: noble\nComponents: main\nSigned-By:\n"
        " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINBF\n -----END PGP PUBLIC KEY BLOCK-----\n"
    )
    (source,) = sources.parse_deb822(text, "f")
    assert source.options == ()
    assert source.key == (
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQINBF\n-----END PGP PUBLIC KEY BLOCK-----\n"
    )


@pytest.mark.parametrize("line", ["no colon here", " a continuation of nothing"])
def test_deb822_style_names_the_line_that_is_wrong(line: str) -> None:
    with pytest.raises(LabError, match="f:1: not a field"):
        sources.parse_deb822(line, "f")


word = st.text("abcxyz0-9./:", min_size=1, max_size=9).filter(lambda w: w[0].isalpha())


@given(
    uri=word,
    suite=word,
    components=st.lists(word, min_size=1, max_size=3),
    options=st.dictionaries(st.sampled_from(["arch", "trusted", "signed-by"]), word),
)
def test_a_rendered_line_reads_back_the_same(
    uri: str, suite: str, components: list[str], options: dict[str, str]
) -> None:
    source = Source(uri, suite, tuple(components), tuple(options.items()))
    assert [without_origin(s) for s in sources.parse_list(source.one_line(), "")] == [source]


def test_keyrings_are_files_only() -> None:
    options = (("signed-by", "/a.gpg,0123456789ABCDEF,/b.asc"),)
    assert Source("u", "s", (), options).keyrings == ["/a.gpg", "/b.asc"]


def test_read_sources_takes_both_formats_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://one s main\n")
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (folder / "b.sources").write_text("Types: deb\nURIs: http://three\nSuites: s\nComponents: main")
    (folder / "a.list").write_text("deb http://two s main\n")
    (folder / "a.list.disabled").write_text("deb http://no s main\n")
    (folder / "c.sources.save").write_text("nonsense")
    assert [s.uri for s in sources.read_sources(tmp_path)] == [
        "http://one",
        "http://two",
        "http://three",
    ]
    assert sources.read_sources(tmp_path / "missing") == []


def test_only_the_distributions_own_entries_are_kept() -> None:
    every = [
        Source("http://m", "bookworm", ("main", "vendor"), SIGNED),
        Source("http://m", "bookworm-updates", ("main",), SIGNED),
        Source("http://m/security", "bookworm-security", ("main",), SIGNED),
        Source("http://m", "bookworm-backports", ("main",), SIGNED),
        Source("http://m", "trixie", ("main",), SIGNED),
        Source("https://containers", "bookworm", ("stable",), (("signed-by", "/d.asc"),)),
        Source("https://database", "bookworm-pgdg", ("main",), (("signed-by", "/p.asc"),)),
        Source("https://borrowed", "bookworm", ("main",), (("signed-by", "/b.gpg"),)),
        Source("https://inline", "bookworm", ("main",), (), "KEY"),
        Source("cdrom:[Debian 12]/", "bookworm", ("main",)),
        Source("file:/srv/mirror", "bookworm", ("main",)),
        Source("http://m", "bookworm", ("main",), SIGNED),
    ]
    kept = sources.of_distribution(every, "debian", "bookworm", {})
    assert [(s.uri, s.suite, s.components) for s in kept] == [
        ("http://m", "bookworm", ("main",)),
        ("http://m", "bookworm-updates", ("main",)),
        ("http://m/security", "bookworm-security", ("main",)),
    ]


def test_a_mirror_signed_with_its_own_key_is_kept() -> None:
    every = [
        Source("http://inside", "noble", ("main",), (("signed-by", "/etc/apt/keyrings/in.gpg"),)),
        Source("http://inside", "noble-security", ("main",), (), "KEY"),
    ]
    assert sources.of_distribution(every, "ubuntu", "noble", {}) == every


def test_personal_archives_are_not_the_distribution() -> None:
    every = [
        Source("http://m/ubuntu", "jammy", ("main", "universe")),
        Source("https://ppa.example.net/team/tools/ubuntu", "jammy", ("main",)),
        Source("https://example.net/ppa/ubuntu", "jammy", ("main",)),
    ]
    assert sources.of_distribution(every, "ubuntu", "jammy", {}) == every[:1]


def test_debian_aliases_count_as_the_machines_suite() -> None:
    every = [
        Source("http://m", "stable", ("main",)),
        Source("http://m", "stable-updates", ("main",)),
    ]
    assert sources.of_distribution(every, "debian", "trixie", {}) == every


@pytest.mark.parametrize(
    "every",
    [
        [],
        [Source("http://m", "noble", ("main",))],
        [Source("http://m", "jammy-updates", ("main",))],
        [Source("file:/srv", "jammy", ("main",))],
    ],
)
def test_no_source_of_the_suite_is_an_error_that_says_so(every: list[Source]) -> None:
    with pytest.raises(LabError, match="no package source for ubuntu jammy"):
        sources.of_distribution(every, "ubuntu", "jammy", {})


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("mirror+file:/etc/apt/apt-mirrors.txt", "/etc/apt/apt-mirrors.txt"),
        ("mirror+file:///etc/apt/mirrors/debian.list", "/etc/apt/mirrors/debian.list"),
        ("http://m", ""),
        ("mirror://m/list", ""),
    ],
)
def test_mirror_list(uri: str, path: str) -> None:
    assert sources.mirror_list(uri) == path


def test_a_mirror_list_is_replaced_by_its_preferred_mirror() -> None:
    every = [Source("mirror+file:/m.txt", "noble", ("main",), (("signed-by", UBUNTU_RING),))]
    text = "# ours\nhttp://last\nhttp://second/ priority:2\nhttp://first/\tpriority:1\tarch:amd64\n"
    (kept,) = sources.of_distribution(every, "ubuntu", "noble", {"/m.txt": text})
    assert kept.uri == "http://first/"
    with pytest.raises(LabError, match=r"x:1: mirror list /m\.txt is missing or empty"):
        sources.of_distribution(
            [Source("mirror+file:/m.txt", "noble", ("main",), (), "", "x:1")], "ubuntu", "noble", {}
        )


DUMP = """\
APT::Architecture "amd64";
Acquire "";
Acquire::http::Proxy "http://proxy:3128";
Acquire::http::Proxy::inside "DIRECT";
Acquire::http::Proxy-Auto-Detect "/usr/bin/detect";
Acquire::https::CAInfo "/etc/ca.pem";
Acquire::https::mirror.example::SslKey "/etc/key.pem";
Acquire::https::User-Agent "";
Acquire::Check-Valid-Until "false";
Acquire::Retries "3";
DPkg::Post-Invoke:: "/usr/bin/test -e /x || true";
Acquire::Languages:: "none";
"""


def test_settings_keep_what_reaching_the_mirror_takes() -> None:
    pairs = sources.settings(DUMP, {})
    assert pairs == [
        ("Acquire::http::Proxy", "http://proxy:3128"),
        ("Acquire::http::Proxy::inside", "DIRECT"),
        ("Acquire::https::CAInfo", "/etc/ca.pem"),
        ("Acquire::https::mirror.example::SslKey", "/etc/key.pem"),
        ("Acquire::Check-Valid-Until", "false"),
        ("Acquire::Retries", "3"),
    ]
    assert sources.settings_files(pairs) == ["/etc/ca.pem", "/etc/key.pem"]
    assert sources.render_settings(pairs[:1]) == 'Acquire::http::Proxy "http://proxy:3128";\n'


def test_proxies_of_the_environment_count_where_apt_has_none() -> None:
    environ = {
        "http_proxy": "http://e:1",
        "https_proxy": "http://e:2",
        "no_proxy": "a, .b.example,",
    }
    pairs = sources.settings(DUMP, environ)
    assert ("Acquire::http::Proxy", "http://e:1") not in pairs
    assert pairs[-3:] == [
        ("Acquire::https::Proxy", "http://e:2"),
        ("Acquire::https::Proxy::a", "DIRECT"),
        ("Acquire::https::Proxy::b.example", "DIRECT"),
    ]


def test_os_release_fields() -> None:
    text = (
        "# c\nID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nEMPTY=\nVERSION_ID='12'\n"
    )
    assert sources.parse_os_release(text) == {
        "ID": "debian",
        "PRETTY_NAME": "Debian GNU/Linux 12 (bookworm)",
        "EMPTY": "",
        "VERSION_ID": "12",
    }


def without_origin(source: Source) -> Source:
    return Source(source.uri, source.suite, source.components, source.options, source.key)
