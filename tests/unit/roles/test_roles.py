# SPDX-License-Identifier: Apache-2.0
"""What holds for every role, whatever it does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.sm120.sglang.plugins.action import engine_gate

REPOSITORY = Path(__file__).parents[3]
ROLES = sorted(path.name for path in (REPOSITORY / "roles").iterdir() if path.is_dir())
# Roles of playbooks of their own, or of other roles.
BESIDE = {"observability", "rollback", "benchmark", "distribution"}
STEPS = ["check", "install", "configure", "run", "confirm"]


def load(role: str, file: str) -> Any:
    path = REPOSITORY / "roles" / role / file
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def options(role: str) -> dict[str, Any]:
    found: dict[str, Any] = load(role, "meta/argument_specs.yml")["argument_specs"]["main"][
        "options"
    ]
    return found


def task_files(role: str) -> list[Path]:
    return sorted((REPOSITORY / "roles" / role / "tasks").glob("*.yml"))


def tasks_in(found: Any) -> Iterator[dict[str, Any]]:
    """Every task of a list, those in blocks included."""
    for task in found or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_in(task.get(part))


def tasks_of(role: str) -> Iterator[dict[str, Any]]:
    for path in task_files(role):
        yield from tasks_in(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("role", ROLES)
def test_defaults_and_argument_spec_say_the_same(role: str) -> None:
    defaults = load(role, "defaults/main.yml")
    spec = options(role)
    assert {name: option["default"] for name, option in spec.items() if "default" in option} == (
        defaults
    )
    without = {name for name, option in spec.items() if "default" not in option}
    assert without == {name for name, option in spec.items() if option.get("required")}


TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "path": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "list": (list,),
    "dict": (dict,),
    "raw": (str, int, list),
}


@pytest.mark.parametrize("role", ROLES)
def test_defaults_have_the_type_that_they_are_said_to_have(role: str) -> None:
    for name, option in options(role).items():
        assert option["description"], name
        if "default" in option:
            assert type(option["default"]) in TYPES[option["type"]], name
        if "choices" in option and "{{" not in str(option.get("default", "{{")):
            assert option["default"] in option["choices"], name


@pytest.mark.parametrize("role", ROLES)
def test_names_say_whose_they_are(role: str) -> None:
    assert [name for name in options(role) if not name.startswith(f"{role}_")] == []
    derived = load(role, "vars/main.yml") or {}
    assert [name for name in derived if not name.startswith(f"_{role}_")] == []
    for task in tasks_of(role):
        facts = task.get("ansible.builtin.set_fact") or {}  # none: what a lookup settles
        names = [name for name in facts if name != "cacheable"]
        # An included role takes its own variables.
        included = task.get("ansible.builtin.include_role", {}).get("name", "").rpartition(".")[2]
        foreign = (f"{included}_", f"_{included}_") if included else ()
        names += [name for name in task.get("vars", {}) if not name.startswith(foreign)]
        names += [task.get("loop_control", {}).get("loop_var", f"_{role}_")]
        # `ansible_*` in a task's vars are Ansible's own switches.
        wrong = [name for name in names if not name.startswith((f"_{role}_", "ansible_"))]
        assert wrong == [], task["name"]
        # What another role reads begins with one underscore, what stays here with two.
        register = task.get("register", f"_{role}_")
        assert re.match(rf"__?{role}(_|$)", register), task["name"]


@pytest.mark.parametrize("role", ROLES)
def test_what_stays_in_a_role_is_used_there_alone(role: str) -> None:
    private = {
        task["register"] for task in tasks_of(role) if task.get("register", "").startswith("__")
    }
    for other in set(ROLES) - {role}:
        text = "".join(path.read_text() for path in task_files(other))
        used = {name for name in private if re.search(rf"\b{name}\b", text)}
        # The build's result is handed from building to patching, one play later.
        assert used <= {"__engine_release_build"}, f"{other} uses {used} of {role}"


@pytest.mark.parametrize("role", ROLES)
def test_the_table_of_contents_has_the_five_steps(role: str) -> None:
    text = (REPOSITORY / "roles" / role / "tasks/main.yml").read_text()
    headings = re.findall(r"^\s*# ([a-z]+(?:, [a-z]+)*):", text, re.MULTILINE)
    assert [step for heading in headings for step in heading.split(", ")] == STEPS


@pytest.mark.parametrize("role", ROLES)
def test_every_task_file_is_in_the_table_of_contents(role: str) -> None:
    named = {
        name
        for task in tasks_of(role)
        for kind in ("ansible.builtin.import_tasks", "ansible.builtin.include_tasks")
        # An expression may choose between several.
        for name in re.findall(r"\w+\.yml", task.get(kind, ""))
    }
    # A role's second entry, for a playbook or another role.
    texts = [
        *(REPOSITORY / "playbooks").glob("*.yml"),
        *(REPOSITORY / "roles").rglob("tasks/*.yml"),
    ]
    pattern = rf"name: sm120\.sglang\.{role}\n\s+tasks_from: (.+)"
    entries = {
        name
        for path in texts
        for chosen in re.findall(pattern, path.read_text())
        for name in re.findall(r"\w+\.yml", chosen)
    }
    assert {path.name for path in task_files(role)} == named | entries | {"main.yml"}


@pytest.mark.parametrize("role", ROLES)
def test_tasks_use_full_names_and_real_booleans(role: str) -> None:
    keywords = {"name", "register", "vars", "loop", "loop_control", "when", "delegate_to", "tags"}
    keywords |= {"become", "become_user", "changed_when", "failed_when", "check_mode", "diff"}
    keywords |= {"no_log", "block", "rescue", "always", "until", "retries", "delay", "notify"}
    keywords |= {"environment", "run_once", "ignore_errors", "any_errors_fatal", "throttle"}
    keywords |= {"args"}
    for task in tasks_of(role):
        assert task["name"][0].isupper()
        modules = set(task) - keywords
        assert all(name.startswith(("ansible.builtin.", "sm120.sglang.")) for name in modules)
        assert len(modules) == (0 if "block" in task else 1), task["name"]
    texts = [path.read_text() for path in (REPOSITORY / "roles" / role).rglob("*.yml")]
    # Facts are not injected as variables, and no role knows the lab.
    assert not [text for text in texts if re.search(r"\bansible_(os_family|distribution)\b", text)]
    assert not [text for text in texts if re.search(r"when:.*\blab\b", text)]


def texts_in(found: Any) -> Iterator[str]:
    """Every text of a parsed file."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, (dict, list)):
        for part in found.values() if isinstance(found, dict) else found:
            yield from texts_in(part)


