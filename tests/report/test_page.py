# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: nothing is fetched, all is seen, tables say what the JSON says."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.metrics import BY_ID
from ansible_collections.sm120.sglang.plugins.module_utils._benchmark.schema import (
    Document,
    Meaning,
)
from ansible_collections.sm120.sglang.plugins.plugin_utils._benchmark_report.files import (
    report,
    write,
)
from matplotlib.image import imread
from playwright.sync_api import Browser, Page

from tests import synthetic_benchmark as synthetic

LOOKS = (Path(__file__).parent / "looks.js").read_text("utf-8")
DESKTOP, PHONE, PAPER = (1280, 900), (360, 780), (794, 1123)


def crossing(setting: str, at: int) -> float:
    gain = 1.3 if at <= 4 else 0.8
    return 90.0 * at * (gain if setting == synthetic.EAGLE.id else 1.0)


def bare(whole: Document) -> Document:
    """What is left where neither GPUs nor counters can be read and an answer is one token."""
    runs = tuple(
        dataclasses.replace(one, gpu=None, kv_use=None, accept=None, itl_ms=None)
        for one in whole.runs
    )
    stack = dataclasses.replace(whole.stack, gpu=None, gpu_count=0, driver=None, cuda=None)
    return dataclasses.replace(whole, runs=runs, stack=stack)


STORY = synthetic.story()
RESULTS: dict[str, tuple[Document, list[Document]]] = {
    "story": (STORY, [synthetic.earlier(STORY, 1.1)]),
    "lab": (
        dataclasses.replace(
            synthetic.document(crossing, noise=0.03),
            meaning=Meaning(figures=False, reason="CPU stand-ins and a tiny model."),
        ),
        [],
    ),
    "once": (bare(synthetic.document(crossing, concurrencies=(1, 512), repeats=1)), []),
    "failed": (
        synthetic.fail(synthetic.document(crossing), synthetic.EAGLE.id, reason="it died"),
        [],
    ),
}


