#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Fetch an apt repository's signing key and keep it only when its fingerprint is known."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_keyring
short_description: Fetch a repository's signing key, and trust it only by its fingerprint
description:
  - Downloads a key file on the node, computes the fingerprint of every key in it, and writes it
    when all of them are among the pinned ones. Nothing is written otherwise.
  - Needs no gpg on the node.
options:
  url:
    description: Where the key file is, or its path on the node.
    type: str
    required: true
  path:
    description: Keyring to write; its name ends in C(.asc), as apt wants for an armoured key.
    type: path
    required: true
  fingerprints:
    description: Fingerprints that are trusted, 40 hexadecimal digits each.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    description: Reports whether the keyring has another key; nothing is downloaded.
    support: full
  diff_mode:
    description: Shows the fingerprints.
    support: full
author:
  - The sm120.sglang maintainers
"""

EXAMPLES = r"""
- name: Trust the repository's key
  sm120.sglang.cuda_keyring:
    url: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/3bf863cc.pub
    path: /etc/apt/keyrings/sglang-nvidia.asc
    fingerprints: [EB693B3035CD5710E231E123A4B469963BF863CC]
"""

RETURN = r"""
fingerprints:
  description: Fingerprints of the keys in the keyring.
  type: list
  elements: str
  returned: always
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import fetch_url
from ansible_collections.sm120.sglang.plugins.module_utils._cuda import openpgp, transaction
from ansible_collections.sm120.sglang.plugins.module_utils._node.cuda import read_keyring

_LARGEST = 1 << 20


def _fetch(module: AnsibleModule, url: str) -> bytes:
    if url.startswith("/"):
        try:
            return Path(url).read_bytes()
        except OSError as error:
            module.fail_json(msg=f"{url}: {error.strerror}")
    answer, info = fetch_url(module, url, timeout=20)
    if info["status"] != 200:
        module.fail_json(
            msg=f"the repository's key cannot be fetched from {url}: {info['msg']}. Check the "
            "node's network and proxy, cuda_stack_repository_url and cuda_stack_repository_key"
        )
    content: bytes = answer.read(_LARGEST)
    return content


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "path": {"type": "path", "required": True},
            "fingerprints": {"type": "list", "elements": "str", "required": True, "no_log": False},
        },
        supports_check_mode=True,
    )
    path = Path(module.params["path"])
    try:
        pinned = [openpgp.normalise(text) for text in module.params["fingerprints"]]
    except openpgp.KeyFileError as error:
        module.fail_json(msg=str(error))
    before = read_keyring(path)
    if before and set(before) <= set(pinned):
        module.exit_json(changed=False, fingerprints=before)
    found = pinned
    if not module.check_mode:
        content = _fetch(module, module.params["url"])
        try:
            found = openpgp.fingerprints(content)
        except openpgp.KeyFileError as error:
            module.fail_json(msg=f"{module.params['url']} is no key file: {error}")
        strange = sorted(set(found) - set(pinned))
        if strange:
            module.fail_json(
                msg=f"{module.params['url']} holds the key {', '.join(strange)}, which is not "
                f"pinned ({', '.join(pinned)}); nothing was changed. If the repository changed its "
                "key, check the new fingerprint with its owner and set "
                "cuda_stack_repository_fingerprints"
            )
        transaction.write(path, content)
    module.exit_json(
        changed=True,
        fingerprints=found,
        diff={
            "before": "".join(f"{p}\n" for p in before),
            "after": "".join(f"{p}\n" for p in found),
        },
    )


if __name__ == "__main__":
    main()
