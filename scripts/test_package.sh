#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build the collection, install it into an empty path and use it from there, away from the clone.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ansible-galaxy collection build --output-path "$work" >/dev/null
archive=$(ls "$work"/sm120-sglang-*.tar.gz)

files=$(tar -tzf "$archive")
for wanted in plugins/modules/node_facts.py plugins/module_utils/_launch.py \
  plugins/plugin_utils/_benchmark_report/{page.html.j2,page.css,references.yml} playbooks/deploy.yml playbooks/preflight.yml \
  roles/engine/tasks/main.yml roles/engine/templates/sglang.service.j2 meta/runtime.yml; do
  grep -qx "$wanted" <<<"$files" || { echo "the package lacks $wanted" >&2; exit 1; }
done
if grep -E '(^|/)(tests|lab|\.lab|\.venv[^/]*|__pycache__|inventories|molecule)/' <<<"$files"; then
  echo "the package holds what does not belong there" >&2
  exit 1
fi

mkdir "$work/collections" "$work/empty"
# Nothing of the clone may help.
unset ANSIBLE_CONFIG PYTHONPATH
export ANSIBLE_COLLECTIONS_PATH="$work/collections" ANSIBLE_LOCALHOST_WARNING=0
cd "$work/empty"
ansible-galaxy collection install --offline -p "$work/collections" "$archive" >/dev/null
listed=$(ansible-doc -t role -l sm120.sglang)
roles=()
for role in preflight cuda_stack engine_release source_patches model_store engine health_gate benchmark; do
  grep -q "sm120.sglang.$role" <<<"$listed" || { echo "ansible-doc does not list role $role" >&2; exit 1; }
  roles+=("sm120.sglang.$role")
done
ansible-doc -t role "${roles[@]}" >/dev/null
modules=()
for module in "$work"/collections/ansible_collections/sm120/sglang/plugins/modules/[a-z]*.py; do
  modules+=("sm120.sglang.$(basename "$module" .py)")
done
ansible-doc -t module "${modules[@]}" >/dev/null
ansible-doc -t callback sm120.sglang.operator >/dev/null
ansible-playbook -i localhost, --syntax-check sm120.sglang.deploy >/dev/null
# The first play runs for real: an inventory without nodes is refused, with the reason.
if output=$(ansible-playbook -i localhost, sm120.sglang.deploy 2>&1); then
  echo "an empty inventory was accepted" >&2
  exit 1
fi
grep -q "has no host in the group 'engines'" <<<"${output//$'\n'/ }" || { echo "$output" >&2; exit 1; }
echo "package: $(basename "$archive"), $(wc -l <<<"$files") files"
