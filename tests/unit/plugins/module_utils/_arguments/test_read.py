# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
from typing import Any

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._arguments import ArgumentsError
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.model import (
    UNREADABLE,
    Argument,
    ReleaseParser,
)
from ansible_collections.sm120.sglang.plugins.module_utils._arguments.read import read_parser
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._arguments.trees import Memory, calls, fields


def one(parser: ReleaseParser, flag: str = "--x") -> Argument:
    assert parser.gaps == ()
    return parser.by_flag[flag]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {"nargs": None, "kind": "str", "choices": None}),
        ("type=int", {"nargs": None, "kind": "int"}),
        ("type=json.loads", {"kind": "json"}),
        ("type=human_readable", {"kind": "other"}),
        ('action="store_true"', {"nargs": 0}),
        ('action="append"', {"nargs": None}),
        ('nargs="+", type=float', {"nargs": "+", "kind": "float"}),
        ("nargs=2", {"nargs": 2}),
        ("required=True", {"required": True}),
        ('choices=["a", "b"]', {"choices": ("a", "b"), "open_choices": False}),
        ("choices=NAMES", {"choices": ("a", "b", "c")}),
        ('choices=NAMES + ["d"]', {"choices": ("a", "b", "c", "d")}),
        ('choices=[*NAMES, "e"]', {"choices": ("a", "b", "c", "e")}),
        ("choices=list(TABLE.keys())", {"choices": ("k", "l")}),
        ("choices=[m.name.lower() for m in Mode]", {"choices": ("off", "on")}),
        ("choices=list(Mode)", {"choices": (0, 1)}),
        ("choices=Backend.ALL", {"choices": ("full", "none")}),
        ("choices=get_args(Kind)", {"choices": ("p", "q")}),
        ("choices=known()", {"choices": ("f", "g")}),
        ("choices=plugin.names()", {"choices": None, "open_choices": True}),
        ("choices=perhaps()", {"choices": ("f",), "open_choices": True}),
        ("choices=GROWN", {"choices": ("a", "z")}),
        ('help="[Deprecated] Use --y instead."', {"deprecated": True, "successor": "--y"}),
        ('help="Replaces the deprecated --y."', {"deprecated": False}),
        ('action="help"', {"nargs": 0, "ends": True}),
    ],
)
def test_an_add_argument_call_is_read(options: str, expected: dict[str, Any]) -> None:
    above = """
from enum import Enum
from typing import Literal, get_args
from somewhere import plugin, human_readable
NAMES = ["a", "b"]
NAMES += ["c"]
TABLE = {"k": plugin.K, "l": plugin.L}
Kind = Literal["p", "q"]
GROWN = {"a"}
if plugin.extra:
    GROWN.add("z")
class Mode(Enum):
    OFF = 0
    ON = 1
class Backend:
    FULL = "full"
    NONE = "none"
    ALL = (FULL, NONE)
def known():
    names = ["f"]
    names.append("g")
    return names
def perhaps():
    if plugin.loaded:
        return plugin.names()
    return ["f"]
"""
    argument = one(read_parser(calls(f'parser.add_argument("--x", {options})', above)))
    assert {key: getattr(argument, key) for key in expected} == expected


def test_aliases_and_places_are_kept() -> None:
    parser = read_parser(calls('\n\nparser.add_argument("--x", "--long-x")'))
    assert one(parser).flags == ("--x", "--long-x")
    assert one(parser, "--long-x").where == "srt/server_args.py:8"


