# SPDX-License-Identifier: Apache-2.0
"""Every form in which code can ask the target model for something, with an invented name."""

from __future__ import annotations

import pytest

from tests.unit.plugins.module_utils._contract.small_release import site, sites, worker

MODEL = "self.target_worker.model_runner.model"
WORKER = "srt/speculative/worker.py"

REQUIRED = {
    "a call": f"{MODEL}.invented()",
    "a read": f"x = {MODEL}.invented",
    "getattr without default": f"getattr({MODEL}, 'invented')()",
    "a name in a variable": f"name = 'invented'\ngetattr({MODEL}, name)",
    "a local alias": f"model = {MODEL}\nother = model\nother.invented()",
    "an alias of the runner": "runner = self.target_worker.model_runner\nrunner.model.invented()",
    "getattr for the model": "getattr(self.target_worker.model_runner, 'model').invented()",
    "the parameter itself": "target_worker.model_runner.model.invented()",
    "unpacking": f"a, b = {MODEL}, 1\na.invented()",
    "a walrus": f"if (m := {MODEL}):\n    m.invented()",
    "a conditional expression": f"m = {MODEL} if server_args.x else None\nm.invented()",
    "an or": f"m = None or {MODEL}\nm.invented()",
    "a loop over models": f"for m in [{MODEL}]:\n    m.invented()",
    "a comprehension": f"[m.invented() for m in ({MODEL},)]",
    "a dict": f"d = dict(target={MODEL})\nd['target'].invented()",
    "a lambda": f"get = lambda: {MODEL}\nget().invented()",
    "a nested function": f"def inner():\n    {MODEL}.invented()\ninner()",
    "an f-string": f"x = f'{{{MODEL}.invented()}}'",
    "under an undecided condition": f"if server_args.x:\n    {MODEL}.invented()",
    "in a with": f"with server_args.context():\n    {MODEL}.invented()",
    "in a try that catches something else": (
        f"try:\n    {MODEL}.invented()\nexcept RuntimeError:\n    pass"
    ),
    "in a try that raises again": (
        f"try:\n    {MODEL}.invented()\n"
        "except AttributeError:\n    if server_args.x:\n        raise"
    ),
    "in a handler": f"try:\n    server_args.x()\nexcept ValueError:\n    {MODEL}.invented()",
    "hasattr, else an error": f"if not hasattr({MODEL}, 'invented'):\n    raise ValueError('no')",
    "elif chain that ends in an error": (
        f"m = {MODEL}\nif hasattr(m, 'invented'):\n    m.invented()\nelse:\n    raise ValueError()"
    ),
    "a default, and an error for it": (
        f"x = getattr({MODEL}, 'invented', None)\nif x is None or not hasattr(x, 'weight'):\n"
        "    raise ValueError()"
    ),
    "assert": f"assert hasattr({MODEL}, 'invented'), 'no'",
}

OPTIONAL = {
    "getattr with a default": f"x = getattr({MODEL}, 'invented', None)",
    "getattr with a default that is called": f"getattr({MODEL}, 'invented', lambda: 1)()",
    "hasattr": f"x = hasattr({MODEL}, 'invented')",
    "behind hasattr": f"if hasattr({MODEL}, 'invented'):\n    {MODEL}.invented()",
    "behind hasattr in one condition": (
        f"if hasattr({MODEL}, 'invented') and {MODEL}.invented():\n    pass"
    ),
    "behind hasattr in an expression": (
        f"x = {MODEL}.invented() if hasattr({MODEL}, 'invented') else 1.0"
    ),
    "behind an early return": (
        f"if not hasattr({MODEL}, 'invented'):\n    return\n{MODEL}.invented()"
    ),
    "caught": f"try:\n    {MODEL}.invented()\nexcept AttributeError:\n    pass",
    "caught with everything": f"try:\n    {MODEL}.invented()\nexcept Exception as e:\n    print(e)",
    "suppressed": (
        f"import contextlib\nwith contextlib.suppress(AttributeError):\n    {MODEL}.invented()"
    ),
    "an error for another reason": (
        f"if hasattr({MODEL}, 'invented'):\n    return\nif server_args.bad:\n    raise ValueError()"
    ),
    "a write": f"{MODEL}.invented = 1",
}


