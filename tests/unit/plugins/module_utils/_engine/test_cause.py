# SPDX-License-Identifier: Apache-2.0
"""From the journals of real deaths to one line and a remedy."""

from __future__ import annotations

import pytest
from ansible_collections.sm120.sglang.plugins.module_utils._engine.cause import (
    Cause,
    find_cause,
    hopeless,
)
from ansible_collections.sm120.sglang.plugins.module_utils._engine.chains import exception_chains
from ansible_collections.sm120.sglang.plugins.module_utils._engine.journal import Line
from ansible_collections.sm120.sglang.plugins.module_utils._engine.signatures import Signature
from ansible_collections.sm120.sglang.plugins.module_utils._engine.unit import UnitState
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._engine.constructed import (
    OUTSIDE,
    STAMP,
    lines,
    manager,
    traceback,
    unit,
)
from tests.unit.plugins.module_utils._engine.recordings import journal

PATCH = Signature(
    "patch", r"has no attribute '(set_eagle3_\w+|[gs]et_embed_and_head)'", r"apply it: \1"
)


@pytest.mark.parametrize(
    ("recording", "summary", "location", "signature", "remedy"),
    [
        (
            "unpatched",
            (
                "AttributeError: 'KimiK25ForConditionalGeneration' object has no attribute "
                "'set_eagle3_layers_to_capture'"
            ),
            "model_runner.py:622",
            "patch",
            "apply it: set_eagle3_layers_to_capture",
        ),
        (
            "unpatched-tp2",
            (
                "AttributeError: 'KimiK25ForConditionalGeneration' object has no attribute "
                "'set_eagle3_layers_to_capture'"
            ),
            "model_runner.py:622",
            "patch",
            "apply it: set_eagle3_layers_to_capture",
        ),
        (
            "context-refused",
            (
                "ValueError: Warning: Target model's context_length (2048) is greater than the "
                "derived context_length (1024)."
            ),
            "model_config.py:382",
            "context-length",
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1",
        ),
        (
            "no-compiler",
            "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found",
            "topk.py:858",
            "cxx-compiler",
            "package g++",
        ),
        (
            "unknown-argument",
            "argument refused: unrecognized arguments: --definitely-not-a-flag 3",
            "",
            "arguments",
            "does not know --definitely-not-a-flag 3",
        ),
        (
            "unreadable-weights",
            (
                "FileNotFoundError: No such file or directory: "
                "/var/lib/sglang/models/kimi_const/model.safetensors"
            ),
            "weight_utils.py:734",
            "missing-file",
            "may not read it",
        ),
        (
            "corrupt-weights",
            "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: ",
            "weight_utils.py:734",
            "corrupt-weights",
            "against its manifest",
        ),
        (
            "missing-draft",
            "OSError: Can't load the configuration of '/var/lib/sglang/models/nowhere'.",
            "hf_transformers_utils.py:315",
            "model-path",
            "does not exist on the node",
        ),
    ],
)
def test_recorded_deaths(
    recording: str, summary: str, location: str, signature: str, remedy: str
) -> None:
    cause = find_cause(journal(recording), remedies=[PATCH])
    assert cause.summary.startswith(summary)
    assert cause.location == location
    assert cause.signature == signature
    assert remedy in cause.remedy
    assert cause.evidence


def test_the_first_failing_rank_is_named() -> None:
    assert find_cause(journal("unpatched-tp2")).rank == "TP0"
    assert find_cause(journal("unpatched")).rank == ""


def test_the_root_of_a_chain_is_told_where_it_is_another() -> None:
    cause = find_cause(journal("missing-draft"))
    assert cause.root.startswith("huggingface_hub.errors.HFValidationError: Repo id must be")
    assert find_cause(journal("unpatched")).root == ""


def test_a_serving_engine_that_is_stopped_has_no_fault() -> None:
    cause = find_cause(journal("served-and-stopped"), unit(result="signal"))
    assert cause.summary == "it was stopped by a request to systemd, not by a fault of its own"


def test_a_serving_engine_that_is_killed_does_not_blame_a_clients_mistake() -> None:
    before = [one for one in journal("served-and-stopped") if not one.manager]
    assert any("[http_server] Error" in one.text for one in before)
    cause = find_cause(before, unit(result="signal", exit_status=9))
    assert cause.summary.startswith("sglang.service was killed from outside (signal 9): ")


def test_a_fatal_error_before_the_stop_is_the_cause() -> None:
    fatal = lines(traceback("ValueError: bad", mark=STAMP + "Scheduler hit an exception: "))
    assert find_cause(fatal + manager("Stopping x...")).summary == "ValueError: bad"
    assert "request" in find_cause(manager("Stopping x...") + fatal).summary


def test_a_port_that_is_taken_is_told_while_the_process_still_lives() -> None:
    recorded = journal("port-taken")
    bound = next(i for i, one in enumerate(recorded) if hopeless(one))
    # The process lived on for two minutes and then died of another error.
    assert recorded[-1].time - recorded[bound].time > 60
    assert not any(hopeless(one) for one in recorded[:bound])
    for journal_lines in (recorded, recorded[: bound + 1]):
        cause = find_cause(journal_lines)
        assert "address already in use" in cause.summary
        assert cause.signature == "port-in-use"


