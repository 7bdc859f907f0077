# SPDX-License-Identifier: Apache-2.0
"""The lookup `rendered`, in a real play: the same text as ansible-core's own lookup gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[4]
TEMPLATES = {
    "blocks": "# head\n{% for name in names %}\n{{ name }}={{ size }}\n{% endfor %}\nend\n",
    "backslashes": "a \\\n  b \\n {{ 'c\\\\d' }}\n",
    "number": "{{ size }}\n",
    "no newline": "{{ names | join(',') }}",
    "derived": "{{ derived }}\n",
    "unsafe": "{{ unsafe }}\n",
}
VARIABLES = {
    "names": ["b", "a"],
    "size": 3,
    "derived": "{{ names | sort }} of {{ size }}",
    "unsafe": "{% raw %}{{ size }}{% endraw %}",
}


def play(place: Path, lookup: str) -> dict[str, object]:
    """What a lookup makes of each template."""
    found = {name: f"{{{{ lookup('{lookup}', '{place / name}') }}}}" for name in TEMPLATES}
    target = place / "found"
    copy = {"dest": str(target), "content": "{{ found | to_json }}"}
    task = {"ansible.builtin.copy": copy, "vars": {"found": found}}
    written = [{"hosts": "localhost", "gather_facts": False, "vars": VARIABLES, "tasks": [task]}]
    (place / "play.yml").write_text(yaml.safe_dump(written))
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "-c", "local"]
    done = subprocess.run(
        [*command, str(place / "play.yml")],
        env={**os.environ, "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg")},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    told: dict[str, object] = json.loads(target.read_text())
    return told


def test_it_renders_what_ansible_renders(tmp_path: Path) -> None:
    for name, text in TEMPLATES.items():
        (tmp_path / name).write_text(text)
    ours = play(tmp_path, "sm120.sglang.rendered")
    assert ours["blocks"] == "# head\nb=3\na=3\nend\n"
    assert ours["unsafe"] == "{{ size }}\n"
    assert ours == play(tmp_path, "ansible.builtin.template")


def test_what_is_not_defined_is_an_error(tmp_path: Path) -> None:
    for name in TEMPLATES:
        (tmp_path / name).write_text("{{ nobody_defines_this }}\n")
    with pytest.raises(RuntimeError, match="nobody_defines_this"):
        play(tmp_path, "sm120.sglang.rendered")
