# SPDX-License-Identifier: Apache-2.0
"""What a class has is judged across the files of a release."""

from __future__ import annotations

import pytest

from tests.unit.plugins.module_utils._patch.wrappers import (
    ALL_THREE,
    HEAD,
    INIT,
    NAMES,
    judge,
)

BASE = f"class Base:\n{ALL_THREE}"
ACROSS: dict[str, tuple[str, dict[str, str]]] = {
    "absolute": ("from sglang.srt.models.base import Base", {"srt/models/base.py": BASE}),
    "relative": ("from .base import Base", {"srt/models/base.py": BASE}),
    "up": ("from ..layers.base import Base", {"srt/layers/base.py": BASE}),
    "renamed": (
        "from .base import Other as Base",
        {"srt/models/base.py": BASE.replace("Base", "Other")},
    ),
    "a module": ("import sglang.srt.models.base as m\nBase = m.Base", {"srt/models/base.py": BASE}),
    "a dotted module": (
        "import sglang.srt.models.base\nBase = sglang.srt.models.base.Base",
        {"srt/models/base.py": BASE},
    ),
    "from a folder": (
        "from sglang.srt.models import base\nBase = base.Base",
        {"srt/models/base.py": BASE},
    ),
    "by a package": (
        "from sglang.srt.common import Base",
        {"srt/common/__init__.py": "from .parts import Base\n", "srt/common/parts.py": BASE},
    ),
    "by a star": (
        "from sglang.srt.common import *",
        {"srt/common/__init__.py": "from .parts import *\n", "srt/common/parts.py": BASE},
    ),
    "two files away": (
        "from .mid import Base",
        {"srt/models/mid.py": "from .base import Base as B\nclass Base(B): pass\n",
         "srt/models/base.py": BASE},
    ),
    "with a fallback": (
        "try:\n    from .base import Base\nexcept ImportError:\n    Base = None",
        {"srt/models/base.py": BASE},
    ),
    "assigned in its file": (
        "from .base import Base",
        {"srt/models/base.py": "class Base: pass\n"
         + "".join(f"Base.{name} = print\n" for name in NAMES)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("head", "files"), ACROSS.values(), ids=ACROSS)
def test_bases_in_other_files_count(head: str, files: dict[str, str]) -> None:
    text = f"{head}\nclass Wrapper(Base):\n{INIT}"
    decision = judge(text.encode(), **files)
    assert decision.state == "upstream", decision.reason
    place = next(name for name, content in files.items() if "first" in content)
    assert decision.evidence[0].startswith(f"{place}:")
    without = {name: content.replace(ALL_THREE, "    x = 1\n") for name, content in files.items()}
    if without != files:
        assert judge(text.encode(), **without).state == "needed"
    broken = dict.fromkeys(files, "class (:\n")
    assert judge(text.encode(), **broken).state == "conflict"
    assert judge(text.encode()).state == "conflict"


def test_a_base_that_torch_brings_has_none_of_the_methods() -> None:
    for head in ("from torch import nn\nBase = nn.Module", "import torch\nBase = torch.nn.Module"):
        assert judge(f"{head}\nclass Wrapper(Base):\n{INIT}".encode()).state == "needed"


def test_imports_in_a_circle_end() -> None:
    text = f"from .other import Base\nclass Wrapper(Base):\n{INIT}"
    files = {"srt/models/other.py": "from .wrapper import Base\n"}
    assert judge(text.encode(), **files).state == "conflict"


def test_an_inner_class_that_lacks_a_method_is_a_conflict() -> None:
    text = HEAD.replace("make()", "Model()")
    model = "class Model:\n    def first(self): pass\n    def second(self): pass\n"
    decision = judge((model + text).encode())
    assert decision.state == "conflict"
    assert "Model, which has no third" in decision.reason
    whole = model + "    def third(self): pass\n" + text
    assert judge(whole.encode()).state == "needed"


def test_the_class_may_have_moved() -> None:
    moved = {"srt/models/new.py": HEAD}
    decision = judge(b"from .new import Wrapper\n", **moved)
    assert decision.state == "conflict"
    assert "lives in another file" in decision.reason
    has = {"srt/models/new.py": HEAD + ALL_THREE}
    assert judge(b"from .new import Wrapper\n", **has).state == "upstream"