def test_a_killed_scheduler_is_the_cause_and_not_who_noticed() -> None:
    recorded = journal("scheduler-killed")
    told = next(i for i, one in enumerate(recorded) if "Exit code: -9" in one.text)
    # The launcher's own EOFError comes later; a verdict may come before it.
    for journal_lines in (recorded, recorded[: told + 1]):
        cause = find_cause(journal_lines, unit(result="exit-code", exit_status=1))
        assert cause.summary.startswith(
            "the engine's scheduler of rank 0 was killed from outside (signal 9): the kernel's log"
        )
        assert (cause.signature, cause.chain) == (OUTSIDE, ())


def test_one_line_of_text() -> None:
    cause = Cause("KeyError: 12", "x.py:3", root="IndexError (y.py:4)", rank="TP1")
    assert str(cause) == "KeyError: 12 (x.py:3, TP1); first raised: IndexError (y.py:4)"
    assert str(Cause("plain")) == "plain"


# --- constructed journals: what cannot be provoked at will ---------------------------------


def test_interleaved_processes_are_told_apart() -> None:
    one = lines(
        traceback("ValueError: one", mark=STAMP + "Scheduler hit an exception: ", line=1), 1
    )
    two = lines(traceback("KeyError: 'two'", line=2), 2)
    mixed = [line for pair in zip(one, two, strict=True) for line in pair]
    chains = exception_chains(mixed)
    assert [(c.pid, c.raised[0].summary, c.raised[0].location) for c in chains] == [
        (1, "ValueError: one", "a.py:1"),
        (2, "KeyError: 'two'", "a.py:2"),
    ]


@pytest.mark.parametrize(
    "consequence",
    [
        "EOFError",
        "RuntimeError: Rank 0 scheduler died. Please check",
        "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "BrokenPipeError: [Errno 32] Broken pipe",
    ],
)
def test_who_only_noticed_is_not_the_cause(consequence: str) -> None:
    mark = STAMP + "Scheduler hit an exception: "
    noticed = lines(traceback(consequence, mark=mark), 1)
    cause = lines(traceback("ValueError: the cause", mark=mark), 2)
    for journal_lines in (noticed + cause, cause + noticed):
        assert find_cause(journal_lines).summary == "ValueError: the cause"
    assert find_cause(noticed).summary == consequence


def test_a_logged_traceback_gives_way_to_a_fatal_one() -> None:
    logged = lines(traceback("ImportError: harmless", mark=STAMP + "Ignored: "), 1)
    fatal = lines(traceback("ValueError: bad", mark=STAMP + "Scheduler hit an exception: "), 2)
    later = lines(traceback("OSError: while going down"), 3)
    assert find_cause(logged + fatal + later).summary == "ValueError: bad"


def test_without_a_fatal_one_the_last_counts() -> None:
    first = lines(traceback("ImportError: harmless", mark=STAMP + "Ignored: ") + f"\n{STAMP}go on")
    last = lines(traceback("ValueError: uncaught"))
    assert find_cause(first + last).summary == "ValueError: uncaught"


@pytest.mark.parametrize(
    "joint",
    [
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
    ],
)
def test_a_chain_is_one(joint: str) -> None:
    text = traceback("KeyError: 1", line=1) + f"\n{joint}\n" + traceback("ValueError: 2", line=2)
    (chain,) = exception_chains(lines(text))
    assert [raised.summary for raised in chain.raised] == ["KeyError: 1", "ValueError: 2"]
    cause = find_cause(lines(text))
    assert (cause.summary, cause.location, cause.root) == (
        "ValueError: 2",
        "a.py:2",
        "KeyError: 1 (a.py:1)",
    )


def test_two_tracebacks_without_a_joint_are_two() -> None:
    text = traceback("KeyError: 1") + "\n" + traceback("ValueError: 2")
    assert len(exception_chains(lines(text))) == 2


def test_a_message_that_begins_on_the_next_line() -> None:
    (chain,) = exception_chains(lines(traceback("RuntimeError:") + "\nthe message\nmore"))
    assert chain.raised[0].summary == "RuntimeError: the message"
    (chain,) = exception_chains(lines(traceback("AssertionError") + "\nunrelated"))
    assert chain.raised[0].summary == "AssertionError"


def test_a_traceback_that_breaks_off_is_none() -> None:
    text = f'Traceback (most recent call last):\n  File "/a.py", line 1, in f\n{STAMP}going on'
    assert exception_chains(lines(text)) == []


