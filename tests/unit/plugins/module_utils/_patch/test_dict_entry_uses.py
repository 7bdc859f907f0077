# SPDX-License-Identifier: Apache-2.0
"""Ways to change a table behind the reader's back: refused, or followed to the right answer.

Every module here runs; Python itself says what the table holds before and after an edit.
"""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._patch.small_tables import IN_CLASS, RULE, check, judge

REFUSED = {
    "default arg": "T = {10: [6]}\ndef f(t=T):\n    t[12] = [8]\nf()\n",
    "kw default": "T = {10: [6]}\ndef f(*, t=T):\n    t[12] = [8]\nf()\n",
    "lambda": "T = {10: [6]}\nf = lambda: T.update({12: [1]})\nf()\n",
    "lambda default": "T = {10: [6]}\nf = lambda t=T: t.update({12: [1]})\nf()\n",
    "class body item": "T = {10: [6]}\nclass A:\n    T[12] = [8]\n",
    "class body update": "T = {10: [6]}\nclass A:\n    T.update({12: [8]})\n",
    "class attr alias": "T = {10: [6]}\nclass A:\n    t = T\nA.t[12] = [8]\n",
    "tuple target": "T = {10: [6]}\nT[12], x = [8], 1\n",
    "for target": "T = {10: [6]}\nfor T[12] in [[8]]: pass\n",
    "augassign item": "T = {10: [6], 12: []}\nT[12] += [8]\n",
    "alias tuple": "T = {10: [6]}\nU, V = T, 1\nU[12] = [8]\n",
    "alias list": "T = {10: [6]}\nU = [T]\nU[0][12] = [8]\n",
    "alias or": "T = {10: [6]}\nU = T or {}\nU[12] = [8]\n",
    "alias paren": "T = {10: [6]}\nU = (T)\nU[12] = [8]\n",
    "alias for": "T = {10: [6]}\nfor U in [T]:\n    U[12] = [8]\n",
    "alias walrus": "T = {10: [6]}\nprint(U := T)\nU[12] = [8]\n",
    "alias ifexp": "T = {10: [6]}\nU = T if T else {}\nU[12] = [8]\n",
    "alias return": "T = {10: [6]}\ndef f():\n    return T\nf()[12] = [8]\n",
    "alias comp": "T = {10: [6]}\n[x.update({12: [1]}) for x in [T]]\n",
    "alias dict": "T = {10: [6]}\nD = {'t': T}\nD['t'][12] = [8]\n",
    "alias annassign": "T = {10: [6]}\nU: dict = T\nU[12] = [8]\n",
    "alias chain": "S = T = {10: [6]}\nS[12] = [8]\n",
    "alias chain2": "T = S = {10: [6]}\nS.update({12: [8]})\n",
    "alias earlier": "B = {10: [6]}\nT = B\nB[12] = [8]\n",
    "alias with": (
        "import contextlib\nT = {10: [6]}\nwith contextlib.nullcontext(T) as U:\n    U[12] = [8]\n"
    ),
    "alias match": "T = {10: [6]}\nmatch T:\n    case U:\n        U[12] = [8]\n",
    "setitem": "T = {10: [6]}\nT.__setitem__(12, [8])\n",
    "bound method": "T = {10: [6]}\nf = T.setdefault\nf(12, [8])\n",
    "bound method __setitem__": "T = {10: [6]}\nf = T.__setitem__\nf(12, [8])\n",
    "getattr": "T = {10: [6]}\ngetattr(T, 'update')({12: [8]})\n",
    "dict.setitem": "T = {10: [6]}\ndict.__setitem__(T, 12, [8])\n",
    "operator": "import operator\nT = {10: [6]}\noperator.setitem(T, 12, [8])\n",
    "map": (
        "T = {10: [6]}\n"
        "list(map(T.__delitem__, []))\n"
        "list(map(lambda k: T.update({k: [8]}), [12]))\n"
    ),
    "globals": "T = {10: [6]}\nglobals()['T'][12] = [8]\n",
    "globals2": "T = {10: [6]}\nglobals().update(T={10: [6], 12: [8]})\n",
    "vars": "T = {10: [6]}\nvars()['T'] = {12: [8]}\n",
    "locals": "T = {10: [6]}\nlocals()['T'][12] = [8]\n",
    "exec": "T = {10: [6]}\nexec('T[12] = [8]')\n",
    "eval": "T = {10: [6]}\neval('T.update({12: [8]})')\n",
    "fstring": "T = {10: [6]}\nx = f'{T.update({12: [8]})}'\n",
    "mutated const list": "KEYS = [9]\nKEYS.append(12)\nT = {k: [6] for k in KEYS}\n",
    "mutated const list 2": "KEYS = [9]\nKEYS += [12]\nT = {k: [6] for k in KEYS}\n",
    "mutated const list fn": (
        "KEYS = [9]\ndef f(): KEYS.append(12)\nf()\nT = {k: [6] for k in KEYS}\n"
    ),
    "mutated const alias": "KEYS = [9]\nJ = KEYS\nJ.append(12)\nT = {k: [6] for k in KEYS}\n",
    "mutated const star": "KEYS = [9]\nKEYS[0] = 12\nT = {k: [6] for k in KEYS}\n",
    "spread later alias": "B = {9: [4]}\nC = B\nC[12] = [1]\nT = {**B, 10: [6]}\n",
    "spread fn": "B = {9: [4]}\ndef f(): B[12] = [1]\nf()\nT = {**B, 10: [6]}\n",
    "spread class": "B = {9: [4]}\nclass A: B[12] = [1]\nT = {**B, 10: [6]}\n",
    "spread leaks": "B = {9: [4]}\n(lambda b: b.update({12: [1]}))(B)\nT = {**B, 10: [6]}\n",
    "assert": "T = {10: [6]}\nassert len(T) == 1\n",
    "assert keys": "T = {10: [6]}\nassert set(T) == {10}\n",
    "if raise": "T = {10: [6]}\nif len(T) != 1:\n    raise ValueError\n",
    "values mutated": "B = [6]\nT = {10: B}\nfor v in T.values():\n    v.append(9)\n",
    "value mutated item": "T = {10: [6]}\nT[10].append(8)\n",
    "value mutated nested": "T = {10: {2: 3}}\nT[10][8] = 5\n",
    "match capture": "T = {10: [6]}\nmatch {12: 1}:\n    case {**T}: pass\n",
    "match as": "T = {10: [6]}\nmatch {12: 1}:\n    case dict() as T: pass\n",
    "setdefault in class fn": "T = {10: [6]}\nclass A:\n    def f(self): T[12] = [8]\nA().f()\n",
    "decorator": "T = {10: [6]}\ndef d(f):\n    f(T)\n    return f\n@d\ndef g(t): t[12] = [8]\n",
    "nested fn": "T = {10: [6]}\ndef f():\n    def g():\n        T[12] = [8]\n    g()\nf()\n",
    "fn alias": "T = {10: [6]}\ndef f():\n    u = T\n    u[12] = [8]\nf()\n",
    "fn passes": "T = {10: [6]}\ndef g(u):\n    u[12] = [8]\ndef f():\n    g(T)\nf()\n",
    "fn local after global read": "T = {10: [6]}\ndef f():\n    T.update({12: [8]})\nf()\n",
    "del slice": "T = {10: [6]}\ndel T[10], T\nT = {12: [8]}\n",
    "own zip import": "from itertools import zip_longest as zip\nT = dict(zip([10, 12], [[6]]))\n",
    "own dict": "dict = lambda *a, **k: {12: [8]}\nT = dict({10: [6]})\n",
    "own OrderedDict": "def OrderedDict(x): return {12: 1}\nT = OrderedDict({10: [6]})\n",
    "own range": "def range(*a): return [12]\nT = {k: [6] for k in range(9)}\n",
    "const del": "SM = 12\ndel SM\nSM = 10\nT = {SM: [6]}\n",
    "const in if": "SM = 10\nif True: SM = 12\nT = {SM: [6]}\n",
    "const except": (
        "SM = 10\ntry: raise ValueError\nexcept ValueError as SM: pass\nSM=12\nT = {SM: [6]}\n"
    ),
    "const match": "SM = 10\nmatch 12:\n    case SM: pass\nT = {SM: [6]}\n",
    "const fn global": "SM = 10\ndef f():\n    global SM\n    SM = 12\nf()\nT = {SM: [6]}\n",
    "const globals": "SM = 10\nglobals()['SM'] = 12\nT = {SM: [6]}\n",
    "true division key": "T = {24 / 2: [6]}\n",
    "key complex": "T = {12 + 0j: [6]}\n",
    "deleted key const": "T = {10: [6], 12: [8]}\ndel T[6 * 2]\n",
    "pop computed": "T = {10: [6], 12: [8]}\nT.pop(6*2)\n",
    "popitem": "T = {10: [6], 12: [8]}\nT.popitem()\n",
    "update gen": "T = {10: [6]}\nT.update((k, [8]) for k in (12,))\n",
    "ior gen": "T = {10: [6]}\nT |= ((k, [8]) for k in (12,))\n",
    "ior zip": "T = {10: [6]}\nT |= zip([12], [[8]])\n",
    "ior list": "T = {10: [6]}\nT |= [(12, [8])]\n",
    "dict fromkeys": "T = dict.fromkeys([10, 12], [6])\n",
    "unpack star": "T, *rest = {10: [6]}, 1\n",
    "lambda val": "T = {10: lambda: 1}\n",
    "set val comp": "T = {10: [x for x in (6,)]}\n",
    "walrus in val": "T = {10: (y := [6])}\n",
    "walrus key": "T = {(y := 10): [6]}\nZ = y\n",
    "f-string val": "x = 3\nT = {10: f'{x}'}\n",
    "star import after": "T = {10: [6]}\nfrom os.path import *\n",
    "comment in empty": "T = {  # nothing\n}\nT[10] = [6]\n",
    "ifexp value in union": "T = {10: [6]} | ({12: [1]} if True else {})\n",
    "bool or union": "T = {10: [6]} or {12: [8]}\n",
    "and": "T = {10: [6]} and {12: [8]}\n",
    "list subscript": "T = [{10: [6]}, {12: [8]}][1]\n",
    "dict subscript": "T = {'a': {10: [6]}}['a']\n",
    "semicolon del": "T = {10: [6]}; T[12] = [8]; del T[12]\n",
    "self sorted": "T = {10: [6]}\nT = dict(sorted(T.items()))\n",
    "counter": "from collections import Counter\nT = Counter({10: 6})\n",
    "ChainMap": "from collections import ChainMap\nT = ChainMap({10: [6]}, {12: [8]})\n",
    "MappingProxy of name": (
        "from types import MappingProxyType\nB = {10: [6]}\nT = MappingProxyType(B)\nB[12] = [8]\n"
    ),
    "OrderedDict move": (
        "from collections import OrderedDict\nT = OrderedDict({10: [6]})\nT.move_to_end(10)\n"
    ),
    "OrderedDict pairs": "from collections import OrderedDict\nT = OrderedDict([(10, [6])])\n",
    "nested target": "class N: pass\nn = N()\nT = {10: [6]}\nn.t = T\nn.t[12] = [8]\n",
    "subscript target alias": "L = [0]\nT = {10: [6]}\nL[0] = T\nL[0][12] = [8]\n",
    "yield": "T = {10: [6]}\ndef g():\n    yield T\nnext(g())[12] = [8]\n",
    "star call": "T = {10: [6]}\ndef g(*a):\n    a[0][12] = [8]\ng(*[T])\n",
    "len alias": "T = {10: [6]}\ndef len(x):\n    x[12] = [8]\nlen(T)\n",
    "type(T)": "T = {10: [6]}\ntype(T).update(T, {12: [8]})\n",
    "print shadow": "from operator import setitem as print\nT = {10: [6]}\nprint(T, 12, [8])\n",
    "harmless method": "class R:\n    def len(self, t): t[12] = [8]\nT = {10: [6]}\nR().len(T)\n",
    "iter alias": "T = {10: [6]}\nit = iter([T])\nnext(it)[12] = [8]\n",
    "try finally": "T = {10: [6]}\ntry:\n    pass\nfinally:\n    T[12] = [8]\n",
    "while": "T = {10: [6]}\nwhile 12 not in T:\n    T[12] = [8]\n",
    "async": "T = {10: [6]}\nasync def f():\n    T[12] = [8]\n",
    "annotation eval": "T = {10: [6]}\ndef f(x: T.update({12: [8]})): pass\n",
    "annot stmt": "T = {10: [6]}\nx: T.update({12: [8]}) = 1\n",
    "decorator expr": "T = {10: [6]}\n@(lambda f: T.update({12: [8]}))\ndef f(): pass\n",
    "class keyword": (
        "T = {10: [6]}\n"
        "class M(type):\n"
        "    def __new__(m, n, b, d, t=None):\n"
        "        t[12] = [8]\n"
        "        return type.__new__(m, n, b, d)\n"
        "    def __init__(*a, **k): pass\n"
        "class A(metaclass=M, t=T): pass\n"
    ),
    "comprehension cond": "T = {10: [6]}\nx = [1 for k in (12,) if T.setdefault(k, [8])]\n",
    "dict comp mutated iter": "T = {k: v for k, v in {10: [6]}.items()}\n",
    "dunder ior": "T = {10: [6]}\nT.__ior__({12: [8]})\n",
    "param T nested": (
        "T = {10: [6]}\n"
        "def f(T=None):\n"
        "    def g():\n"
        "        global T\n"
        "        T = {12: [8]}\n"
        "    g()\n"
        "f()\n"
    ),
}