ACTIONS = """
class Old(argparse.Action):
    def __init__(self, option_strings, dest, error_message=None, nargs=0, **kwargs):
        super().__init__(option_strings, dest, nargs=nargs, **kwargs)
    def __call__(self, parser, namespace, values, option_string=None):
        if self.error_message:
            parser.error(self.error_message)
        warn("deprecated")
class Alias(argparse.Action):
    def __init__(self, option_strings, dest, new_flag=None, **kwargs):
        super().__init__(option_strings, dest, **kwargs)
    def __call__(self, parser, namespace, values, option_string=None):
        warn(f"{option_string} is deprecated, use {self.new_flag}")
class Child(Old):
    pass
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("action=Old", {"nargs": 0, "deprecated": True, "refusal": ""}),
        ("action=Child", {"nargs": 0, "deprecated": True}),
        ('action=Old, error_message="gone, use --y"', {"refusal": "gone, use --y"}),
        ('action=Alias, new_flag="--y"', {"nargs": None, "deprecated": True, "successor": "--y"}),
        ("action=unknown.Action", {"nargs": UNREADABLE}),
    ],
)
def test_actions_of_the_release_are_understood(options: str, expected: dict[str, Any]) -> None:
    above = "from elsewhere import unknown, warn\n" + ACTIONS
    argument = one(read_parser(calls(f'parser.add_argument("--x", {options})', above)))
    assert {key: getattr(argument, key) for key in expected} == expected


def test_a_boolean_optional_action_has_its_negation() -> None:
    body = 'parser.add_argument("--x", action=argparse.BooleanOptionalAction)'
    assert one(read_parser(calls(body))).flags == ("--x", "--no-x")


def test_groups_loops_conditions_and_other_functions_are_followed() -> None:
    body = """
group = parser.add_argument_group("g")
group.add_argument("--in-group")
parser.add_argument_group("h").add_argument("--on-the-spot")
for name, count in [("a", 1), ("b", 2)]:
    parser.add_argument(f"--{name}-option")
if something():
    parser.add_argument("--maybe")
else:
    group.add_argument("--otherwise")
add_more(parser)
Other.add_cli_args(parser=parser)
"""
    above = """
from sglang.srt.other import Other
from x import something
def add_more(p):
    p.add_argument("--more")
"""
    other = "class Other:\n    @staticmethod\n    def add_cli_args(parser):\n"
    other += '        parser.add_argument("--other")\n'
    parser = read_parser(calls(body, above, **{"srt/other.py": other}))
    assert parser.gaps == ()
    assert [argument.name for argument in parser.arguments] == [
        "--help", "--in-group", "--on-the-spot", "--a-option", "--b-option", "--maybe",
        "--otherwise", "--more", "--other",
    ]  # fmt: skip
    assert one(parser, "--maybe").conditional
    assert not one(parser, "--in-group").conditional


@pytest.mark.parametrize(
    "body",
    [
        "parser.add_argument(name_of(1))",
        "parser.add_argument(*names())",
        'parser.add_argument("positional")',
        "elsewhere(parser)",
        "REGISTRY.append(parser)",
        "for x in unknown():\n    parser.add_argument(x)",
        "add = parser.add_argument\nadd('--x')",
        "setattr(box, 'parser', parser)",
        "def add(name):\n    parser.add_argument(name)\nadd('--x')",
        "if elsewhere(parser):\n    pass",
        "with elsewhere(parser) as box:\n    box.add_argument('--x')",
        'parser.add_argument("--x", **computed())',
    ],
)
def test_what_is_not_understood_is_a_gap_and_no_silence(body: str) -> None:
    parser = read_parser(calls(body, "from far import elsewhere, computed, name_of\n"))
    assert len(parser.gaps) == 1
    assert parser.gaps[0].startswith("srt/server_args.py:")


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ('A[str, "help"] = "a"', {"nargs": None, "kind": "str", "required": False}),
        ('A[str, "help"]', {"required": True}),
        ('A[bool, "help"] = False', {"nargs": 0}),
        ('A[Optional[bool], "help"] = None', {"nargs": 0}),
        ('A[int | None, "help"] = None', {"nargs": None, "kind": "int"}),
        ('A[Union[str, List[str]], "help"] = ""', {"nargs": None, "kind": "str"}),
        ('A[List[int], "help"] = ()', {"nargs": "+", "kind": "int"}),
        ('A[Optional[List[str]], Arg(help="", nargs="*")] = None', {"nargs": "*"}),
        (
            'A[List[str], Arg(help="", type_parser=json.loads)] = ()',
            {"nargs": None, "kind": "json"},
        ),
        ('A[Literal["a", "b"], "help"] = "a"', {"choices": ("a", "b")}),
        ('A[Mode, "help"] = "a"', {"choices": ("m", "n")}),
        ('A[str, Arg(help="", choices=CHOICES)] = "a"', {"choices": ("c", "d")}),
        ('A[str, Arg("[Deprecated] use --y")] = "a"', {"deprecated": True, "successor": "--y"}),
        ('A[str, Arg(help="", nargs="?", const="1")] = "a"', {"nargs": "?"}),
        ("\"A[int, 'help']\" = 1", {"kind": "int"}),
        (
            'A[bool, Arg(help="", action=argparse.BooleanOptionalAction)] = True',
            {"nargs": 0, "flags": ("--x", "--no-x")},
        ),
        (
            'A[int, Arg(help="", aliases=["--long-x"], cli_name="--x")] = 1',
            {"flags": ("--x", "--long-x")},
        ),
    ],
)
def test_an_annotated_field_is_read(annotation: str, expected: dict[str, Any]) -> None:
    above = 'CHOICES = ["c", "d"]\nMode = Optional[Literal["m", "n"]]\n'
    argument = one(read_parser(fields(f"x: {annotation}", above)))
    assert {key: getattr(argument, key) for key in expected} == expected


def test_fields_without_an_argument_are_left_out() -> None:
    body = """
