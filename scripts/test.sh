#!/usr/bin/env bash
# Everything a change must pass, in one go; `make test` and CI run this.
#
# Installs what is missing (see tools.sh and docker-engine.sh), lints, runs the
# whole Go test suite with the race detector, then the suites that need real
# components: Docker containers and the agents' command lines. A component that cannot be had
# fails the run; nothing is skipped. What was started here is stopped at the
# end, whatever the end.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=$PWD/.cache
engine=$cache/docker-engine
started_engine=
current=
summary=()

finish() {
	local code=$?
	trap - EXIT
	if [ -n "$started_engine" ]; then
		scripts/docker-engine.sh stop "$engine" || code=1
	fi
	echo
	printf '%s\n' "${summary[@]}"
	if [ "$code" -ne 0 ]; then
		printf 'FAILED: %s (exit %d)\n' "${current:-set-up}" "$code"
	else
		printf 'ok: everything passed in %d s\n' "$SECONDS"
	fi
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# step NAME COMMAND…: runs it and notes how long it took.
step() {
	local start=$SECONDS
	current=$1
	shift
	printf '\n==> %s\n' "$current"
	"$@"
	summary+=("$(printf '%5d s  %s' $((SECONDS - start)) "$current")")
}

start_engine() {
	local before after line
	before=$(cat "$engine/docker.pid" 2>/dev/null || true)
	line=$(scripts/docker-engine.sh start "$engine")
	after=$(cat "$engine/docker.pid" 2>/dev/null || true)
	if [ -n "$after" ] && [ "$after" != "$before" ]; then
		started_engine=1
	fi
	export DOCKER_HOST=${line#DOCKER_HOST=}
}

# Where the tests find the real components; see CONTRIBUTING.md.
export_components() {
	local modules=$cache/npm/node_modules arch
	case $(uname -m) in
	x86_64) arch=x64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*)
		echo "no Claude Code for $(uname -m)" >&2
		return 1
		;;
	esac
	export RALPH_OPENAPI=$modules/@octokit/openapi/generated/api.github.com.json
	export RALPH_GRAPHQL_SCHEMA=$modules/@octokit/graphql-schema/schema.graphql
	export RALPH_WEBHOOK_EXAMPLES=$modules/@octokit/webhooks-examples/api.github.com/index.json
	export RALPH_TEST_NPM=$modules
	export RALPH_TEST_CLAUDE=$modules/@anthropic-ai/claude-code-linux-$arch/claude
	export RALPH_TEST_IMAGE=ralph-test/base:1
	export RALPH_TEST_GO_IMAGE=ralph-test/go:1
	export RALPH_TEST_NODE_IMAGE=ralph-test/node:1
	export CI=true
	local file
	for file in "$RALPH_OPENAPI" "$RALPH_GRAPHQL_SCHEMA" "$RALPH_WEBHOOK_EXAMPLES" "$RALPH_TEST_CLAUDE"; do
		[ -s "$file" ] || {
			echo "$file is missing; remove .cache/npm and try again" >&2
			return 1
		}
	done
	"$RALPH_TEST_CLAUDE" --version
}

# tagged TAG…: the test files behind exactly these tags.
tagged() {
	local want
	want="//go:build $(printf '%s && ' "$@")"
	want=${want% && }
	grep -rlxF --include='*_test.go' -- "$want" cmd internal test
}

# suite TAG…: the tests of these files alone; the others of their packages have
# been run already.
suite() {
	local files tests dirs
	mapfile -t files < <(tagged "$@")
	if [ "${#files[@]}" -eq 0 ]; then
		echo "no test is behind the build tags: $*" >&2
		return 1
	fi
	tests=$(grep -ohE '^func (Test|Fuzz|Example)[A-Za-z0-9_]*' "${files[@]}" | sed 's/^func //' | grep -vx TestMain | sort -u | paste -sd'|')
	mapfile -t dirs < <(printf '%s\n' "${files[@]}" | xargs -n1 dirname | sort -u | sed 's,^,./,')
	go test "${race[@]}" -vet=off -count=1 -timeout 20m -tags "$*" -run "^($tests)\$" "${dirs[@]}"
}

# in_memory COMMAND…: runs it with its temporary files in memory, where there is
# enough of it. Tests make thousands of small files, and databases that are flushed
# to the disk.
in_memory() {
	local dir code=0 free
	free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) || free=0
	if [ ! -w /dev/shm ] || [ "${free:-0}" -lt $((4 << 20)) ]; then
		"$@"
		return
	fi
	dir=$(mktemp -d /dev/shm/ralph-test-XXXXXX)
	TMPDIR=$dir "$@" || code=$?
	rm -rf "$dir"
	return "$code"
}

# Everything is watched for races but the database, which is C made into Go by a
# program: most of the time would go there, and what calls it is watched.
race=(-race '-gcflags=modernc.org/...=-race=false')

step "tools" scripts/tools.sh test
step "lint" scripts/lint.sh
step "macOS" env GOOS=darwin go vet ./...
step "Windows" env GOOS=windows go build -o /dev/null ./cmd/bot
# These are all files, and the tests need not look again.
step "vet" go vet -tags 'docker claude clis act live release kube' ./...
current="components"
export_components
step "tests" in_memory go test "${race[@]}" -vet=off -timeout 40m ./...
step "tests of the Action (-tags act)" suite act
step "test of a release (-tags release)" suite release
step "Docker engine" start_engine
step "container images" scripts/test-image.sh --with-go --with-node
step "base of the images that ship" scripts/test-debian.sh
step "tests in containers (-tags docker)" suite docker
step "tests with Claude Code (-tags claude)" suite claude
step "tests with Claude Code in containers (-tags 'docker claude')" suite docker claude
step "tests with the other agents (-tags clis)" suite clis
step "tests with all agents in containers (-tags 'docker clis')" suite docker clis
step "sandboxes in Kubernetes (-tags kube)" scripts/test-kube.sh
current=
