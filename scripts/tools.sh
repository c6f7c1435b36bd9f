#!/usr/bin/env bash
# Installs what linting and testing need, pinned; what is there already is left
# alone. It is kept for the machine, beside its checkouts: a new one builds nothing
# again. System packages are installed on Debian as root; elsewhere a missing one is
# named.
#
#   tools.sh lint        golangci-lint, actionlint and shellcheck
#   tools.sh test        a C compiler (for the race detector), bubblewrap, node and npm,
#                        and the npm packages of test/npm (GitHub's API descriptions and
#                        examples of webhooks, the agents' command lines)
#   tools.sh act         act, which plays GitHub's runner, and docker compose
#   tools.sh release     goreleaser, and syft, which lists what a release is made of
#   tools.sh where NAME  prints where a tool is, or, of npm, the packages
set -euo pipefail
cd "$(dirname "$0")/.."

# They are read by name, in where and go_tool.
# shellcheck disable=SC2034
{
	golangci_lint=v2.12.2
	actionlint=v1.7.12
	act=v0.2.89
	goreleaser=v2.11.2
	syft=v1.29.0
}

tools=${XDG_CACHE_HOME:-$HOME/.cache}/ralph-bot/tools

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

# where NAME: the path of a tool, which has its version and Go's in it, so that
# checkouts of different versions get along.
where() {
	local version=${1//-/_}
	case $1 in
	npm) printf '%s\n' "$tools/npm-$(cat test/npm/package.json test/npm/package-lock.json | git hash-object --stdin)" ;;
	golangci-lint | actionlint | act | goreleaser | syft)
		printf '%s\n' "$tools/$1-${!version}-$(go env GOVERSION)/$1"
		;;
	*)
		say "there is no tool $1"
		exit 2
		;;
	esac
}

# place FROM TO: TO is there whole, or not at all; of two that make it at once the
# first is kept.
place() {
	[ -e "$2" ] || mv "$1" "$2"
	rm -rf "$1"
}

# go_tool NAME PACKAGE: the tool, built by this Go.
go_tool() {
	local version=${1//-/_} to new
	to=$(where "$1")
	[ ! -x "$to" ] || return 0
	say "building $1 ${!version} (minutes the first time)"
	mkdir -p "$tools"
	new=$(mktemp -d "$tools/.new-XXXXXX")
	GOBIN=$new go install "$2@${!version}"
	place "$new" "${to%/*}"
}

# The packages are data, native programs and one script that needs nothing built:
# no install script is run.
npm_packages() {
	local to new
	to=$(where npm)
	[ ! -d "$to" ] || return 0
	say "installing the npm packages of test/npm"
	mkdir -p "$tools"
	new=$(mktemp -d "$tools/.new-XXXXXX")
	cp test/npm/package.json test/npm/package-lock.json "$new/"
	(cd "$new" && npm ci --ignore-scripts --no-audit --no-fund >&2)
	# The mode of mktemp is for the owner alone; agents under test run as others.
	chmod 755 "$new"
	place "$new" "$to"
}

lint() {
	go_tool golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	go_tool actionlint github.com/rhysd/actionlint/cmd/actionlint
	debian shellcheck shellcheck
}

act() {
	go_tool act github.com/nektos/act
	# The plugin of docker's command line, or the program of Debian's package.
	docker compose version >/dev/null 2>&1 || debian docker-compose docker-compose
}

release() {
	go_tool goreleaser github.com/goreleaser/goreleaser/v2
	go_tool syft github.com/anchore/syft/cmd/syft
}

test_tools() {
	debian git git
	# The local sandbox keeps agents apart with it; its tests must not do without.
	[ "$(uname)" != Linux ] || debian bwrap bubblewrap
	debian gcc gcc libc6-dev
	debian node nodejs
	debian npm npm
	npm_packages
}

case ${1:-} in
lint) lint ;;
test) test_tools ;;
act) act ;;
release) release ;;
where) where "${2:-}" ;;
*)
	say "usage: tools.sh lint|test|act|release|where NAME"
	exit 2
	;;
esac