plain: int = 1
hidden: A[int, Arg(help="", no_cli=True)] = 1
other: Annotated[int, object()] = 1
seen: A[int, "help"] = 1
"""
    parser = read_parser(fields(body))
    assert [argument.name for argument in parser.arguments] == ["--help", "--seen"]


def test_a_later_declaration_of_a_field_replaces_an_earlier_one() -> None:
    parser = read_parser(fields('x: A[int, "one"] = 1\nx: A[str, "two"] = ""\n'))
    assert [argument.name for argument in parser.arguments] == ["--help", "--x"]
    assert one(parser).kind == "str"


def spread(collected: str) -> Memory:
    tree = fields(
        "",
        "from sglang.srt.arg_groups.fields.model import Model\n"
        "from sglang.srt.arg_groups.fields.spec import Spec\n",
    )
    text = (
        tree.files["srt/server_args.py"]
        .decode()
        .replace("class ServerArgs:\n", "class ServerArgs:\n    pass\n", 1)
    )
    tree.files["srt/server_args.py"] = (text + f"\nSPACES = [{collected}]\n").encode()
    head = "from sglang.srt.arg_groups.arg_utils import A, Arg\n"
    tree.files["srt/arg_groups/fields/model.py"] = (
        head + 'class Model:\n    m: A[int, "m"] = 1\n'
    ).encode()
    tree.files["srt/arg_groups/fields/spec.py"] = (
        head + 'class Spec:\n    s: A[int, "s"] = 1\n'
    ).encode()
    return tree


def test_fields_that_are_spread_over_files_are_collected() -> None:
    parser = read_parser(spread("Model, Spec"))
    assert parser.gaps == ()
    assert one(parser, "--s").where == "srt/arg_groups/fields/spec.py:3"


def test_a_class_of_fields_that_nothing_collects_is_a_gap() -> None:
    parser = read_parser(spread("Model"))
    assert parser.gaps == ("srt/arg_groups/fields/spec.py:2: nothing collects the fields of Spec",)


def test_metadata_that_is_not_known_here_is_a_gap() -> None:
    tree = fields('x: A[int, "help"] = 1')
    more = tree.files["srt/arg_groups/arg_utils.py"].replace(
        b"    no_cli: bool = False\n", b"    no_cli: bool = False\n    only_on_mars: bool = False\n"
    )
    tree.files["srt/arg_groups/arg_utils.py"] = more
    assert "Arg has a key 'only_on_mars'" in read_parser(tree).gaps[0]


def test_a_parser_without_abbreviations_is_seen() -> None:
    above = "def prepare():\n    return argparse.ArgumentParser(allow_abbrev=False)\n"
    assert not read_parser(calls('parser.add_argument("--x")', above)).abbreviations
    assert read_parser(calls('parser.add_argument("--x")')).abbreviations


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        ({}, "there is no srt/server_args.py"),
        ({"srt/server_args.py": "class Other: pass"}, "no ServerArgs.add_cli_args"),
        ({"srt/server_args.py": "class ServerArgs:\n  def f(:"}, "server_args.py:2: not valid"),
    ],
)
def test_a_tree_that_is_no_release_is_refused(files: dict[str, str], cause: str) -> None:
    with pytest.raises(ArgumentsError, match=cause):
        read_parser(Memory(files))


@pytest.mark.parametrize(
    ("body", "above"),
    [
        ('parser.add_argument("--x", choices=A0)', "A0 = B0\nB0 = A0\n"),
        ('parser.add_argument("--x", choices=' + "+".join(["A"] * 500) + ")", "A = ['a']\n"),
        (
            'parser.add_argument("--x", choices=L29)',
            "L0 = ['a']\n" + "".join(f"L{n} = L{n - 1} + L{n - 1}\n" for n in range(1, 30)),
        ),
        ('parser.add_argument("--x", action=Own)', "class Own(Own):\n    pass\n"),
        ('parser.add_argument("--x", choices=names())', "def names():\n    return names()\n"),
    ],
)
def test_a_hostile_source_is_read_in_time_and_without_a_crash(body: str, above: str) -> None:
    parser = read_parser(calls(body, above))
    assert "--x" in parser.by_flag
    assert parser.by_flag["--x"].choices is None


def test_an_annotation_that_is_no_python_is_no_field() -> None:
    parser = read_parser(fields('x: "A[int," = 1\ny: A[int, "help"] = 1'))
    assert "--x" not in parser.by_flag
    assert "--y" in parser.by_flag


ABOVE = """
NAMES = ["a", "b"]
MORE = {"k": NAMES, "l": None}
class Backend:
    ONE = "one"
    ALL = (ONE, "two")