@pytest.mark.parametrize("role", ROLES)
def test_no_text_has_a_quote_behind_a_backslash(role: str) -> None:
    """Ansible's templates show both, and a command that is copied from the screen fails."""
    for path in (REPOSITORY / "roles" / role).rglob("*.yml"):
        texts = list(texts_in(yaml.safe_load(path.read_text())))
        assert [text for text in texts if '\\"' in text or "\\'" in text] == [], path


def test_the_playbook_has_every_role_and_no_other() -> None:
    plays = yaml.safe_load((REPOSITORY / "playbooks/deploy.yml").read_text())
    used = [
        role["name"].removeprefix("sm120.sglang.")
        for play in plays
        for task in tasks_in(play["tasks"])
        for kind in ("import_role", "include_role")
        if "tasks_from" not in (role := task.get(f"ansible.builtin.{kind}", {"tasks_from": ""}))
    ]
    assert set(used) == set(ROLES) - BESIDE
    # The order of the design: each stands on what the ones before it did.
    assert used == [
        "gateway",
        "preflight",
        # In turn where it would take down what serves, and beside what serves everywhere else.
        "cuda_stack",
        "cuda_stack",
        "engine_release",
        "source_patches",
        "model_store",
        "deploy",
        "engine",
        "health_gate",
    ]


