# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils import _stack, _wheelhouse
from ansible_collections.sm120.sglang.plugins.module_utils._stack import Pin, StackError
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.utils import canonicalize_name

RAW: dict[str, Any] = {
    "name": "site-1.0",
    "description": "A stack",
    "accelerator": "cpu",
    "sglang": "0.5.9",
    "torch": "2.13.0+cpu",
    "transformers": "4.57.6",
    "kernels": "sgl_kernel==0.3.21",
    "python": ["3.12", "3.11"],
    "glibc": "2.28",
}
STACK = _stack.parse_stack(RAW, "site.yml")
DIGEST = "a" * 64


def test_a_stack_is_read_with_its_optional_keys() -> None:
    extra = {
        "accelerator": "cuda",
        "toolkit": "13.0.88",
        "flashinfer": "0.6.11",
        "cuda": 13,
        "minimum_driver": "580",
        "unhashed": {"Sgl_Kernel": "built here"},
        "deviations": {"cuda_python": "the CUDA of torch"},
    }
    stack = _stack.parse_stack({**RAW, **extra}, "site.yml")
    assert (stack.name, stack.python, stack.cuda) == ("site-1.0", ("3.12", "3.11"), 13)
    assert (stack.flashinfer, stack.minimum_driver) == ("0.6.11", "580")
    assert (stack.accelerator, stack.toolkit) == ("cuda", "13.0.88")
    assert stack.unhashed == {"sgl-kernel": "built here"}
    assert stack.deviations == {"cuda-python": "the CUDA of torch"}
    assert (STACK.flashinfer, STACK.cuda, STACK.minimum_driver, STACK.unhashed) == (
        None,
        None,
        None,
        {},
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"torch": None}, "torch must be text in quotes, found None"),
        ({"torch": 2.1}, "torch must be text in quotes, found 2.1"),
        ({"glibc": 2.28}, "glibc must be text in quotes"),
        ({"flashinfer": 0.6}, "flashinfer must be text in quotes, found 0.6"),
        ({"minimum_driver": 580}, "minimum_driver must be text in quotes, found 580"),
        ({"name": "Site"}, "name 'Site' must be lower case"),
        ({"name": "a/b"}, "name 'a/b' must be lower case"),
        ({"name": "site\n"}, "must be lower case"),
        ({"name": ".hidden"}, "must be lower case"),
        ({"python": "3.12"}, "python must be a list"),
        ({"python": []}, "python must be a list"),
        ({"python": [3.12]}, "python 3.12 must be text"),
        ({"python": ["3.12.1"]}, "python '3.12.1' must be text such as"),
        ({"cuda": "13"}, "cuda must be the major version as a number, found '13'"),
        ({"cuda": True}, "cuda must be the major version as a number, found True"),
        ({"cuda": 13}, "cuda means nothing with accelerator 'cpu'"),
        ({"minimum_driver": "580"}, "minimum_driver means nothing with accelerator 'cpu'"),
        ({"accelerator": "gpu"}, "accelerator 'gpu' must be cuda or cpu"),
        ({"accelerator": "cuda"}, "missing cuda, which accelerator 'cuda' needs"),
        ({"accelerator": "cuda", "cuda": 13}, "missing minimum_driver, which"),
        ({"kernels": "0.3.21"}, "kernels '0.3.21' must be package==version"),
        ({"glibc": "musl"}, "glibc 'musl' must be a version such as '2.34'"),
        ({"unhashed": ["torch"]}, "unhashed maps each name to the reason"),
        ({"unhashed": {"torch": ""}}, "unhashed maps each name to the reason"),
        ({"deviations": {"torch": None}}, "deviations maps each name to the reason"),
        ({"deviations": {"pillow": "why not"}}, "deviations.pillow is unknown; known: torch,"),
        ({"sglagn": "0.5.9"}, "unknown sglagn"),
    ],
)
def test_a_bad_stack_names_file_and_key(change: dict[str, Any], message: str) -> None:
    with pytest.raises(StackError, match=f"^site.yml: .*{re.escape(message)}"):
        _stack.parse_stack({**RAW, **change}, "site.yml")


@pytest.mark.parametrize("key", sorted(RAW))
def test_every_required_key_is_missed(key: str) -> None:
    with pytest.raises(StackError, match=f"^site.yml: missing {key}$"):
        _stack.parse_stack({k: v for k, v in RAW.items() if k != key}, "site.yml")


@pytest.mark.parametrize("raw", [None, "text", ["list"]])
def test_a_stack_is_a_mapping(raw: object) -> None:
    with pytest.raises(StackError, match=r"^site.yml: a stack is a mapping, found"):
        _stack.parse_stack(raw, "site.yml")


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,8}[a-z0-9])?", fullmatch=True)
VERSIONS = st.from_regex(
    r"(1!)?[0-9]{1,3}(\.[0-9]{1,2}){0,3}(rc1|\.post2)?(\+[a-z0-9.]{1,4})?", fullmatch=True
)
DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
HASHES = st.lists(DIGESTS, max_size=3, unique=True)
PINS = st.lists(st.builds(Pin, NAMES, VERSIONS, HASHES.map(tuple)), max_size=4).map(
    lambda pins: list({_stack.normalise(pin.name): pin for pin in pins}.values())
)


