#!/usr/bin/env bash
# The tests. Installs what they need (see tools.sh and docker-engine.sh).
#
#   test.sh        what a change must pass: `make test`
#   test.sh all    that, and every suite that takes longer: `make test-all`
#
# Each step runs, also after one that failed; the end names every test that failed. A component
# that cannot be had fails its step: nothing is skipped. What was started here is stopped at the
# end, whatever the end.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

all=
case ${1:-} in
'') ;;
all) all=1 ;;
*)
	echo "usage: test.sh [all]" >&2
	exit 2
	;;
esac

engine=$PWD/.cache/docker-engine
started_engine=
summary=()
failed=0
# Tests make thousands of small files, and databases that are flushed to the disk: in memory, where
# there is enough of it.
free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) || free=0
[ -w /dev/shm ] && [ "${free:-0}" -gt $((4 << 20)) ] && export TMPDIR=/dev/shm
# Names are short: sockets end up below.
work=$(mktemp -d "${TMPDIR:-/tmp}/rt-XXXXXX")
export TMPDIR=$work/t
mkdir "$TMPDIR"

finish() {
	trap - EXIT
	if [ -n "$started_engine" ]; then
		scripts/docker-engine.sh stop "$engine" || failed=1
	fi
	echo
	printf '%s\n' "${summary[@]}"
	# A package's tests are told before its own line.
	awk '/^ *--- FAIL: / {tests = tests " " $3}
		/^(panic|fatal error): / {tests = tests " " $0}
		/^FAIL\t/ {print "FAILED: " $2 tests; tests = ""}
		/^ok / {tests = ""}' "$work"/*.log 2>/dev/null
	rm -rf "$work"
	if [ "$failed" -eq 0 ]; then
		printf 'ok: everything passed in %d s\n' "$SECONDS"
	fi
	exit "$failed"
}
trap finish EXIT
trap 'failed=130; exit' INT
trap 'failed=143; exit' TERM

# step NAME COMMAND…: runs it, and notes how long it took and how it ended.
step() {
	local start=$SECONDS name=$1 said=
	shift
	printf '\n==> %s\n' "$name"
	"$@" 2>&1 | tee "$work/${#summary[@]}.log"
	if [ "${PIPESTATUS[0]}" -ne 0 ]; then
		failed=1 said='  FAILED'
	fi
	summary+=("$(printf '%5d s  %s%s' $((SECONDS - start)) "$name" "$said")")
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
	[ -n "$DOCKER_HOST" ]
}

# Where the tests find the real components; see CONTRIBUTING.md.
modules=$(scripts/tools.sh where npm)/node_modules
case $(uname -m) in x86_64) arch=x64 ;; *) arch=arm64 ;; esac
export RALPH_WEBHOOK_EXAMPLES=$modules/@octokit/webhooks-examples/api.github.com/index.json
export RALPH_TEST_NPM=$modules
export RALPH_TEST_CLAUDE=$modules/@anthropic-ai/claude-code-linux-$arch/claude
export RALPH_TEST_IMAGE=ralph-test/base:1 RALPH_TEST_GO_IMAGE=ralph-test/go:1 RALPH_TEST_NODE_IMAGE=ralph-test/node:1
export RALPH_TEST_PROGRAM=$work/bot
export CI=true

# What the tests start as the program is built once, as it is shipped. All that need not be watched
# for races is built by the same flags, so that little is compiled twice.
static() { CGO_ENABLED=0 GOFLAGS=-trimpath "$@"; }
build() { static go build -ldflags='-s -w' -o "$RALPH_TEST_PROGRAM" ./cmd/bot; }

# The race detector watches the tests of the packages that start goroutines, and with them what they
# call: the simulated GitHub, the store, publishing, the local sandbox. The database is C made into Go
# by a program: most of the time would go there, and what calls it is watched.
raced=(gateway ghapp handlers host httpd inline notify proc queue reconcile sandbox/shim tui)
mapfile -t raced < <(printf './internal/%s\n' "${raced[@]}" | LC_ALL=C sort)
mapfile -t plain < <(static go list ./... | sed "s,^$(go list -m),.," | LC_ALL=C sort | LC_ALL=C comm -23 - <(printf '%s\n' "${raced[@]}"))
test_plain() { static go test -vet=off -timeout 20m "$@"; }
test_raced() { go test -race '-gcflags=modernc.org/...=-race=false' -vet=off -timeout 20m "$@"; }

# tagged TAG…: the test files behind exactly these tags.
tagged() {
	local want
	want="//go:build $(printf '%s && ' "$@")"
	grep -rlxF --include='*_test.go' -- "${want% && }" cmd internal test
}

# suite TAG…: the tests of these files alone; the others of their packages are run without tags.
suite() {
	local files names dirs
	mapfile -t files < <(tagged "$@")
	if [ "${#files[@]}" -eq 0 ]; then
		echo "no test is behind the build tags: $*" >&2
		return 1
	fi
	names=$(grep -ohE '^func (Test|Fuzz|Example)[A-Za-z0-9_]*' "${files[@]}" | sed 's/^func //' | grep -vx TestMain | sort -u | paste -sd'|')
	mapfile -t dirs < <(printf '%s\n' "${files[@]}" | xargs -n1 dirname | sort -u | sed 's,^,./,')
	test_plain -count=1 -timeout 1h -tags "$*" -run "^($names)\$" "${dirs[@]}"
}

step "tools" scripts/tools.sh test
step "build" build
step "vet" static go vet ./...
step "tests" test_plain "${plain[@]}"
step "tests, watched for races" test_raced "${raced[@]}"
start=$SECONDS
if start_engine; then
	summary+=("$(printf '%5d s  Docker engine' $((SECONDS - start)))")
else
	summary+=("$(printf '%5d s  Docker engine  FAILED' $((SECONDS - start)))") failed=1
fi
if [ -z "$all" ]; then
	step "container images" scripts/test-image.sh --with-go
	step "containers: what any sandbox must do" test_plain -count=1 -tags docker -run '^TestContract$' ./internal/sandbox/docker
	step "containers: adoption after SIGKILL, and a run of Claude Code" test_plain -count=1 -tags 'docker claude' \
		-run '^(TestDockerKilledServerAdoptsItsAgent|TestDockerClaudeLabelBecomesPullRequest)$' ./cmd/bot
	exit
fi
step "container images" scripts/test-image.sh --with-go --with-node
step "base of the images that ship" scripts/test-debian.sh
step "tools of the long suites" eval 'scripts/tools.sh act && scripts/tools.sh release'
step "containers (-tags docker)" suite docker
step "Claude Code (-tags claude)" suite claude
step "Claude Code in containers (-tags 'docker claude')" suite docker claude
step "the other agents (-tags clis)" suite clis
step "all agents in containers (-tags 'docker clis')" suite docker clis
step "the Action, with act as GitHub's runner (-tags act)" suite act
step "a release (-tags release)" suite release
step "macOS" env GOOS=darwin CGO_ENABLED=0 go vet ./...
step "kills and chaos" make crash
step "limits and memory" make load
