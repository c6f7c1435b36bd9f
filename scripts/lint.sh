#!/usr/bin/env bash
# Lints everything: Go, shell scripts, workflows, the words of the documents, and the
# linter's own borders.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/tools.sh lint
bin=$PWD/.cache/bin

# A cache of its own for each checkout: it goes by the contents of a file and
# remembers the path where it saw them first.
export GOLANGCI_LINT_CACHE=$PWD/.cache/golangci-lint

"$bin/golangci-lint" config verify
"$bin/golangci-lint" run --allow-parallel-runners ./...
scripts/lint-selftest.sh "$bin/golangci-lint"
shellcheck install.sh scripts/*.sh .ci/run
"$bin/actionlint"
"$bin/vale" docs README.md CONTRIBUTING.md SECURITY.md AGENTS.md internal/prompt/*.md