FOLLOWED = {
    "key true": "T = {True: [6], 12 - 0: [8]}\n",
    "key decimal str": "T = {'12': [6]}\n",
    "update kwargs": "T = {10: [6]}\nT.update({12: [8]}, a=1)\n",
    "dict kwargs": "T = dict({10: [6]}, a=[1])\n",
    "dict empty": "T = dict()\nT[10] = [6]\n",
    "dict of dict call": "T = dict(dict({10: [6]}))\n",
    "double star nested": "T = {**{**{10: [6]}}}\n",
    "annot only": "T: dict\nT = {10: [6]}\n",
    "annot no value after": "T = {10: [6]}\nT: dict\n",
    "global stmt at module": "global T\nT = {10: [6]}\n",
    "string table": "T = {10: 'a' 'b'}\n",
    "bytes": "T = {10: b'x'}\n",
    "implicit concat multi": "T = {10: (\n    'a'\n    'b'\n)}\n",
    "neg shift": "T = {10: 1 << 3}\n",
    "ellipsis": "T = {10: ...}\n",
    "pep701": "x = {'a': 1}\ny = f'{x[\"a\"]}'\nT = {10: [6]}\n",
    "comment in between": "T = {\n    10: [6]  # x\n    # y\n    ,  # z\n    # w\n}\n",
    "backslash in dict": "T = {10: [6] \\\n }\n",
    "value with comment inside paren": "T = {10: ([6]  # c\n)\n}\n",
    "very long union": "A = {9: [4]}\nT = A | A | A | {10: [6]}\n",
    "union of right name": "B = {9: [4]}\nT = {10: [6]} | B\n",
    "union w/ later 12": "B = {12: [4]}\nT = {10: [6]} | B\n",
    "assigned twice": "T = {10: [6]}\nT = {**T, 9: [3]}\n",
    "self union": "T = {10: [6]}\nT = T | {9: [3]}\n",
    "self dict": "T = {10: [6]}\nT = dict(T)\n",
    "MappingProxy": "from types import MappingProxyType\nT = MappingProxyType({10: [6]})\n",
    "nonlocal weird": (
        "T = {10: [6]}\n"
        "def f():\n"
        "    T = {}\n"
        "    def g():\n"
        "        nonlocal T\n"
        "        T[12] = 1\n"
        "    g()\n"
        "f()\n"
    ),
    "comp var T": "T = {10: [6]}\nx = [T for T in [1, 2]]\n",
    "star-args default": "T = {10: [6]}\nx = (lambda *a, T={}: T)()\n",
}