def test_the_engines_own_frame_is_the_place_not_a_library_below() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/sglang/venv/lib/python3.11/site-packages/sglang/srt/x.py", line 5, in f\n'
        '  File "/opt/sglang/venv/lib/python3.11/site-packages/torch/y.py", line 6, in g\n'
        "ValueError: z"
    )
    assert find_cause(lines(text)).location == "x.py:5"
    outside = text.replace("site-packages/sglang/srt", "site-packages/other")
    assert find_cause(lines(outside)).location == "y.py:6"


@pytest.mark.parametrize(
    ("state", "says", "wanted", "signature"),
    [
        (unit(result="oom-kill"), [], "out-of-memory killer", "host-memory"),
        (
            unit(result="exit-code", exit_status=203),
            ["sglang.service: Failed at step EXEC spawning /x: No such file or directory"],
            "EXEC: the program to run does not exist",
            "",
        ),
        (unit(result="exit-code", exit_status=217), [], "USER: the service user", "service-user"),
        (unit(result="exit-code", exit_status=243), [], "CREDENTIALS", "service-credential"),
        (unit(result="start-limit-hit"), [], "started too often", "service-limit"),
        (unit(result="timeout"), [], "timeout ran out", ""),
        (unit(result="signal", exit_status=7), [], "result signal, exit status 7", ""),
        (unit(result="signal", exit_status=9), [], "killed from outside (signal 9)", OUTSIDE),
        (unit(load_state="not-found", active="inactive"), [], "is not-found", ""),
        (unit(load_state="masked", active="inactive"), [], "is masked", ""),
        (
            unit(active="inactive", invocation_id=""),
            [],
            "does not run: it was stopped, or never",
            "",
        ),
    ],
)
def test_deaths_that_only_systemd_tells(
    state: UnitState, says: list[str], wanted: str, signature: str
) -> None:
    cause = find_cause(manager(*says), state)
    assert wanted in cause.summary
    assert cause.signature == signature
    assert list(cause.evidence) == says


@pytest.mark.parametrize(
    ("kernel", "says", "signature"),
    [
        (
            [],
            "log shows no out-of-memory kill (it is empty, or could not be read)",
            OUTSIDE,
        ),
        (["usb 1-1: new device"], "log shows no out-of-memory kill, so somebody", OUTSIDE),
        (
            ["Out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:1kB"],
            "log shows an out-of-memory kill",
            "oom-kill",
        ),
        (
            ["Memory cgroup out of memory: Killed process 4242 (python) total-vm:1kB"],
            "log shows an out-of-memory kill",
            "oom-kill-unit",
        ),
    ],
)
def test_a_silent_sigkill_is_said_to_come_from_outside(
    kernel: list[str], says: str, signature: str
) -> None:
    killed = unit(result="signal", exit_status=9)
    cause = find_cause(manager("x: killed"), killed, kernel=[Line(text) for text in kernel])
    assert cause.summary.startswith(
        f"sglang.service was killed from outside (signal 9): the kernel's {says}"
    )
    assert cause.signature == signature


def test_a_kill_by_the_kernel_explains_the_tracebacks_of_the_others() -> None:
    fatal = lines(traceback("ValueError: x", mark=STAMP + "Scheduler hit an exception: "))
    assert "out-of-memory" in find_cause(fatal, unit(result="oom-kill")).summary


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("/opt/v/bin/python3: No module named sglang", "No module named sglang"),
        (
            "x.service: Failed at step EXEC spawning /v/python: No such file or directory",
            "Failed at step EXEC spawning /v/python: No such file or directory",
        ),
        ("Fatal Python error: Segmentation fault", "Fatal Python error: Segmentation fault"),
        (
            f"{STAMP}Child process unexpectedly failed with exitcode=-9. pid=77",
            "Child process unexpectedly failed with exitcode=-9. pid=77",
        ),
    ],
)
def test_deaths_without_a_traceback(text: str, summary: str) -> None:
    noise = lines(
        f"{STAMP}Received sigquit from a child process. It usually means the child failed."
    )
    assert find_cause(lines(text) + noise).summary == summary


def test_an_empty_journal_says_so() -> None:
    assert find_cause([]).summary == "the engine's journal holds no reason"
    assert "could not be read" in find_cause([], unit(result="signal")).summary


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=60), max_size=40))
def test_any_journal_gives_a_cause(texts: list[str]) -> None:
    cause = find_cause([Line(text, pid=len(text) % 3) for text in texts])
    assert cause.summary.strip() or cause.evidence


@given(st.permutations(range(3)), st.data())
def test_any_interleaving_of_ranks_names_the_first_fatal(
    order: list[int], data: st.DataObject
) -> None:
    """Whatever the order in which lines of different processes arrive, each chain stays whole."""
    mark = STAMP + "Scheduler hit an exception: "
    queues = [lines(traceback(f"ValueError: {pid}", mark=mark), pid) for pid in order]
    merged: list[Line] = []
    while any(queues):
        index = data.draw(st.sampled_from([i for i, q in enumerate(queues) if q]))
        merged.append(queues[index].pop(0))
    first = merged[0].pid
    assert find_cause(merged).summary == f"ValueError: {first}"
    assert len(exception_chains(merged)) == 3
