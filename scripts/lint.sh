#!/usr/bin/env bash
# Lints Go (its format, too), shell scripts and workflows.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/tools.sh lint
golangci_lint=$(scripts/tools.sh where golangci-lint)

# A cache of its own for each checkout: it goes by the contents of a file and
# remembers the path where it saw them first.
GOLANGCI_LINT_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/ralph-bot/golangci-lint/$(pwd | git hash-object --stdin)
export GOLANGCI_LINT_CACHE

# What it type-checks is what the tests are built from; see static in test.sh.
export CGO_ENABLED=0 GOFLAGS=-trimpath
"$golangci_lint" run --allow-parallel-runners ./...
shellcheck install.sh scripts/*.sh .ci/run
"$(scripts/tools.sh where actionlint)"
