# SPDX-License-Identifier: Apache-2.0
"""Writes the models: one folder each, with a manifest; the same bytes every time."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lab.models import draft, target
from lab.models.tensors import serialize
from lab.models.vocabulary import tokenizer_files, vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping

MANIFEST = "manifest.json"
EXPECTED = "expected.json"
SHORT_CONTEXT = 1024
"""Shorter than the target's on purpose: SGLang refuses such a draft unless it is told not to."""

_PROCESSOR = "processing_kimi_lab"
_COUNT_FROM = "three"
_ANSWER_TOKENS = 16


def expected() -> dict[str, object]:
    """Return requests with the one right answer to each, whatever the processor and the draft.

    `generate` is for `/generate`, `chat` for `/v1/chat/completions`; `token_ids` are the
    completion's.
    """
    vocab = vocabulary()

    def answer(last: str) -> dict[str, object]:
        ids = vocab.continuation(vocab.token_id(last), _ANSWER_TOKENS)
        return {"max_tokens": _ANSWER_TOKENS, "text": vocab.text(ids), "token_ids": ids}

    return {
        "generate": {
            "prompt": f"Count on: one two {_COUNT_FROM}",
            **answer(f" {_COUNT_FROM}"),
        },
        "chat": {
            "messages": [{"role": "user", "content": "Please count."}],
            **answer(":"),
        },
    }


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def model_files() -> dict[str, dict[str, bytes]]:
    """Return the content of every file as `{model: {file: bytes}}`, manifests included."""
    tokenizer = {name: _json(content) for name, content in tokenizer_files().items()}
    auto_map = {"AutoProcessor": f"{_PROCESSOR}.KimiLabProcessor"}
    hitting, missing = (serialize(draft.weights(hits=hits)) for hits in (True, False))
    models = {
        "target": {
            **tokenizer,
            "config.json": _json(target.config()),
            "model.safetensors": serialize(target.weights()),
            "processor_config.json": _json(
                {"processor_class": "KimiLabProcessor", "auto_map": auto_map}
            ),
            f"{_PROCESSOR}.py": (Path(__file__).parent / f"{_PROCESSOR}.py").read_bytes(),
            EXPECTED: _json(expected()),
        },
    }
    for name, weights, context in (
        ("draft-hit", hitting, SHORT_CONTEXT),
        ("draft-miss", missing, SHORT_CONTEXT),
        ("draft-long", hitting, target.CONTEXT),
    ):
        models[name] = {
            **tokenizer,
            "config.json": _json(draft.config(context)),
            "model.safetensors": weights,
        }
    for files in models.values():
        files[MANIFEST] = _json(manifest(files))
    return models


def manifest(files: Mapping[str, bytes]) -> dict[str, dict[str, object]]:
    """Return `{file: {"sha256": hex, "size": bytes}}`."""
    return {
        name: {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        for name, content in sorted(files.items())
    }


def build(out: Path) -> bool:
    """Write all models below `out`, all or nothing.

    Nothing is touched when every file is there already, with the right content.  Otherwise the
    models are written beside `out`, which they then replace as a whole: whatever else was in it
    is gone.

    Args:
        out: folder to make; its parents are made too.

    Returns:
        Whether anything was written.
    """
    out = out.absolute()
    models = model_files()
    if _is_built(out, models):
        return False
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
        fresh = Path(scratch) / "fresh"
        for model, files in models.items():
            folder = fresh / model
            folder.mkdir(parents=True)
            for name, content in files.items():
                (folder / name).write_bytes(content)
        for path in (fresh, *fresh.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        if out.exists():
            out.rename(Path(scratch) / "replaced")
        fresh.rename(out)
    return True


def _is_built(out: Path, models: Mapping[str, Mapping[str, bytes]]) -> bool:
    present = {path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir()}
    wanted = {
        f"{model}/{name}": content
        for model, files in models.items()
        for name, content in files.items()
    }
    return present == set(wanted) and all(
        (out / name).read_bytes() == content for name, content in wanted.items()
    )