REFUSED_IN_CLASS = {
    "enum": "from enum import Enum\nclass K(Enum):\n    T = {10: [6]}\n",
    "decorated": "def d(c):\n    c.T = {12: [8]}\n    return c\n@d\nclass K:\n    T = {10: [6]}\n",
    "metaclass": (
        "class M(type):\n"
        "    def __new__(m, n, b, d):\n"
        "        d['T'] = {12: [8]}\n"
        "        return type.__new__(m, n, b, d)\n"
        "class K(metaclass=M):\n"
        "    T = {10: [6]}\n"
    ),
    "subclass body": "class K:\n    T = {10: [6]}\nclass L(K):\n    K.T[12] = [8]\n",
    "class const shadow": "SM = 12\nclass K:\n    if 1: SM = 10\n    T = {SM: [6]}\n",
    "class const later": "SM = 12\nclass K:\n    T = {SM: [6]}\n    SM = 10\n",
    "own method body": (
        "class K:\n    T = {10: [6]}\n    def f(self):\n        self.T[12] = [8]\nK().f()\n"
    ),
    "other name": "class K:\n    T = {10: [6]}\nW = K\nW.T[12] = [8]\n",
    "instance": "class K:\n    T = {10: [6]}\nk = K()\nk.T[12] = [8]\n",
    "setattr": "class K:\n    T = {10: [6]}\nsetattr(K, 'T', {12: [8]})\n",
    "getattr": "class K:\n    T = {10: [6]}\ngetattr(K, 'T')[12] = [8]\n",
    "vars": "class K:\n    T = {10: [6]}\nvars(K)['T'][12] = [8]\n",
    "dict": "class K:\n    T = {10: [6]}\nK.__dict__['T'][12] = [8]\n",
    "loop": "class K:\n    T = {10: [6]}\nfor c in (K,):\n    c.T[12] = [8]\n",
    "fn arg": "class K:\n    T = {10: [6]}\ndef f(c): c.T[12] = [8]\nf(K)\n",
    "lambda": "class K:\n    T = {10: [6]}\n(lambda: K.T.update({12: [8]}))()\n",
    "init subclass": (
        "class B:\n"
        "    def __init_subclass__(cls):\n"
        "        cls.T = {12: [8]}\n"
        "class K(B):\n"
        "    T = {10: [6]}\n"
    ),
    "class alias in body": "class K:\n    T = {10: [6]}\n    U = T\n    U[12] = [8]\n",
    "body fn call": "class K:\n    T = {10: [6]}\n    def f(t): t[12] = [8]\n    f(T)\n",
    "replaced class": "class K:\n    T = {10: [6]}\nclass J:\n    T = {12: [8]}\nK = J\n",
    "class deleted": "class K:\n    T = {10: [6]}\ndel K\nclass J: T = {12: 1}\nK = J\n",
    "annassign": "class K:\n    T = {10: [6]}\nK.T: dict = {12: [8]}\n",
    "tuple": "class K:\n    T = {10: [6]}\nK.T, x = {12: [8]}, 1\n",
    "item tuple": "class K:\n    T = {10: [6]}\nK.T[12], x = [8], 1\n",
    "global T in class": "class K:\n    global T\n    T = {10: [6]}\nK.T = {12: [8]}\n",
    "classmethod": (
        "class K:\n"
        "    T = {10: [6]}\n"
        "    @classmethod\n"
        "    def f(cls):\n"
        "        cls.T.update({12: [8]})\n"
        "K.f()\n"
    ),
    "super": (
        "class K:\n"
        "    T = {10: [6]}\n"
        "class L(K):\n"
        "    @classmethod\n"
        "    def f(c):\n"
        "        super().T[12] = [8]\n"
        "L.f()\n"
    ),
    "nested rule": "class K:\n    class T: pass\n",
    "walrus": "class K:\n    print(T := {10: [6]})\n",
    "cond class": "if True:\n    class K:\n        T = {10: [6]}\n",
    "try class": "try:\n    class K:\n        T = {10: [6]}\nexcept Exception:\n    K = None\n",
    "self.T = self.T": (
        "class K:\n"
        "    T = {10: [6]}\n"
        "    def f(self):\n"
        "        t = self.T\n"
        "        t[12] = [8]\n"
        "K().f()\n"
    ),
}

