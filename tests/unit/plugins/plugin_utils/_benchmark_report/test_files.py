# SPDX-License-Identifier: Apache-2.0
"""Results in, files out: drawn with the real library, written as a whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    Meaning,
    dumps,
    to_json,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report import files
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.files import (
    ReportError,
    read,
    read_all,
    report,
    results_at,
    write,
)

from tests import synthetic_benchmark as synthetic

STORY = synthetic.story()
REPOSITORY = Path(__file__).parents[5]


@pytest.fixture(scope="module")
def made() -> files.Report:
    return report(STORY, [synthetic.earlier(STORY, 1.1)])


def test_the_page_is_one_file_that_fetches_nothing(made: files.Report) -> None:
    html = made.files["report.html"]
    assert not re.findall(r"<(?:script|iframe|object|embed|img|form|a)\b", html)
    assert [one for one in re.findall(r'(?:href|src)="([^"]*)"', html) if one[:1] != "#"] == [
        "data:,"
    ]
    assert not re.findall(r"url\((?!#)|@import", html)
    assert "default-src 'none'" in html


def test_a_drawing_takes_all_its_colours_from_the_page(made: files.Report) -> None:
    html = made.files["report.html"]
    drawings = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(drawings) > 20
    for one in drawings:
        assert not re.findall(r"#[0-9a-fA-F]{3,6}(?![\w-])", re.sub(r'(href="|url\()#', "", one))
        assert set(re.findall(r"var\((--\w+)\)", one)) <= set(re.findall(r"(--\w+):", html))


def test_every_id_is_there_once_and_every_reference_leads_somewhere(made: files.Report) -> None:
    html = made.files["report.html"]
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', html)) <= set(ids)


def test_the_same_result_gives_the_same_bytes() -> None:
    small = synthetic.document(lambda _s, at: 90.0 * at, concurrencies=(1, 4), repeats=2)
    assert report(small, []).files == report(small, []).files


def test_texts_of_the_engine_are_no_markup(made: files.Report) -> None:
    assert "<script" not in made.files["report.html"]
    assert "&lt;script&gt;alert(" in made.files["report.html"]


def test_figures_of_a_lab_carry_a_banner() -> None:
    plain = synthetic.document(lambda _s, at: 90.0 * at, concurrencies=(1, 2), repeats=1)
    lab = dataclasses.replace(plain, meaning=Meaning(False, "CPU stand-ins"))
    for whole, told in ((plain, False), (lab, True)):
        made = report(whole, [])
        for name in ("report.html", "report.md"):
            assert ("These figures mean nothing." in made.files[name]) is told
        assert json.loads(made.files["report.json"])["means_something"] is not told


@pytest.mark.parametrize(
    "whole",
    [
        synthetic.document(lambda _s, at: 90.0, concurrencies=(1,), repeats=1),
        synthetic.document(lambda _s, at: 90.0, settings=(synthetic.OFF,), configured=None),
        synthetic.document(lambda _s, at: 1e-3, noise=0.0),
        synthetic.document(lambda _s, at: 1e7 * at, concurrencies=tuple(range(1, 21))),
        synthetic.fail(
            synthetic.fail(synthetic.document(lambda _s, at: 90.0), "off", reason="x"),
            synthetic.EAGLE.id,
            reason="x",
        ),
    ],
    ids=["one point", "off alone", "tiny and still", "many and large", "all failed"],
)
def test_odd_results_have_a_page_too(whole: Any) -> None:
    html = report(whole, []).files["report.html"]
    assert "nan" not in re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL).lower()
    assert html.rstrip().endswith("</html>")


def test_files_are_written_once(tmp_path: Path, made: files.Report) -> None:
    folder = tmp_path / "a" / "b"
    assert [one.name for one in write(folder, made.files, dry=True)] == list(made.files)
    assert not folder.exists()
    assert len(write(folder, made.files)) == 3
    assert write(folder, made.files) == []
    (folder / "report.md").write_text("edited")
    assert write(folder, made.files) == [folder / "report.md"]
    assert sorted(one.name for one in folder.iterdir()) == sorted(made.files)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"file/report\.html cannot be written: "):
        write(tmp_path / "file", {"report.html": "x"})


def test_results_are_read_from_paths_and_from_what_a_node_sent(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(dumps(STORY))
    assert read(str(tmp_path / "result.json")) == read(to_json(STORY)) == STORY
    (tmp_path / "bad.json").write_text("{}")
    found, ignored = read_all([to_json(STORY), str(tmp_path / "bad.json"), {"schema": 2}])
    assert found == [STORY]
    assert ignored[0].startswith(f"{tmp_path}/bad.json is no benchmark result of this version: ")
    assert "schema: is 2" in ignored[1]
    with pytest.raises(ReportError, match=r"cannot be read"):
        read(str(tmp_path / "none.json"))


def test_a_folder_stands_for_its_results_the_newest_first(tmp_path: Path) -> None:
    earlier = synthetic.earlier(STORY, 1.1)
    for name, whole in (("z", earlier), ("a", STORY)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(dumps(whole))
    assert [one for _, one in results_at(tmp_path)] == [STORY, earlier]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReportError, match=r"holds no result\.json"):
        results_at(tmp_path / "empty")


def test_without_matplotlib_the_reason_and_the_remedy_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = "ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report"
    for name in [one for one in sys.modules if one.startswith(("matplotlib", f"{package}.page"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"{package}.charts", raising=False)
    monkeypatch.delattr(sys.modules[package], "page", raising=False)
    monkeypatch.delattr(sys.modules[package], "charts", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ReportError, match=r"the charts need matplotlib: .*make venv"):
        report(STORY, [])


def test_nothing_but_a_report_that_is_made_brings_matplotlib() -> None:
    """Every play loads action plugins; none may pay for charts that it does not draw."""
    package = "ansible_collections.sm120.sglang.plugins"
    names = [
        f"{package}.{kind}.{path.stem}"
        for kind in ("action", "filter", "lookup", "plugin_utils")
        for path in sorted((REPOSITORY / "plugins" / kind).glob("*.py"))
    ]
    code = (
        f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
        "print([one for one in ('matplotlib', 'numpy', 'PIL') if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "collections")},
    )
    assert "sm120.sglang.plugins.action.benchmark_report" in code
    assert done.stdout.strip() == "[]"


def test_the_script_renders_and_compares(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new/result.json").write_text(dumps(STORY))
    (tmp_path / "old.json").write_text(dumps(synthetic.earlier(STORY, 1.1)))
    script = [sys.executable, str(REPOSITORY / "scripts/benchmark_report.py")]
    done = subprocess.run(
        [*script, tmp_path / "new", tmp_path / "old.json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "EAGLE-3 3/1/4 pays up to concurrency 8 and no longer at 16" in done.stdout
    assert "against synthetic-0: worse: tok/s" in done.stdout
    assert (tmp_path / "new/report.html").read_text().startswith("<!doctype html>")
    refused = subprocess.run(
        [*script, tmp_path / "none"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"error: {tmp_path}/none cannot be read")