@pytest.mark.parametrize("form", REQUIRED)
def test_required(form: str) -> None:
    found = sites({WORKER: worker(REQUIRED[form])}, "invented")
    needed = [item for item in found if item.need == "required"]
    assert needed, found
    assert {item.scope for item in needed} == {"speculation"}
    assert {item.at.partition(":")[0] for item in needed} == {WORKER}


@pytest.mark.parametrize("form", OPTIONAL)
def test_optional(form: str) -> None:
    found = sites({WORKER: worker(OPTIONAL[form])}, "invented")
    assert found
    assert {item.need for item in found} == {"optional"}, found


DRAFT = {
    "the draft runner's model": "self.draft_worker.model_runner.model.invented()",
    "through an alias": "m = self.draft_worker.model_runner.model\nm.invented()",
    "a part of the target": f"{MODEL}.lm_head.invented()",
    "an object of the same name": "self.invented = 1\nself.invented",
    "a comment and a string": f"# {MODEL}.invented()\nx = 'model.invented'",
    "dead code": f"return\n{MODEL}.invented()",
    "decided the other way": "if self.target_worker.is_draft_worker:\n    " + f"{MODEL}.invented()",
}


@pytest.mark.parametrize("form", DRAFT)
def test_not_the_target_model(form: str) -> None:
    assert not sites({WORKER: worker(DRAFT[form])}, "invented")


def test_place_function_and_conditions_are_named() -> None:
    found = site(f"if server_args.fast:\n    {MODEL}.invented()")
    line = worker(f"if server_args.fast:\n    {MODEL}.invented()").splitlines()
    assert found.at == f"{WORKER}:{1 + line.index(f'            {MODEL}.invented()')}"
    assert found.function == "Worker.__init__"
    assert found.when == ("server_args.fast",)
    assert found.how == "call"


def test_a_keyword_argument_into_another_module() -> None:
    other = """
    def share(*, target_model, draft_model):
        draft_model.invented()
        return target_model.asked_elsewhere()
    """
    body = f"""
    from sglang.srt.speculative.sharing import share
    share(target_model={MODEL}, draft_model=self.draft_worker.model_runner.model)
    """
    files: dict[str, str | bytes | None] = {
        WORKER: worker(body),
        "srt/speculative/sharing.py": other,
    }
    (found,) = sites(files, "asked_elsewhere")
    assert (found.at, found.need) == ("srt/speculative/sharing.py:4", "required")
    assert not sites(files, "invented")


def test_a_model_handed_out_of_the_speculative_code() -> None:
    files: dict[str, str | bytes | None] = {
        WORKER: worker(f"from sglang.srt.utils import helper\nhelper.prepare({MODEL})"),
        "srt/utils/__init__.py": "",
        "srt/utils/helper.py": "def prepare(model):\n    model.invented()\n",
    }
    assert [item.at for item in sites(files, "invented")] == ["srt/utils/helper.py:2"]


def test_a_star_import_on_the_way() -> None:
    files: dict[str, str | bytes | None] = {
        WORKER: worker(f"from sglang.srt.utils import prepare\nprepare({MODEL})"),
        "srt/utils/__init__.py": "from sglang.srt.utils.common import *\n",
        "srt/utils/common.py": "def prepare(model):\n    model.invented()\n",
    }
    assert [item.at for item in sites(files, "invented")] == ["srt/utils/common.py:2"]