FOLLOWED_IN_CLASS = {
    "slots": "class K:\n    __slots__ = ('x',)\n    T = {10: [6]}\n",
    "generic": "class K:\n    T: dict[int, list[int]] = {10: [6]}\n",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_may_change_the_table_is_refused(text: str) -> None:
    decision = judge(text.encode(), RULE)
    assert decision.state == "conflict", decision
    assert decision.reason
    assert decision.evidence
    assert not decision.edits


@pytest.mark.parametrize("text", FOLLOWED.values(), ids=FOLLOWED)
def test_what_only_reads_the_table_is_followed(text: str) -> None:
    assert check(text.encode(), RULE).state in {"needed", "upstream"}


@pytest.mark.parametrize("text", REFUSED_IN_CLASS.values(), ids=REFUSED_IN_CLASS)
def test_what_may_change_the_table_of_a_class_is_refused(text: str) -> None:
    assert judge(text.encode(), IN_CLASS).state == "conflict"


@pytest.mark.parametrize("text", FOLLOWED_IN_CLASS.values(), ids=FOLLOWED_IN_CLASS)
def test_what_only_reads_the_table_of_a_class_is_followed(text: str) -> None:
    assert check(text.encode(), IN_CLASS).state in {"needed", "upstream"}


TABLES = [
    "T = {10: [6], 9: [4]}",
    "S = T = {10: [6]}",
    "T: dict[int, list[int]] = {10: [6]}",
    "BASE = {9: [4]}\nT = {**BASE, 10: [6]}",
    "KEYS = (9, 10)\nT = {k: [6] for k in KEYS}",
    "KEYS = [9, 10]\nT = dict(zip(KEYS, ([4], [6])))",
    "BASE = {9: [4]}\nT = BASE | {10: [6]}",
    "T = dict({10: [6]})\nT.update({9: [4]})",
]
# One more statement before or behind the table: most change something, some only read.
STATEMENTS = [
    "{0}[12] = [8]", "{0}.update({{12: [8]}})", "alias = {0}", "alias[12] = [8]",
    "def f():\n    {0}[12] = [8]", "f()", "def g(t={0}):\n    t[12] = [8]", "g()",
    "class A:\n    {0}[12] = [8]", "class B:\n    t = {0}", "B.t[12] = [8]",
    "h = lambda: {0}.setdefault(12, [8])", "h()", "for derived in {0}:\n    pass",
    "for k in (12,):\n    {0}[k] = [8]", "if 12 not in {0}:\n    {0}[12] = [8]",
    "derived = len({0})", "derived = sorted({0}, key=repr)", "def r(k):\n    return {0}.get(k)",
    "def s(k):\n    return {0}[k] if k in {0} else None", "globals()['{0}'][12] = [8]",
    "copy = dict({0})", "copy[12] = [8]", "derived = [*{0}]", "def q():\n    return {0}",
    "q()[12] = [8]", "try:\n    {0}[12] = [8]\nexcept TypeError:\n    pass",
    "assert 10 in {0} or True", "del {0}[12]", "{0}.pop(12, None)", "{0} = {{10: [6]}}",
    "exec('{0}[12] = [8]')", "KEYS = (12,)", "x, {0}[12] = 1, [8]", "print({0})",
]  # fmt: skip


@st.composite
def modules(draw: st.DrawFn) -> bytes:
    """A table between statements that touch it, or another name."""
    statement = st.tuples(st.sampled_from(STATEMENTS), st.sampled_from(["T", "T", "BASE", "S"]))
    before, after = (draw(st.lists(statement, max_size=size)) for size in (1, 3))
    lines = [text.format(name) for text, name in before]
    lines.append(draw(st.sampled_from(TABLES)))
    lines += [text.format(name) for text, name in after]
    return ("\n".join(lines) + "\n").encode()


@settings(max_examples=300, deadline=None)
@given(modules())
def test_a_table_among_other_statements_is_edited_right_or_not_at_all(data: bytes) -> None:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(data, "tables", "exec"), {})  # noqa: S102 - written by this test
    except Exception:
        judge(data, RULE)  # a module that cannot be imported; any word on it will do
        return
    with contextlib.redirect_stdout(io.StringIO()):
        check(data, RULE)
