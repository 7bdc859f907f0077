# SPDX-License-Identifier: Apache-2.0
"""From stored documents to the files of a report."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.decode import SchemaError
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.regression import TOLERANCE
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    Document,
    from_json,
    loads,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.comparison import (
    Comparison,
    References,
    beside,
    others,
    references,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.markdown import (
    markdown,
    plain,
    verdict_lines,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.view import view

REFERENCES = Path(__file__).parent / "references.yml"


class ReportError(RuntimeError):
    """A report cannot be made; the message names file, cause and remedy."""


@dataclass(frozen=True)
class Report:
    """A report before it is written.

    Attributes:
        files: Content by file name.
        verdicts: Lines for an operator.
        comparisons: With other stacks, the node's newest first.
    """

    files: Mapping[str, str]
    verdicts: tuple[str, ...]
    comparisons: tuple[Comparison, ...]


def shipped_references() -> References:
    """The figures of other places that come with the collection."""
    return references(yaml.safe_load(REFERENCES.read_text("utf-8")))


def read(source: object) -> Document:
    """Read a document that is given as a path, or whole.

    Raises:
        ReportError: it cannot be read, or is none.
    """
    try:
        if isinstance(source, (str, os.PathLike)):
            return loads(Path(source).expanduser().read_text("utf-8"))
        return from_json(source)
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{source} cannot be read: {error}") from error
    except SchemaError as error:
        name = source if isinstance(source, (str, os.PathLike)) else "the document"
        raise ReportError(
            f"{name} is no benchmark result of this version: {error}. Give a result.json that a "
            "benchmark wrote"
        ) from error


def read_all(sources: Sequence[object]) -> tuple[list[Document], list[str]]:
    """Read stored results; one that is damaged or of another version must not cost the report.

    Returns:
        Those that can be read, and why the others cannot.
    """
    tried = [_try(source) for source in sources]
    return (
        [one for one in tried if isinstance(one, Document)],
        [str(one) for one in tried if isinstance(one, ReportError)],
    )


def _try(source: object) -> Document | ReportError:
    try:
        return read(source)
    except ReportError as error:
        return error


def results_at(given: Path) -> list[tuple[Path, Document]]:
    """A result; of a folder all results below it, the newest first.

    Raises:
        ReportError: the folder holds none, or one cannot be read.
    """
    paths = sorted(given.rglob("result.json")) if given.is_dir() else [given]
    if not paths:
        raise ReportError(f"{given} holds no result.json; give a result, or a folder of results")
    found = [(path, read(path)) for path in paths]
    return sorted(found, key=lambda one: one[1].started, reverse=True)


def report(document: Document, stored: Sequence[Document], tolerance: float = TOLERANCE) -> Report:
    """Make the report of one result.

    Args:
        document: The result.
        stored: Others to compare it with; of each other stack or node the newest is taken.
        tolerance: Of the comparison, in multiples of the spread.

    Raises:
        ReportError: matplotlib is missing.
    """
    known = shipped_references()
    shown = view(document)
    compared = [beside(document, other, tolerance) for other in others(document, stored)]
    try:
        from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report import (  # noqa: PLC0415 - brings matplotlib, which nothing else needs
            page,
        )
    except ModuleNotFoundError as error:
        raise ReportError(
            f"the charts need {error.name}: install the controller's packages with `make venv`, "
            f"or `pip install {error.name}`"
        ) from error
    files = {
        "report.html": page.page(shown, compared, known),
        "report.md": markdown(shown, compared, known),
        "report.json": json.dumps(plain(shown, compared, known), indent=1, ensure_ascii=False)
        + "\n",
    }
    return Report(files, tuple(verdict_lines(shown)), tuple(compared))


def write(folder: Path, files: Mapping[str, str], *, dry: bool = False) -> list[Path]:
    """Write files where they differ, each in one rename.

    Args:
        folder: Made where it is missing.
        files: Content by name.
        dry: Only say what differs.

    Returns:
        The files that differ from what was there.

    Raises:
        ReportError: one cannot be written.
    """
    changed = []
    for name, content in files.items():
        path = folder / name
        try:
            if path.is_file() and path.read_bytes() == content.encode():
                continue
            changed.append(path)
            if dry:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            new = folder / f".{name}.new"
            new.write_text(content, "utf-8")
            new.replace(path)
        except OSError as error:
            raise ReportError(
                f"{path} cannot be written: {error.strerror}; name another folder"
            ) from error
    return changed
