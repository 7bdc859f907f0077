# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.sm120.sglang.plugins.plugin_utils._engine_action import EngineAction

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

KEY = "sesame-0815"


class Broken(EngineAction):
    """One whose look has a defect."""

    @contextmanager
    def _node(self) -> Iterator[Any]:
        yield None

    def look(self, node: Any, parameters: dict[str, Any], host: str) -> dict[str, Any]:
        raise KeyError(f"{host} with {parameters['api_key']}")


class Misasked(Broken):
    """One that is asked for what cannot be."""

    def look(self, node: Any, parameters: dict[str, Any], host: str) -> dict[str, Any]:
        raise AnsibleActionFail("known_answer needs either `prompt` or `messages`")


def look(kind: type[EngineAction], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(ActionBase, "run", lambda *_: {})
    monkeypatch.setattr(
        ActionBase, "validate_argument_spec", lambda *_, **__: (None, {"api_key": KEY})
    )
    action = kind.__new__(kind)
    action._task = SimpleNamespace(check_mode=False)
    return action.run(None, {"inventory_hostname": "lab-1"})


def test_a_look_that_breaks_is_no_verdict_on_the_engine_and_names_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A verdict would take an engine down that nobody has looked at."""
    found = look(Broken, monkeypatch)
    assert found["no_verdict"] is True
    assert found["failed"] is True
    assert found["msg"].startswith("lab-1: looking at the engine broke: KeyError: ")
    assert "(_engine_action.py:" in found["msg"]
    assert "Traceback" in found["exception"]
    assert KEY not in str(found)


def test_a_wrong_parameter_is_told_in_its_own_words_and_is_no_defect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = look(Misasked, monkeypatch)
    assert found["msg"] == "lab-1: known_answer needs either `prompt` or `messages`"
    assert "exception" not in found
    # Nobody has looked at the engine: nothing is taken down for it.
    assert (found["failed"], found["no_verdict"]) == (True, True)
