#!/usr/bin/env bash
# Installs what linting and testing need, pinned, into .cache; what is there
# already is left alone. System packages are installed on Debian as root;
# elsewhere a missing one is named.
#
#   tools.sh lint    golangci-lint, actionlint, shellcheck, vale, and a C compiler to
#                    build vale
#   tools.sh test    a C compiler (for the race detector), node and npm, the npm
#                    packages of test/npm (GitHub's API descriptions and examples
#                    of webhooks, the agents' command lines), act, which plays
#                    GitHub's runner, goreleaser, and a program that
#                    reads compose.yaml
#   tools.sh release goreleaser, and syft, which lists what a release is made of
set -euo pipefail
cd "$(dirname "$0")/.."

golangci_lint=v2.12.2
actionlint=v1.7.12
vale=v3.21.0
act=v0.2.89
goreleaser=v2.11.2
syft=v1.29.0

bin=$PWD/.cache/bin
mkdir -p "$bin"

say() { printf 'tools: %s\n' "$*" >&2; }

command -v go >/dev/null || {
	say "Go is missing; install the version go.mod names from https://go.dev/dl"
	exit 1
}

# debian COMMAND PACKAGE…: COMMAND is there, or is installed with PACKAGE.
updated=
debian() {
	local command=$1
	shift
	command -v "$command" >/dev/null && return 0
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		say "$command is missing; install it (on Debian: apt-get install $*)"
		exit 1
	fi
	say "installing $*"
	export DEBIAN_FRONTEND=noninteractive
	if [ -z "$updated" ]; then
		apt-get update -q >&2
		updated=1
	fi
	apt-get install -q -y --no-install-recommends "$@" >&2
}

# go_tool NAME PACKAGE VERSION: .cache/bin/NAME, built by this Go.
go_tool() {
	local want
	want="$3 $(go env GOVERSION)"
	if [ -x "$bin/$1" ] && [ "$(cat "$bin/$1.version" 2>/dev/null)" = "$want" ]; then
		return 0
	fi
	say "building $1 $3 (minutes the first time)"
	GOBIN=$bin go install "$2@$3"
	printf '%s\n' "$want" >"$bin/$1.version"
}

lint() {
	go_tool golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint "$golangci_lint"
	go_tool actionlint github.com/rhysd/actionlint/cmd/actionlint "$actionlint"
	debian shellcheck shellcheck
	debian gcc gcc libc6-dev
	go_tool vale github.com/vale-cli/vale/v3/cmd/vale "$vale"
}

# The packages are data, native programs and one script that needs nothing built:
# no install script is run. What is there is replaced at once, since tests may be
# using it.
npm_packages() {
	local dir=$PWD/.cache/npm want
	want=$(cat test/npm/package.json test/npm/package-lock.json | sha256sum)
	if [ "$(cat "$dir/.installed" 2>/dev/null)" = "$want" ]; then
		return 0
	fi
	say "installing the npm packages of test/npm"
	rm -rf "$dir.new" "$dir.old"
	mkdir -p "$dir.new"
	cp test/npm/package.json test/npm/package-lock.json "$dir.new/"
	(cd "$dir.new" && npm ci --ignore-scripts --no-audit --no-fund >&2)
	printf '%s\n' "$want" >"$dir.new/.installed"
	[ ! -e "$dir" ] || mv "$dir" "$dir.old"
	mv "$dir.new" "$dir"
	rm -rf "$dir.old"
}

release_builder() {
	go_tool goreleaser github.com/goreleaser/goreleaser/v2 "$goreleaser"
}

release() {
	release_builder
	go_tool syft github.com/anchore/syft/cmd/syft "$syft"
}

test_tools() {
	debian git git
	# The local sandbox keeps agents apart with it; its tests must not do without.
	[ "$(uname)" != Linux ] || debian bwrap bubblewrap
	debian gcc gcc libc6-dev
	debian node nodejs
	debian npm npm
	npm_packages
	# The plugin of docker's command line, or the program of Debian's package.
	docker compose version >/dev/null 2>&1 || debian docker-compose docker-compose
	go_tool act github.com/nektos/act "$act"
	release_builder
}

case ${1:-} in
lint) lint ;;
test) test_tools ;;
release) release ;;
*)
	say "usage: tools.sh lint|test|release"
	exit 2
	;;
esac
