# SPDX-License-Identifier: Apache-2.0
"""Ways in which a class gets, or only seems to get, a method or its inner object.

Every module here runs; Python itself says what its objects answer before and after an edit.
"""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._patch.cases import read_cases
from tests.unit.plugins.module_utils._patch.wrappers import HEAD, check, judge


@pytest.mark.parametrize(("text", "state"), read_cases("class_cases.txt"))
def test_what_a_class_has_is_told_right(text: str, state: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        decision = check(text.encode())
    assert decision.state == state, decision
    assert decision.reason
    assert decision.evidence
    assert bool(decision.edits) == (state == "needed")


TABS = (
    "class Wrapper:\n\tdef __init__(self):\n\t    self.inner = make()\n",
    "if True:\n    class Wrapper:\n    \tdef __init__(self):\n    \t\tself.inner = make()\n",
)
TAILS = (
    "\x0c    x = 1\n", "\x0c\nx = 1\n", "    # a\n  # b\n# c\n", "    \n    \n", "    ",
    "    '''x\ny'''", "    x = 1;", "    x = 1 \\\n\ny = 2\n",
)  # fmt: skip


@pytest.mark.parametrize("text", [*TABS, *(HEAD + tail for tail in TAILS)])
def test_white_space_that_few_write_is_kept(text: str) -> None:
    assert check(text.encode()).state == "needed"


GIVEN = "lambda *a: 'given'"
# Members of the class, of its base, and statements behind the class.
MEMBERS = [
    "def {0}(self, *a): return 'own'", "{0} = {1}", "{0}: object", "{0}: object = {1}",
    "if TYPE_CHECKING:\n    def {0}(self, *a): ...", "if FLAG:\n    {0} = {1}",
    "if not FLAG:\n    {0} = {1}\nelse:\n    {0} = {1}", "locals()['{0}'] = {1}",
    "try:\n    {0} = missing\nexcept NameError:\n    {0} = {1}",
    "for {0} in [{1}]: pass", "class Part:\n    {0} = 1", "x = '{0}'", "del x", "x = 1",
    "__slots__ = ('{0}', 'inner', '__dict__')", "def other(self):\n    self.{0} = {1}",
    "def __getattr__(self, n): return getattr(self.__dict__['inner'], n)",
    "with open('/dev/null') as x: pass", "def {0}(self, *a): raise NotImplementedError",
]  # fmt: skip
BEHIND = [
    "Wrapper.{0} = {1}", "setattr(Wrapper, '{0}', {1})", "alias = Wrapper", "alias.{0} = {1}",
    "def patch(c): c.{0} = {1}", "patch(Wrapper)", "for c in (Wrapper,): c.{0} = {1}",
    "if FLAG:\n    Wrapper.{0} = {1}", "if not FLAG:\n    Wrapper.{0} = {1}",
    "EntryClass = [Wrapper]", "del Wrapper.{0}", "Base.{0} = {1}", "exec('Wrapper.{0} = {1}')",
    "x = 'Wrapper.{0}'", "class Late(Wrapper):\n    {0} = {1}", "Wrapper = Late",
    "def unused():\n    Wrapper.{0} = {1}",
]  # fmt: skip
INITS = [
    "def __init__(self): self.inner = make()",
    "def __init__(self):\n    super().__init__()\n    self.inner = make()",
    "def __init__(self):\n    self.inner = None\n    if not FLAG: self.inner = make()",
    "def __init__(self):\n    if FLAG: self.inner = None\n    else: self.inner = make()",
    "x = 0",
]


@st.composite
def modules(draw: st.DrawFn) -> bytes:
    """A wrapper with a base, both of random members, and what happens to them afterwards."""

    def some(texts: list[str], size: int) -> list[str]:
        names = st.sampled_from(["first", "second"])
        pairs = st.lists(st.tuples(st.sampled_from(texts), names), max_size=size)
        return [text.format(name, GIVEN) for text, name in draw(pairs)]

    def body(members: list[str]) -> str:
        return "".join(f"    {line}\n" for text in members for line in text.split("\n"))

    base = body([draw(st.sampled_from(INITS)), *some(MEMBERS, 2)])
    own = body([draw(st.sampled_from([INITS[-1], *INITS])), *some(MEMBERS, 2)])
    head = "TYPE_CHECKING = FLAG = False\n"
    text = f"{head}class Base:\n{base}class Wrapper(Base):\n{own}"
    return (text + "\n".join(some(BEHIND, 3)) + "\n").encode()


@settings(max_examples=300)
@given(modules())
def test_a_class_among_other_statements_is_edited_right_or_not_at_all(data: bytes) -> None:
    scope: dict[str, object] = {"__name__": "wrapper", "make": object}
    try:
        exec(compile(data, "wrapper", "exec"), scope)  # noqa: S102 - written by this test
        inner = getattr(scope["Wrapper"](), "inner", None)  # type: ignore[operator]
    except Exception:
        judge(data)  # a module that cannot be imported, or a class without objects
        return
    if inner is None and judge(data).state != "conflict":
        assert judge(data).state == "upstream", "a method would forward to nothing"
    else:
        check(data)