@settings(max_examples=60)
@given(
    PINS, st.sampled_from([" \\\n    ", " ", " \\\r\n\t"]), st.sampled_from(["", "# by uv\n", "\n"])
)
def test_a_lock_is_read_as_it_was_written(pins: list[Pin], joint: str, between: str) -> None:
    text = "".join(
        between
        + f"{pin.name}=={pin.version}"
        + "".join(f"{joint}--hash=sha256:{digest}" for digest in pin.hashes)
        + "\n"
        for pin in pins
    )
    expected = [Pin(canonicalize_name(pin.name), pin.version, pin.hashes) for pin in pins]
    assert _stack.parse_lock(text, "x.lock") == expected
    # What is rendered for pip and uv is read as the same pins.
    assert _stack.parse_lock(_wheelhouse.requirements(expected), "x.lock") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("torch\n", "x.lock:1: not 'name==version': 'torch'"),
        ("# head\n\ntorch>=2\n", "x.lock:3: not 'name==version': 'torch>=2'"),
        ("torch==2.*\n", "x.lock:1: not 'name==version'"),
        ("torch==2.1,<3\n", "x.lock:1: not 'name==version'"),
        ("torch @ https://example.org/t.whl\n", "x.lock:1: not 'name==version'"),
        ("-r other.txt\n", "x.lock:1: not 'name==version'"),
        ("a==1 ; python_version < '3.12'\n", "x.lock:1: a: only --hash"),
        (f"a==1 \\\n  --hash=sha256:{DIGEST}\nb==2 --hash=md5:00\n", "x.lock:3: b: only --hash"),
        (f"a==1 --hash=sha256:{DIGEST[1:]}\n", "x.lock:1: a: only --hash"),
        (f"a==1 --hash=sha256:{DIGEST}0\n", "x.lock:1: a: only --hash"),
        (f"a==1--hash=sha256:{DIGEST}\n", "x.lock:1: not 'name==version'"),
        ("a==1\na-b==1\nA_B==2\n", "x.lock:3: a-b is pinned twice"),
        ("a==1 \\", ""),
    ],
)
def test_a_bad_lock_names_file_and_line(text: str, message: str) -> None:
    if not message:  # a joint at the very end is harmless
        assert _stack.parse_lock(text, "x.lock") == [Pin("a", "1")]
        return
    with pytest.raises(StackError, match=f"^{re.escape(message)}"):
        _stack.parse_lock(text, "x.lock")


def test_a_comment_does_not_swallow_the_next_line() -> None:
    assert _stack.parse_lock("# a \\\nb==1\n", "x.lock") == [Pin("b", "1")]


GOOD = [
    Pin("sglang", "0.5.9", (DIGEST,)),
    Pin("torch", "2.13.0+cpu", (DIGEST,)),
    Pin("transformers", "4.57.6", (DIGEST,)),
    Pin("sgl-kernel", "0.3.21", (DIGEST,)),
]


@pytest.mark.parametrize(
    ("change", "pins", "problems"),
    [
        ({}, GOOD, []),
        ({}, GOOD[1:], ["stack site-1.0 names sglang 0.5.9, x.lock pins nothing"]),
        (
            {"torch": "2.13.0"},
            GOOD,
            ["stack site-1.0 names torch 2.13.0, x.lock pins 2.13.0+cpu"],
        ),
        (
            {"kernels": "sgl-kernel==0.3.20"},
            GOOD,
            ["stack site-1.0 names sgl-kernel 0.3.20, x.lock pins 0.3.21"],
        ),
        (
            {},
            [*GOOD[:3], Pin("sgl-kernel", "0.3.21")],
            ["x.lock: sgl-kernel has no digest; add one, or name it under 'unhashed'"],
        ),
        ({"unhashed": {"sgl_kernel": "local"}}, [*GOOD[:3], Pin("sgl-kernel", "0.3.21")], []),
        (
            {"flashinfer": "0.6.11"},
            [
                *GOOD,
                Pin("flashinfer-python", "0.6.11", (DIGEST,)),
                Pin("flashinfer-jit-cache", "0.6.11+cu130", (DIGEST,)),
            ],
            [],
        ),
        (
            {"flashinfer": "0.6.11"},
            [
                *GOOD,
                Pin("flashinfer-python", "0.6.11", (DIGEST,)),
                Pin("flashinfer-cubin", "0.6.10", (DIGEST,)),
            ],
            ["stack site-1.0 names flashinfer 0.6.11, x.lock pins flashinfer-cubin 0.6.10"],
        ),
        (
            {},
            [*GOOD, Pin("flashinfer-python", "0.6.11", (DIGEST,))],
            ["names flashinfer (not at all), x.lock pins flashinfer-python 0.6.11"],
        ),
        ({"flashinfer": "0.6.11"}, GOOD, ["names flashinfer 0.6.11, x.lock has none"]),
    ],
)
def test_what_disagrees_with_the_lock_is_named(
    change: dict[str, Any], pins: list[Pin], problems: list[str]
) -> None:
    found = _stack.check_coherence(_stack.parse_stack({**RAW, **change}, "s"), pins, "x.lock")
    assert len(found) == len(problems)
    assert all(part in sentence for part, sentence in zip(problems, found, strict=True))