@dataclass
class Opened:
    """A page with what the browser noticed while it was opened."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def read(self, what: str) -> Any:
        """What `looks.js` sees."""
        return self.page.evaluate(f"{LOOKS}.{what}()")


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for name, (document, stored) in RESULTS.items():
        found[name] = tmp_path_factory.mktemp(name)
        write(found[name], report(document, stored).files)
    return found


@pytest.fixture(params=list(RESULTS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(browser: Browser, folders: dict[str, Path], request: Any) -> Iterator[Any]:
    contexts = []

    def open_page(name: str, size: tuple[int, int] = DESKTOP, scheme: Any = "light") -> Opened:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
        )
        contexts.append(context)
        page = context.new_page()
        found = Opened(page)
        address = (folders[name] / "report.html").as_uri()
        context.on("request", lambda one: found.requests.append(one.url))
        page.on("console", lambda one: found.complaints.append(f"{one.type}: {one.text}"))
        page.on("pageerror", lambda one: found.complaints.append(str(one)))
        page.on("dialog", lambda one: found.complaints.append(f"dialog: {one.message}"))
        page.goto(address)
        found.requests = [one for one in found.requests if one not in {address, "data:,"}]
        return found

    yield open_page
    for context in contexts:
        context.close()


def test_it_asks_for_nothing_and_complains_of_nothing(opened: Any, name: str) -> None:
    found = opened(name)
    assert found.page.title().startswith("Does speculation pay on ")
    assert found.requests == []
    assert found.complaints == []
    assert found.page.evaluate("document.scripts.length") == 0


def test_the_page_could_not_fetch_even_if_it_were_told_to(opened: Any) -> None:
    """What keeps it alone is its own policy, not only that nothing asks."""
    found = opened("story")
    for kind in ("img", "link"):
        found.page.evaluate(
            "kind => { const one = document.createElement(kind); one.rel = 'stylesheet';"
            " one.src = one.href = 'http://127.0.0.1:9/x'; document.body.append(one); }",
            kind,
        )
    found.page.wait_for_timeout(200)
    blocked = [one for one in found.complaints if "Content Security Policy" in one]
    assert len(blocked) >= 2
    # Chromium reports a blocked request as one that failed; none may have been sent.
    assert not [one for one in found.complaints if "ERR_CONNECTION" in one]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_charts_and_texts_are_seen(
    opened: Any, name: str, scheme: str, size: tuple[int, int]
) -> None:
    found = opened(name, size, scheme)
    charts = found.read("charts")
    assert len(charts) >= (6 if name == "once" else 13)
    for chart in charts:
        assert chart["width"] > 250, chart["title"]
        assert chart["height"] > 150, chart["title"]
        assert chart["marks"] > 0, chart["title"]
        assert min(chart["contrasts"]) >= 3, chart["title"]
        assert chart["overlaps"] == [], chart["title"]
        assert chart["outside"] == [], chart["title"]
    assert found.read("faintTexts") == []


def test_the_two_themes_differ_and_both_have_something_drawn(opened: Any) -> None:
    """The pixels themselves: paper is light or dark, and lines stand on it."""
    means = {}
    for scheme in ("light", "dark"):
        chart = opened("story", DESKTOP, scheme).page.locator("figure.chart svg").first
        pixels = imread(io.BytesIO(chart.screenshot()))[..., :3]
        paper = pixels[2, 2]
        drawn = (abs(pixels - paper).max(axis=2) > 0.25).mean()
        assert 0.005 < drawn < 0.5, scheme
        means[scheme] = float(pixels.mean())
    assert means["light"] > 0.85
    assert means["dark"] < 0.3


@pytest.mark.parametrize("size", [DESKTOP, PHONE, (320, 600)], ids=["1280", "360", "320"])
def test_nothing_is_wider_than_the_window(opened: Any, name: str, size: tuple[int, int]) -> None:
    found = opened(name, size)
    assert found.read("wide") == []
    assert (
        found.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        == 0
    )


def test_on_paper_nothing_is_cut_off_and_ink_is_dark(opened: Any, name: str) -> None:
    found = opened(name, PAPER, "dark")
    found.page.emulate_media(media="print")
    assert found.page.evaluate("document.documentElement.scrollWidth") <= PAPER[0]
    assert found.page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert found.read("faintTexts") == []
    assert found.page.pdf(format="A4").startswith(b"%PDF")


def test_the_tables_say_what_the_json_says(
    opened: Any, name: str, folders: dict[str, Path]
) -> None:
    plain = json.loads((folders[name] / "report.json").read_text("utf-8"))
    seen = {(one[0], one[1], one[2]): one[3] for one in opened(name).read("figures")}
    wanted = {}
    for row in plain["points"]:
        if row["state"] != "measured":
            continue
        key = (row["setting"], row["point"])
        for metric, sample in row["figures"].items():
            digits = BY_ID[metric].digits
            text = f"{sample['median']:,.{digits}f}"
            if metric in {"output_tok_s", "request_tok_s"} and sample["spread"] is not None:
                text += f" ± {sample['spread']:,.{digits}f}"
            if metric == "kv_use":
                text = f"{100 * sample['median']:.0f} %"
            wanted[(key[0], key[1], metric)] = text
        if row["gain"]:
            change = f"{100 * row['gain']['change']:+.6f}"
            assert float(seen[(key[0], key[1], "gain")].partition(" ")[0]) == pytest.approx(
                float(change), abs=0.51
            )
    assert len(wanted) > 10
    assert {key: seen.get(key) for key in wanted} == wanted
    empty = {key: text for key, text in seen.items() if key not in wanted and key[2] != "gain"}
    assert set(empty.values()) <= {"-"}


def test_the_comparison_shows_both_stacks_and_the_change(opened: Any) -> None:
    found = opened("story")
    rows = [
        [cell.strip() for cell in row.inner_text().split("\t")]
        for row in found.page.locator("table.beside tbody tr").all()
    ]
    now = RESULTS["story"][0]
    assert len(rows) == len({(one.setting, one.point) for one in now.runs if one.state == "ok"})
    labels = {one.label for one in now.settings}
    for load, setting, before, after, change in rows:
        assert load in {one.id for one in now.points}
        assert setting in labels
        before_rate, after_rate = (float(one.replace(",", "")) for one in (before, after))
        assert before_rate == pytest.approx(1.1 * after_rate, rel=0.01)
        assert change.startswith("-9.1 % ± ")
    titles = [one["title"] for one in found.read("charts")]
    assert sum(one.startswith("Change in output tokens a second") for one in titles) == 2


def test_each_chart_is_told_in_words_with_its_figures(opened: Any) -> None:
    """A reader who sees no chart gets the figures that are drawn."""
    found = opened("lab")
    charts = found.read("charts")
    plain = RESULTS["lab"][0]
    assert [one["role"] for one in charts] == ["img"] * len(charts)
    for chart in charts:
        assert chart["label"].count(" at ") >= chart["marks"], chart["title"]
        for point in plain.points:
            assert f" at {point.concurrency}" in chart["label"]


def test_the_break_even_is_marked_and_told(opened: Any) -> None:
    found = opened("lab")
    gain, throughput = found.read("charts")[:2]
    for chart in (gain, throughput):
        assert "break-even 4 to 16" in chart["text"]
        assert "break-even 4 to 16 (EAGLE-3 3/1/4)" in chart["label"]
    answer = found.page.locator(".answer").first.inner_text()
    assert answer == "EAGLE-3 3/1/4 pays up to concurrency 4 and no longer at 16."


def test_figures_that_mean_nothing_say_so_before_all_else(opened: Any) -> None:
    found = opened("lab")
    first = found.page.locator("main > *").first
    assert first.inner_text().startswith("These figures mean nothing.")
    assert first.is_visible()
    assert opened("story").page.get_by_text("mean nothing").count() == 0


def test_a_keyboard_reaches_what_scrolls_and_headings_are_in_order(opened: Any) -> None:
    page = opened("story").page
    for one in page.locator(".scroll").all():
        assert one.get_attribute("tabindex") == "0"
        assert one.get_attribute("aria-label")
    levels = page.eval_on_selector_all("h1, h2, h3", "all => all.map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.evaluate("[...document.querySelectorAll('thead th')].every(one => one.scope)")
