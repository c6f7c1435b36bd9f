#!/usr/bin/env bash
# The first step of the action: brings the program, the agent and the image, and
# tells their places as outputs. Everything comes by the environment; nothing of
# it is ever evaluated.
#
#   RALPH_BOT, where it is set, is a program that is there already: on runners of
#   one's own, without a way to the Internet.
#   RALPH_RELEASES, where it is set, is the https address of a mirror of the releases.
#   RALPH_AGENT_PROGRAM, where it is set, is the agent's program; of the agents acp and
#   command it is their command line.
set -euo pipefail

say() { printf 'ralph: %s\n' "$*"; }
# fail MESSAGE: MESSAGE is in words of our own.
fail() {
	printf '::error title=Ralph cannot start::%s\n' "$*"
	exit 2
}
# output NAME VALUE: VALUE is a path of our own making, in one line.
output() { printf '%s=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"; }

action=${ACTION_PATH:?}
temp=${RUNNER_TEMP:?}
tools=${RUNNER_TOOL_CACHE:-$temp/tools}
releases=${RALPH_RELEASES:-https://github.com/org/ralph-action/releases/download}

# Which program: at a tag or a commit of the action the release that its files belong to, else
# its source.
version=source
if [[ ${ACTION_REF:-} =~ ^(v[0-9]+(\.[0-9]+){0,2}|[0-9a-f]{40})$ ]]; then
	version=$(cat "$action/VERSION")
fi

os=$(uname -s | tr '[:upper:]' '[:lower:]')
case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) arch=$(uname -m) ;;
esac

build() {
	command -v go >/dev/null || fail "the program is built from source here, and Go is not installed: add actions/setup-go before this step, or use a release (uses: org/ralph-action@v1)"
	bot=$temp/ralph-bin/ralph-bot
	mkdir -p "$temp/ralph-bin"
	say "building the program"
	(cd "$action" && CGO_ENABLED=0 go build -trimpath -o "$bot" ./cmd/bot)
}

# sha256 FILE: its sum, also where only macOS's tool is.
sha256() {
	if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

# fetch FILE: a file of the release, into $new.
fetch() {
	curl --fail --silent --show-error --location --proto '=https' --retry 3 --output "$new/$1" "$releases/v$version/$1" ||
		fail "version $version cannot be downloaded for $os on $arch: see $releases"
}

# download: the archive is unpacked only after it has been checked. Other jobs can
# write to the runner's cache: what is there is checked as what is downloaded.
download() {
	local dir=$tools/ralph-bot/$version/$arch name=ralph-bot_${version}_${os}_$arch.tar.gz sum
	new=$(mktemp -d "$temp/ralph-download.XXXXXX")
	bot=$temp/ralph-bin/ralph-bot
	fetch checksums.txt
	sum=$(awk -v name="$name" '$2 == name { print $1 }' "$new/checksums.txt")
	cp "$dir/$name" "$new/$name" 2>/dev/null || true
	if [ ! -f "$new/$name" ] || [ "$sum" != "$(sha256 "$new/$name")" ]; then
		say "downloading version $version"
		fetch "$name"
	fi
	[ "$sum" = "$(sha256 "$new/$name")" ] || fail "the checksum of the download is wrong"
	command -v gh >/dev/null || fail "the attestation of the download is checked with gh, which is not installed: install it, or put the program there yourself and name it in RALPH_BOT"
	gh attestation verify "$new/$name" --repo org/ralph-action >/dev/null || fail "the download has no valid attestation of having been built by org/ralph-action"
	mkdir -p "$dir" "$temp/ralph-bin"
	tar -xzf "$new/$name" -C "$new" ralph-bot
	mv -f "$new/ralph-bot" "$bot"
	mv -f "$new/$name" "$dir/$name" || true
	rm -rf "$new"
}

if [ -n "${RALPH_BOT:-}" ]; then
	bot=$RALPH_BOT
elif [ "$version" = source ]; then
	build
else
	download
fi
"$bot" version
output bot "$bot"

[ "${RALPH_MODE:-work}" = work ] || exit 0

# The agent, where it is not there. Install scripts are not run.
agent=${RALPH_AGENT:-claude}
read -r package pinned < <(awk -v agent="$agent" '$1 == agent { print $2, $3 }' "$action/images/agent/agents.txt") || true
if [ -n "$package" ] && [ -z "${RALPH_AGENT_PROGRAM:-}" ] && ! command -v "$agent" >/dev/null; then
	command -v npm >/dev/null || fail "the agent is not installed, and npm is missing to install it: add actions/setup-node, or name the program in RALPH_AGENT_PROGRAM"
	# Not in the cache, which other jobs can write to; npm checks its own.
	dir=$temp/ralph-agents/$agent/$pinned
	if [ ! -e "$dir/.complete" ]; then
		say "installing $package@$pinned"
		mkdir -p "$dir"
		npm install --prefix "$dir" --ignore-scripts --no-audit --no-fund --loglevel=error "$package@$pinned" || fail "the agent cannot be installed"
		touch "$dir/.complete"
	fi
	program=$dir/node_modules/.bin/$agent
	# Its program is in a package for each platform; the rest is a shell around it.
	native=$(find "$dir/node_modules/@anthropic-ai" -maxdepth 2 -type f -name claude -path "*$os*" 2>/dev/null | head -n 1 || true)
	output agent_program "${native:-$program}"
fi

# The image, where the engine does not have it. Without an engine the next step
# says what to do.
image=${RALPH_IMAGE:-}
if [ -z "$image" ] && [ "$version" != source ]; then
	image=ghcr.io/org/ralph-agent:$version
fi
if [ "${RALPH_SANDBOX:-docker}" = docker ] && [ -n "$image" ] && docker version >/dev/null 2>&1; then
	[[ $image =~ ^[a-z0-9][A-Za-z0-9._:/@-]*$ ]] || fail "the input image is not the reference of an image"
	docker image inspect "$image" >/dev/null 2>&1 || docker pull --quiet "$image" || fail "the image cannot be pulled: see the lines above"
fi