@pytest.mark.parametrize(
    ("pythons", "wanted", "expected"),
    [
        ({"3.11": "/a", "3.12": "/b"}, "auto", ("3.12", "/b")),
        ({"3.11": "/a", "3.13": "/c"}, "auto", ("3.11", "/a")),
        ({"3.11": "/a", "3.12": "/b"}, "3.11", ("3.11", "/a")),
    ],
)
def test_the_first_choice_that_the_node_has(
    pythons: dict[str, str], wanted: str, expected: tuple[str, str]
) -> None:
    assert _stack.choose_python(STACK, pythons, wanted) == expected


@pytest.mark.parametrize(
    ("pythons", "wanted", "parts"),
    [
        (
            {},
            "auto",
            (
                "the node has none",
                "3.12 or 3.11",
                "install python3.12 (in the archive of Ubuntu 24.04)",
                "/usr/local/bin/python3.12",
            ),
        ),
        ({"3.10": "/x"}, "auto", ("the node has 3.10",)),
        ({"3.13": "/x"}, "3.13", ("(wanted: 3.13)", "the node has 3.13")),
        ({"3.12": "/x"}, "3.11", ("(wanted: 3.11)",)),
    ],
)
def test_a_node_without_a_fitting_python_is_refused(
    pythons: dict[str, str], wanted: str, parts: tuple[str, ...]
) -> None:
    with pytest.raises(StackError) as error:
        _stack.choose_python(STACK, pythons, wanted)
    assert all(part in str(error.value) for part in ("stack site-1.0", *parts))


def test_a_release_is_named_after_everything_that_shapes_it() -> None:
    base = ("3.12", "lock", "patches", {"a.whl": "1", "b.whl": "2"})
    name = _stack.release_id(STACK, *base)
    assert re.fullmatch(r"site-1\.0-[0-9a-f]{12}", name)
    assert _stack.release_id(STACK, *base[:3], {"b.whl": "2", "a.whl": "1"}) == name
    others = {
        _stack.release_id(STACK, "3.11", *base[1:]),
        _stack.release_id(STACK, "3.12", "other", *base[2:]),
        _stack.release_id(STACK, *base[:2], "other", base[3]),
        _stack.release_id(STACK, *base[:3], {"a.whl": "1", "b.whl": "3"}),
        _stack.release_id(STACK, *base[:3], {}),
        _stack.release_id(_stack.parse_stack({**RAW, "name": "b"}, "b"), *base),
    }
    assert len(others | {name}) == 7


def test_a_new_layout_gives_new_names(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _stack.release_id(STACK, "3.12", "lock", "patches", {})
    monkeypatch.setattr(_stack, "LAYOUT_VERSION", _stack.LAYOUT_VERSION + 1)
    assert _stack.release_id(STACK, "3.12", "lock", "patches", {}) != before


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("2.9", "2.34"),
        ("575.57.08", "580"),
        ("580", "580.95.05"),
        ("580.95.05", "590.1"),
        ("", "2.17"),
    ],
)
def test_versions_are_ordered_by_number(older: str, newer: str) -> None:
    assert _stack.version_key(older) < _stack.version_key(newer)


def test_a_local_label_does_not_order() -> None:
    assert _stack.version_key("2.13.0+cpu9") == (2, 13, 0)


def test_pip_is_asked_for_the_nodes_platform() -> None:
    words = _stack.wheel_tags("3.11", "2.36", "x86_64")
    pairs = list(zip(words[::2], words[1::2], strict=True))
    assert pairs[:2] == [("--python-version", "3.11"), ("--implementation", "cp")]
    assert [value for flag, value in pairs if flag == "--abi"] == ["cp311", "abi3", "none"]
    platforms = [value for flag, value in pairs if flag == "--platform"]
    assert platforms[0] == "manylinux_2_36_x86_64"
    assert platforms[-4:] == [
        "manylinux2014_x86_64",
        "manylinux2010_x86_64",
        "manylinux1_x86_64",
        "linux_x86_64",
    ]
    assert "manylinux_2_37_x86_64" not in platforms
    assert "manylinux_2_17_x86_64" in platforms
    assert len(set(platforms)) == len(platforms)


@pytest.mark.parametrize("glibc", ["", "musl", "2", "2.36-9", "3.1", "2.36\n"])
def test_another_c_library_is_refused(glibc: str) -> None:
    with pytest.raises(StackError, match=r"not of the form 2\.N"):
        _stack.wheel_tags("3.11", glibc, "x86_64")


@settings(max_examples=60)
@given(NAMES)
def test_names_are_normalised_as_the_index_does(name: str) -> None:
    assert _stack.normalise(name.upper()) == canonicalize_name(name)