KEPT = {
    "field": (f"self.target = {MODEL}", "def step(self):\n    self.target.invented()", ""),
    "property": (
        "pass",
        """
        @property
        def target(self):
            return self.target_worker.model_runner

        def step(self):
            self.target.model.invented()
        """,
        "",
    ),
    "lambda": (f"self.get = lambda: {MODEL}", "def step(self):\n    self.get().invented()", ""),
    "object": (
        f"self.held = Holder({MODEL})",
        "def step(self):\n    self.held.go()",
        """
        class Holder:
            def __init__(self, m):
                self.m = m

            def go(self):
                self.m.invented()
        """,
    ),
    "list": (
        f"self.models = []\nself.models.append({MODEL})",
        "def step(self):\n    for m in self.models:\n        m.invented()",
        "",
    ),
    "parameter": (
        "self.helper(self.target_worker)",
        "def helper(self, w):\n    w.model_runner.model.invented()",
        "",
    ),
}


@pytest.mark.parametrize("kind", KEPT)
def test_kept_in_an_object(kind: str) -> None:
    body, methods, extra = KEPT[kind]
    assert site(body, extra, methods).need == "required"


def test_a_subclass_of_the_engine_s_worker_tells_its_own_model_from_the_target_s() -> None:
    """As in 0.5.9: the draft worker is a TpModelWorker itself, made as a draft."""
    text = """
    from sglang.srt.managers.tp_worker import TpModelWorker

    class Worker(TpModelWorker):
        def __init__(self, server_args, target_worker):
            self.target_worker = target_worker
            super().__init__(server_args, is_draft_worker=True)
            self.model_runner.model.of_the_draft()
            target_worker.model_runner.model.invented()
    """
    assert not sites({WORKER: text}, "of_the_draft")
    assert len(sites({WORKER: text}, "invented")) == 1


def test_a_protocol_asks_for_its_members() -> None:
    extra = """

    from typing import Protocol, runtime_checkable

    @runtime_checkable
    class Projects(Protocol):
        def invented(self) -> None: ...
        def also(self) -> None: ...
    """
    files: dict[str, str | bytes | None] = {
        WORKER: worker(f"m = {MODEL}\nif isinstance(m, Projects):\n    m.invented()", extra)
    }
    found = sites(files, "invented")
    assert {(item.how, item.need) for item in found} == {
        ("isinstance", "optional"),
        ("call", "optional"),
    }
    assert [item.how for item in sites(files, "also")] == ["isinstance"]
    refuses = worker(f"if not isinstance({MODEL}, Projects):\n    raise TypeError()", extra)
    assert "required" in {item.need for item in sites({WORKER: refuses}, "also")}


def test_what_the_release_cannot_tell_is_a_doubt() -> None:
    from tests.unit.plugins.module_utils._contract.small_release import demands

    computed = demands({WORKER: worker(f"getattr({MODEL}, server_args.name)()")})
    assert any("a name that is computed" in doubt for doubt in computed.doubts)
    handed = demands({WORKER: worker(f"server_args.hook({MODEL})")})
    assert any("hands the target model to 'server_args.hook'" in doubt for doubt in handed.doubts)


@pytest.mark.parametrize("filler", ["", "    # what makes the file a large one\n" * 400])
def test_a_function_that_is_not_python_here(filler: str) -> None:
    """In a large file it alone is a doubt; a small one cannot be read as a whole."""
    from tests.unit.plugins.module_utils._contract.small_release import demands

    body = "\n".join(f"x{number} = {number}" for number in range(60))
    broken = (
        f"def other(runner):\n{filler}"
        + body.replace("x", "    x")
        + "\n    return runner.model ]\n"
    )
    calls = f"{MODEL}.invented()\nother(self.target_worker.model_runner)"
    found = demands({WORKER: worker(calls, f"{broken}\n\nEND = 1")})
    asked = {item.member for item in found.sites}
    if filler:
        assert "invented" in asked
        assert any("not valid for Python" in doubt for doubt in found.doubts)
    else:
        assert "invented" not in asked
