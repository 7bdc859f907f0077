# SPDX-License-Identifier: Apache-2.0
"""Releases that are damaged on the node, or wrong before they come to it."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import SAID, Broken, ends_well, mended, untouched
from tests.lab_node import LAB_ARGUMENTS, REPOSITORY, STATE

pytestmark = pytest.mark.faults

PACKAGES = "/opt/sglang/current/venv/lib/python3*/site-packages"
GARBAGE = """

_right = verify_tree_greedy


def verify_tree_greedy(predicts, *arguments, **named):
    _right(predicts, *arguments, **named)
    predicts.fill_(7)
"""


@pytest.mark.fault("garbage-kernel")
def test_a_kernel_computes_garbage(node: Broken) -> None:
    """Written in place, as a hand does: uv's cache has it too. Health stays green."""
    node.run(f"cat >> $(echo {PACKAGES}/sgl_kernel/_eagle_tree.py) <<'END'{GARBAGE}END\n")
    node.run("systemctl kill --signal=SIGKILL sglang; systemctl restart sglang")
    node.wait(SAID.format("fired up"))
    shown = node.status()
    assert shown.says("lab-1 generation broken"), shown.output
    assert shown.says("expected 'one two three"), shown.output
    assert shown.says("Remedy: run the deployment again, which mends changed files"), shown.output
    outcome = mended(node)
    assert outcome.says("sgl_kernel/_eagle_tree.py: changed by hand"), outcome.output


@pytest.mark.fault("release-half-deleted")
def test_half_of_the_release_is_deleted(node: Broken) -> None:
    engine = node.engine()
    node.run(f"cd $(echo {PACKAGES}); rm -r sglang/srt/layers torch/nn sgl_kernel")
    untouched(node, engine)  # what it has loaded
    outcome = mended(node)
    assert outcome.says("file(s) not as built"), outcome.output
    assert outcome.says(": missing"), outcome.output


@pytest.mark.faults_core
@pytest.mark.fault("argument-of-another-release")
def test_an_argument_of_another_release(node: Broken) -> None:
    engine = node.engine()
    arguments = {**LAB_ARGUMENTS, "context-bucket": 2}
    outcome = node.deploy(extra={**node.wanted, "engine_arguments": arguments})
    ends_well(outcome, cause="engine_arguments.context-bucket: unknown", remedy="0.5.21")
    untouched(node, engine)


def broken_wheel(folder: Path) -> dict[str, Any]:
    """A stack whose SGLang lacks a method that speculation calls on the target model."""
    good = next((STATE / "wheelhouse").glob("lab-0.5.9-*/sglang-0.5.9-py3-none-any.whl"))
    wheels, stacks = folder / "wheels", folder / "stacks"
    wheels.mkdir()
    stacks.mkdir()
    bad = wheels / good.name
    name = "sglang/srt/models/deepseek_v2.py"
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as sink:
        text = source.read(name).decode()
        text = text.replace("def set_eagle3_layers_to_capture(", "def set_layers_to_capture(")
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename == name:
                content = text.encode()
            elif entry.filename.endswith(".dist-info/RECORD"):
                content = re.sub(
                    rf"(?m)^{re.escape(name)},.*$",
                    f"{name},sha256={digest.decode()},{len(text.encode())}",
                    content.decode(),
                ).encode()
            sink.writestr(entry, content)
    sha256 = hashlib.sha256(bad.read_bytes()).hexdigest()
    # A page names the digest, so that pip takes this one and not the index's of the same version.
    links = folder / "links.html"
    links.write_text(f'<a href="{bad.as_uri()}#sha256={sha256}">{bad.name}</a>')
    pin = r"(?m)^(sglang==\S+)(?: \\\n    --hash=sha256:\S+)+"
    for path in (REPOSITORY / "roles/engine_release/files/stacks").glob("lab-0.5.9*"):
        locked = path.read_text().replace("name: lab-0.5.9", "name: broken")
        locked = re.sub(pin, rf"\1 --hash=sha256:{sha256}", locked)
        (stacks / path.name.replace("lab-0.5.9", "broken")).write_text(locked)
    return {
        "engine_release_stack": "broken",
        "engine_release_stack_folders": [str(stacks)],
        "engine_release_find_links": [str(links)],
        "engine_release_wheelhouse": str(folder / "house"),
    }


@pytest.mark.fault("broken-contract")
def test_an_upgrade_to_a_release_that_lacks_a_method(node: Broken, tmp_path: Path) -> None:
    engine = node.engine()
    outcome = node.deploy(extra={**node.wanted, **broken_wheel(tmp_path)})
    ends_well(outcome, cause="has no set_eagle3_layers_to_capture", remedy="Compare the class")
    untouched(node, engine)


@pytest.mark.fault("patch-refused")
def test_an_upgrade_to_a_release_that_a_patch_does_not_fit(node: Broken) -> None:
    """A patch of the operator's own that was written for another release."""
    engine = node.engine()
    patch = {
        "id": "of_another_release",
        "title": "Edits a line that this release does not have",
        "file": "srt/server_args.py",
        "rule": {
            "kind": "unified_diff",
            "diff": (
                "--- a/srt/server_args.py\n+++ b/srt/server_args.py\n@@ -1,3 +1,3 @@\n"
                " # In no release\n-stood = True\n+stands = True\n # this.\n"
            ),
        },
        "remedy": "Write it anew for this release.",
    }
    wanted = {"source_patches_catalogue": [patch], "source_patches_ids": [patch["id"]]}
    outcome = node.deploy(extra={**node.wanted, **wanted})
    ends_well(outcome, cause="of_another_release", remedy="Write it anew")
    untouched(node, engine)
