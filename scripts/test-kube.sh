#!/usr/bin/env bash
# The tests of sandboxes on Kubernetes, with a cluster of their own, which is stopped at the
# end, whatever the end. See kube.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d /tmp/ralph-kube.XXXXXX)
trap 'scripts/kube.sh stop "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
scripts/kube.sh start "$dir"
export RALPH_TEST_KUBE=$dir
go test -tags kube -count=1 -timeout 20m -parallel 6 ./internal/sandbox/kube/...
go test -tags kube -count=1 -timeout 20m -run '^TestKube' ./cmd/bot
