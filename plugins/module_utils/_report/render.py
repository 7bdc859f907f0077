# SPDX-License-Identifier: Apache-2.0
"""Show descriptions of releases: a table for a terminal, and Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Release = Mapping[str, Any]

_GAP = "  "
_WIDTH = 100
_ORIGINAL_HEADER = "original command"
_HEADERS = (
    "release", "contract", "wrappers ok", "launch", _ORIGINAL_HEADER, "torch", "CUDA", "kernel",
    "flashinfer", "transformers", "Python",
)  # fmt: skip
_ORIGINAL = (
    "the product launches none of these by itself, but for --enable-torch-symm-mem where GPUs have "
    "multicast; what follows is for who gives them in engine_arguments, or starts the engine by "
    "the command from which this product began"
)


def patch_ids(releases: Sequence[Release]) -> list[str]:
    """Ids of the patches of all releases, in order."""
    return list(dict.fromkeys(patch["id"] for item in releases for patch in item["patches"]))


def row(release: Release, patches: Sequence[str]) -> list[str]:
    """One release in the order of `headers`."""
    states = {patch["id"]: patch["state"] for patch in release["patches"]}
    needs = release["dependencies"]
    counts = release["contract_counts"]
    return [
        release["release"] or release["source"],
        *[states.get(name, "-") for name in patches],
        contract_word(release),
        f"{counts['ok']} of {counts['classes']}",
        launch_word(release),
        original_word(release),
        *[
            str(needs[name] or "-")
            for name in ("torch", "cuda_major", "kernel", "flashinfer", "transformers", "python")
        ],
    ]


def headers(patches: Sequence[str]) -> list[str]:
    """Column headers; one for each patch."""
    return [_HEADERS[0], *patches, *_HEADERS[1:]]


def contract_word(release: Release) -> str:
    """Whether the served model answers what the engine asks, in a word."""
    if not release["contract"]:
        return "no model"
    words = []
    for verdict in release["contract"].values():
        unknown = verdict.get("unknown", [])
        if verdict["missing"]:
            words.append(f"lacks {len(verdict['missing'])}")
        words += ["unknown"] if unknown and not verdict["missing"] else []
    return ", ".join(words) or "ok"


def launch_word(release: Release) -> str:
    """What the launch that is judged comes to on SM120, in a word or two."""
    return _counts(release, original=False)


def original_word(release: Release) -> str:
    """The same of the flags that only the original command has; ``-`` where none was judged."""
    return _counts(release, original=True) if release["launch"]["original_command"] else "-"


def _counts(release: Release, *, original: bool) -> str:
    launch = release["launch"]
    parts: list[str] = []
    for key, word in (
        ("fatal_on_sm120", "fatal"),
        ("unknown", "unknown"),
        ("deprecated", "deprecated"),
    ):
        number = sum(_is_original(release, name) is original for name in launch[key])
        parts += [f"{number} {word}"] if number else []
    return ", ".join(parts) or "ok"


def _is_original(release: Release, argument: str) -> bool:
    """Whether only the original command has an argument."""
    return argument.partition("=")[0] in release["launch"]["original_command"]


def text_table(cells: Sequence[Sequence[str]]) -> str:
    """Columns padded with blanks; the first row is the header."""
    widths = [max(len(line[index]) for line in cells) for index in range(len(cells[0]))]
    lines = [
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], _GAP.join("-" * width for width in widths), *lines[1:]])


def markdown_table(cells: Sequence[Sequence[str]]) -> str:
    """The same for Markdown."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])


def text_report(releases: Sequence[Release]) -> str:
    """All releases for a terminal: the table, then each one in words."""
    # No room for columns: the patches, and the flags that nothing launches, stand below.
    cells = [headers([]), *[row(release, []) for release in releases]]
    wide = cells[0].index(_ORIGINAL_HEADER)
    cells = [line[:wide] + line[wide + 1 :] for line in cells]
    parts = [text_table(cells), *["\n".join(_words(release)) for release in releases]]
    return "\n\n".join(parts) + "\n"


def _words(release: Release) -> Iterator[str]:
    yield f"SGLang {release['release'] or '(no version)'}  {release['source']}"
    for patch in release["patches"]:
        yield from _item(f"{patch['state']:9} {patch['id']}: {patch['reason']}")
    if not release["contract"]:
        yield "  contract: this release has no Kimi-K2.5 model"
    for name, verdict in release["contract"].items():
        yield from _item(f"contract: {name} with {verdict['algorithm']} {_verdict(verdict)}")
    counts = release["contract_counts"]
    yield from _item(
        f"contract: of {counts['classes']} multimodal wrappers {counts['ok']} are ok, "
        f"{counts['missing']} lack something, {counts.get('unknown', 0)} are not certain"
    )
    findings = release["launch"]["findings"]
    of_original = [item for item in findings if _is_original(release, item["argument"])]
    own = [item for item in findings if item not in of_original]
    for finding in own:
        yield from _item(f"launch: {_finding(finding)}")
    if not own:
        yield "  launch: nothing to say about the product's own arguments"
    if of_original:
        flags = " ".join(release["launch"]["original_command"])
        yield from _item(f"original command ({flags}): {_ORIGINAL}")
    for finding in of_original:
        yield from _item(f"original command: {_finding(finding)}")
    for problem in release["problems"]:
        yield from _item(f"NEEDS A PERSON: {problem}")


def _finding(finding: Mapping[str, Any]) -> str:
    return (
        f"{finding['argument']} {finding['kind']}: {finding['reason']}"
        + (f" ({finding['where']})" if finding["where"] else "")
        + (f"; {finding['remedy']}" if finding["remedy"] else "")
    )


def _item(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False
    )


def _verdict(verdict: Mapping[str, Any]) -> str:
    if verdict["missing"]:
        helps = {True: "plain forwarding supplies it", False: "forwarding does not supply it"}
        told = helps.get(verdict["delegation_fixes"], "not certain whether forwarding supplies it")
        return f"lacks {', '.join(verdict['missing'])}; {told}"
    if verdict.get("unknown"):
        return f"may lack {', '.join(verdict['unknown'])}"
    return f"has all of {', '.join(verdict['required']) or 'nothing that is asked'}"


def markdown_report(releases: Sequence[Release]) -> str:
    """All releases as a Markdown page."""
    patches = patch_ids(releases)
    parts = ["# SGLang releases", markdown_table(overview(releases))]
    for release in releases:
        parts.append(f"## {release['release'] or release['source']}")
        parts.append(f"`{release['source']}`")
        cells = [["patch", "state", "reason", "what it does not do"]]
        cells += [
            [f"`{p['id']}`", p["state"], p["reason"], p["does_not"]] for p in release["patches"]
        ]
        parts.append(markdown_table(cells))
        told = [line.strip() for line in _words(release)]
        parts.append("\n".join(f"- {line}" for line in _whole(told[1:], patches)))
    return "\n\n".join(parts) + "\n"


def _whole(lines: Sequence[str], patches: Sequence[str]) -> list[str]:
    """Join what was wrapped, and leave out the patches, which have a table."""
    found: list[str] = []
    for line in lines:
        if line.startswith(("contract:", "launch:", "original command", "NEEDS A PERSON:")):
            found.append(line)
        elif found:
            found[-1] += f" {line}"
    return [line for line in found if not any(line.startswith(name) for name in patches)]


def overview(releases: Sequence[Release]) -> list[list[str]]:
    """The table of all releases, patches as columns, header first."""
    patches = patch_ids(releases)
    named = [f"`{name}`" for name in patches]
    return [headers(named), *[row(release, patches) for release in releases]]
