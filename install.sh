#!/bin/sh
# Installs Ralph Bot on Linux or macOS from a release, after a look at its checksum:
#
#   curl -fsSL https://github.com/org/ralph-action/releases/latest/download/install.sh | sh
#
#   RALPH_VERSION      the version, such as 0.1.0 (default: the latest)
#   RALPH_INSTALL_DIR  where the program goes (default: /usr/local/bin where that can be
#                      written to, else ~/.local/bin)
#   RALPH_RELEASES     the https address of a mirror of the releases
set -eu

fail() {
	printf 'install.sh: %s\n' "$1" >&2
	exit 1
}

# Everything is in a function, so that half of this script, downloaded, does nothing.
main() {
	releases=${RALPH_RELEASES:-https://github.com/org/ralph-action/releases/download}
	for tool in curl tar awk mktemp; do
		command -v "$tool" >/dev/null || fail "$tool is missing: install it first"
	done
	os=$(uname -s | tr '[:upper:]' '[:lower:]')
	case $os in
	linux | darwin) ;;
	*) fail "there is no release for $os: on Windows use WSL 2" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no release for $(uname -m)" ;;
	esac

	version=${RALPH_VERSION:-}
	if [ -z "$version" ]; then
		# The page of the latest release is at its tag.
		page=$(fetch --output /dev/null --head --write-out '%{url_effective}' "${releases%/download}/latest") ||
			fail "there is no release yet at ${releases%/download}"
		version=${page##*/}
	fi
	version=${version#v}
	case $version in
	'' | *[!0-9A-Za-z.-]*) fail "\"$version\" is not a version such as 0.1.0" ;;
	esac

	temp=$(mktemp -d)
	trap 'rm -rf "$temp"' EXIT
	name=ralph-bot_${version}_${os}_$arch.tar.gz
	for file in checksums.txt "$name"; do
		fetch --output "$temp/$file" "$releases/v$version/$file" || fail "$file of version $version cannot be downloaded"
	done
	wanted=$(awk -v name="$name" '$2 == name { print $1 }' "$temp/checksums.txt")
	[ "$wanted" = "$(sha256 "$temp/$name")" ] || fail "the checksum of the download is wrong"
	tar -xzf "$temp/$name" -C "$temp" ralph-bot

	dir=${RALPH_INSTALL_DIR:-}
	if [ -z "$dir" ]; then
		dir=/usr/local/bin
		[ -w "$dir" ] || dir=$HOME/.local/bin
	fi
	mkdir -p "$dir"
	# In one step: the program may be running.
	cp "$temp/ralph-bot" "$dir/.ralph-bot.new"
	chmod 755 "$dir/.ralph-bot.new"
	mv -f "$dir/.ralph-bot.new" "$dir/ralph-bot"
	printf 'Installed %s in %s.\n' "$("$dir/ralph-bot" version)" "$dir"
	case :$PATH: in
	*:"$dir":*) ;;
	*) printf "Add it to your PATH: export PATH=\"%s:\$PATH\"\n" "$dir" ;;
	esac
}

fetch() { curl --fail --silent --show-error --location --proto '=https' --retry 3 "$@"; }

# sha256 FILE: its sum, also where only macOS's tool is.
sha256() {
	if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

main
