# SPDX-License-Identifier: Apache-2.0
"""Names that a class may get without a statement of its own that binds them."""

from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._patch.hidden import Hidden
from ansible_collections.sm120.sglang.plugins.module_utils._patch.scopes import find_class
from ansible_collections.sm120.sglang.plugins.module_utils._patch.source import parse


def reason(text: str) -> str:
    source = parse("model.py", f"class Model:\n    pass\n\n{text}\n".encode())
    ((node, _),) = find_class(source.tree, ("Model",))
    return Hidden(source).reason(node, "wanted", own=True)


@pytest.mark.parametrize(
    "statement",
    [
        "Model.wanted = 1",
        "Model.wanted += 1",
        "Model.wanted: int = 1",
        "(other, Model.wanted), *rest = values",
        "with opened() as Model.wanted: pass",
        "for Model.wanted in values: pass",
        "if x:\n        pass\n    else:\n        while y:\n            Model.wanted = 1",
        "try:\n        pass\n    except Error:\n        Model.wanted = 1",
        "match x:\n        case 1:\n            Model.wanted = 1",
        "return [0 for Model.wanted in values]",
        "return call((lambda: {0 for a, (b, Model.wanted) in values})())",
        "return lambda: setattr(Model, 'wanted', 1)",
    ],
)
def test_a_function_that_sets_it_is_seen(statement: str) -> None:
    assert "may add wanted" in reason(f"def later():\n    {statement}")


@pytest.mark.parametrize(
    "statement",
    [
        "self.wanted = 1",
        "other.wanted = 1",
        "Model.other = 1",
        "return Model.wanted",
        "# for Model.wanted as it is in use\n    return [Model.wanted for x in values]",
    ],
)
def test_a_function_that_does_not_set_it_is_no_reason(statement: str) -> None:
    assert reason(f"def later():\n    {statement}") == ""