def test_whatever_fails_between_build_and_completion_leaves_no_tree_behind() -> None:
    """Patches, contract, proofs and the seal stand where a failure removes what was built."""
    plays = yaml.safe_load((REPOSITORY / "playbooks/deploy.yml").read_text())

    def imported(tasks: Any) -> list[tuple[str, str]]:
        roles = [task.get("ansible.builtin.import_role", {}) for task in tasks]
        return [(role.get("name", ""), role.get("tasks_from", "main.yml")) for role in roles]

    building = {("sm120.sglang.engine_release", "main.yml")}
    building.add(("sm120.sglang.source_patches", "main.yml"))
    blocks = [task for play in plays for task in tasks_in(play["tasks"]) if "rescue" in task]
    guarded = [block for block in blocks if building & {*imported(block["block"])}]
    assert guarded
    for block in guarded:
        assert imported(block["rescue"])[0] == ("sm120.sglang.engine_release", "discard.yml")
    inside = [role for block in guarded for role in imported(block["block"])]
    assert sorted(building) == sorted(role for role in inside if role in building)


def test_preflight_knows_every_role_of_the_playbook() -> None:
    roles = load("preflight", "vars/main.yml")["_preflight_roles"]
    assert sorted(roles) == sorted(set(ROLES) - (BESIDE - {"benchmark", "distribution"}))


@pytest.mark.parametrize("inventory", ["example", "lab"])
def test_inventories_use_variables_that_exist(inventory: str) -> None:
    known = {name for role in ROLES for name in options(role)}
    files = list((REPOSITORY / "inventories" / inventory / "group_vars").rglob("*.yml"))
    assert files
    for path in files:
        names = set(yaml.safe_load(path.read_text()))
        ours = {name for name in names if name.startswith(tuple(f"{role}_" for role in ROLES))}
        assert ours <= known, path
        assert all(name.startswith("lab_") for name in names - ours), path


def test_the_gate_is_given_every_question_and_limit() -> None:
    """One that the role forgets would be left out of the gate, without a word."""
    task = load("health_gate", "tasks/confirm.yml")[0]["sm120.sglang.engine_gate"]
    assert set(task) == set(engine_gate.ActionModule.spec)
    asked = load("health_gate", "vars/main.yml")["_health_gate_asked"]
    texts = yaml.safe_dump([task, load("health_gate", "tasks/run.yml")])
    assert set(re.findall(r"_health_gate_subject\.(\w+)", texts)) == set(asked)
    variables = set(re.findall(r"\bhealth_gate_\w+", yaml.safe_dump(asked)))
    assert variables == set(options("health_gate")) - {"health_gate_rollback"}


SETTLED = {
    "early": load("preflight", "vars/main.yml")["_preflight_settled_early"],
    "late": load("preflight", "vars/main.yml")["_preflight_settled"],
    "member": load("preflight", "vars/main.yml")["_preflight_settled_member"],
}


def settled(which: str) -> list[str]:
    """The names of a list in `roles/preflight/vars/main.yml`, other lists put in."""
    preflight, engine = load("preflight", "vars/main.yml"), load("engine", "vars/main.yml")
    lists = {**preflight, **engine}
    text, before = SETTLED[which], ""
    while text != before:
        before = text
        text = re.sub(
            r"(?<!')\b(_\w+_settled_\w+)\b(?!')", lambda found: str(lists[found[1]]), text
        )
    return re.findall(r"'(_\w+)'", text)


@pytest.mark.parametrize("which", SETTLED)
def test_what_is_settled_stands_after_what_it_is_made_of(which: str) -> None:
    names = settled(which)
    assert len(names) == len(set(names)) > 10
    sources = {
        name: yaml.safe_dump(value)
        for role in load("preflight", "vars/main.yml")["_preflight_defining"]
        for name, value in (load(role, "vars/main.yml") or {}).items()
    }
    assert set(names) <= set(sources)
    for place, name in enumerate(names):
        # Of what is made of others and not settled itself, those others count.
        seen, waiting = set(), {name}
        while waiting:
            one = waiting.pop()
            seen.add(one)
            used = {other for other in sources if re.search(rf"\b{other}\b", sources[one])}
            waiting |= {u for u in used if u not in names} - seen
            later = used & set(names[place + 1 :])
            assert later == set(), f"{name} ({one}) is made of {later}, settled after it"