def listed():
    return list(MORE.keys())
"""
OPTIONS = st.sampled_from(
    [
        "type=int", "type=float", 'nargs="+"', 'nargs="*", type=int', 'nargs="?"', "nargs=3",
        'action="store_true"', 'action="append"', "action=argparse.BooleanOptionalAction",
        "choices=NAMES", 'choices=[*NAMES, "c"]', "choices=Backend.ALL", "choices=listed()",
        "required=True", 'help="some words"', "default=None",
    ]
)  # fmt: skip
DECLARATION = st.tuples(st.sampled_from("xyzuvw"), OPTIONS, st.booleans(), st.integers(0, 4))


def declaration(number: int, name: str, options: str, alias: bool, shape: int) -> str:
    flag = f"--{name}-{number}"
    words = f'"{flag}", "--{name}{name}-{number}"' if alias else f'"{flag}"'
    call = f"add_argument({words}, {options})"
    return [
        f"parser.{call}",
        f'parser.add_argument_group("g").{call}',
        f"group = parser.add_argument_group('h')\ngroup.{call}",
        f"if True:\n    parser.{call}",
        f"for n in [1]:\n    parser.{call}",
    ][shape]


@settings(max_examples=60)
@given(st.lists(DECLARATION, min_size=1, max_size=8))
def test_what_is_read_is_what_argparse_makes_of_it(
    found: list[tuple[str, str, bool, int]],
) -> None:
    tree = calls("\n".join(declaration(n, *one) for n, one in enumerate(found)), ABOVE)
    module: dict[str, Any] = {}
    exec(tree.files["srt/server_args.py"], module)  # noqa: S102 - made here, a line further up
    real = argparse.ArgumentParser()
    module["ServerArgs"].add_cli_args(real)
    parser = read_parser(tree)
    assert parser.gaps == ()
    assert len(parser.arguments) == len(real._actions)
    for action in real._actions[1:]:
        argument = parser.by_flag[action.option_strings[0]]
        assert set(argument.flags) == set(action.option_strings)
        assert (argument.nargs, argument.required) == (action.nargs, action.required)
        assert argument.choices == (None if action.choices is None else tuple(action.choices))
        if argument.nargs != 0:
            assert argument.kind == getattr(action.type, "__name__", "str")
