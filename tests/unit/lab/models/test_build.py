# SPDX-License-Identifier: Apache-2.0
"""What is written to disk: complete, the same each time, all or nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from lab.models import build as subject
from lab.models.__main__ import main
from lab.models.build import build
from lab.models.vocabulary import vocabulary

MODELS = {"target", "draft-hit", "draft-miss", "draft-long"}


def tree(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def load(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models") / "made" / "here"
    assert build(root) is True
    return root


def test_two_builds_are_equal_to_the_byte(models: Path, tmp_path: Path) -> None:
    build(tmp_path / "again")
    assert tree(tmp_path / "again") == tree(models)


def test_digest_of_the_target_is_pinned(models: Path) -> None:
    # The same on every processor and with every numpy; changed only on purpose.
    content = (models / "target" / "model.safetensors").read_bytes()
    assert hashlib.sha256(content).hexdigest() == (
        "cc75e80d1f35d2be5bfcdcc8a457755614a8a9840ebde82a6cf2f498930a7383"
    )


def test_every_model_has_a_manifest_of_all_its_files(models: Path) -> None:
    assert {path.name for path in models.iterdir()} == MODELS
    for model in MODELS:
        files = tree(models / model)
        del files["manifest.json"]
        assert load(models / model / "manifest.json") == {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            for name, content in files.items()
        }


def test_all_together_stay_small_and_readable_by_the_engine_user(models: Path) -> None:
    assert sum(len(content) for content in tree(models).values()) < 15_000_000
    for path in (models, *models.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path


def test_contexts_on_disk(models: Path) -> None:
    contexts = {
        model: load(models / model / "config.json").get("max_position_embeddings")
        for model in MODELS
    }
    contexts["target"] = load(models / "target" / "config.json")["text_config"][
        "max_position_embeddings"
    ]
    assert contexts == {"target": 2048, "draft-hit": 1024, "draft-miss": 1024, "draft-long": 2048}


def test_drafts_differ_only_where_they_must(models: Path) -> None:
    hit, miss, long = (tree(models / name) for name in ("draft-hit", "draft-miss", "draft-long"))
    assert {n for n in hit if hit[n] != miss[n]} == {"model.safetensors", "manifest.json"}
    assert {n for n in hit if hit[n] != long[n]} == {"config.json", "manifest.json"}


def test_expected_answers_are_what_the_tokenizer_and_the_cycle_say(models: Path) -> None:
    expected = load(models / "target" / "expected.json")
    tokenizer = Tokenizer.from_file(str(models / "target" / "tokenizer.json"))
    template = load(models / "target" / "tokenizer_config.json")["chat_template"]
    chat_prompt = (
        ImmutableSandboxedEnvironment()
        .from_string(template)
        .render(messages=expected["chat"]["messages"])
    )
    cycle = list(vocabulary().cycle)
    for prompt, answer in (
        (expected["generate"]["prompt"], expected["generate"]),
        (chat_prompt, expected["chat"]),
    ):
        start = cycle.index(tokenizer.encode(prompt).ids[-1])
        ids = cycle[start + 1 : start + 1 + answer["max_tokens"]]
        assert answer["token_ids"] == ids
        assert answer["text"] == tokenizer.decode(ids)
    assert expected["chat"]["text"].startswith(" one two three four five")
    assert expected["generate"]["text"].startswith(" four five six")


def test_a_second_build_touches_nothing(models: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in models.rglob("*")}
    assert build(models) is False
    assert {path: path.stat().st_mtime_ns for path in models.rglob("*")} == before


@pytest.mark.parametrize("damage", ["changed", "missing", "extra"])
def test_a_damaged_tree_is_made_new(models: Path, tmp_path: Path, damage: str) -> None:
    root = tmp_path / "models"
    build(root)
    config = root / "draft-hit" / "config.json"
    if damage == "changed":
        config.write_text("{}")
    elif damage == "missing":
        config.unlink()
    else:
        (root / "draft-hit" / "stray").touch()
    assert build(root) is True
    assert tree(root) == tree(models)
    assert [path.name for path in tmp_path.iterdir()] == ["models"]


def test_a_failed_build_leaves_the_old_tree_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "models"
    root.mkdir()
    (root / "old").write_text("kept")
    monkeypatch.setattr(subject, "model_files", lambda: {"target": {"config.json": None}})
    with pytest.raises(TypeError):
        build(root)
    assert tree(tmp_path) == {"models/old": b"kept"}


def test_command_line(tmp_path: Path, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", str(tmp_path / "out")]) == 0
    assert main(["build", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"built: {tmp_path / 'out'}",
        f"unchanged: {tmp_path / 'out'}",
    ]
    assert tree(tmp_path / "out") == tree(models)
