#!/bin/sh
# Builds the container image of the sandbox tests from the files of this very
# machine, without a registry: busybox, bash, git, glibc, a CA bundle; with
# --with-go the Go toolchain too, with --with-node node.
#
#   test-image.sh                builds ralph-test/base:1
#   test-image.sh --with-go      and ralph-test/go:1
#   test-image.sh --with-node    and ralph-test/node:1
#
# An image that was made from the same content is left as it is. busybox comes
# from Debian's busybox-static, which is installed where we may and it is
# missing. Takes a few seconds.
set -eu

say() { printf '%s\n' "test-image: $*" >&2; }

with_go=
with_node=
for option in "$@"; do
	case $option in
	--with-go) with_go=1 ;;
	--with-node) with_node=1 ;;
	*)
		say "usage: test-image.sh [--with-go] [--with-node]"
		exit 2
		;;
	esac
done

ca_bundle=/etc/ssl/certs/ca-certificates.crt

for tool in docker bash git ldd tar sha256sum; do
	if ! command -v "$tool" >/dev/null 2>&1; then
		say "$tool is missing"
		exit 1
	fi
done
if ! [ -s "$ca_bundle" ]; then
	say "$ca_bundle is missing: install ca-certificates"
	exit 1
fi

static_busybox() {
	busybox=$(command -v busybox) || return 1
	# ldd fails on a static program.
	! ldd "$busybox" >/dev/null 2>&1
}
if ! static_busybox; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
		say "a static busybox is missing: install busybox-static"
		exit 1
	fi
	apt-get install -q -y --no-install-recommends busybox-static >&2 ||
		{ apt-get update -q >&2 && apt-get install -q -y --no-install-recommends busybox-static >&2; }
	static_busybox
fi

goroot=
if [ -n "$with_go" ]; then
	goroot=$(go env GOROOT)
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT INT TERM

# What an image is made of, as one hash: this script and the files it copies.
content_hash() {
	{
		cat "$0" "$busybox" "$(command -v bash)" "$(command -v git)" "$ca_bundle"
		[ -z "$1" ] || cat "$1"
	} | sha256sum | cut -d' ' -f1
}

up_to_date() {
	[ "$(docker image inspect --format '{{index .Config.Labels "ralph.content"}}' "$1" 2>/dev/null)" = "$2" ]
}

# Copies a program and the libraries it is linked with to the same paths.
copy_program() {
	mkdir -p "$root$(dirname "$1")"
	cp -L "$1" "$root$1"
	ldd "$1" | grep -o '/[^ ]*' | while read -r lib; do
		mkdir -p "$root$(dirname "$lib")"
		[ -e "$root$lib" ] || cp -L "$lib" "$root$lib"
	done
}

fill() {
	(cd "$root" && mkdir -p bin usr/bin usr/share/git-core/templates tmp workspace proc dev sys run opt \
		etc/ssl/certs home/agent lib64)
	chmod 1777 "$root/tmp"
	chown 1000:1000 "$root/home/agent" 2>/dev/null || true

	cp "$busybox" "$root/bin/busybox"
	for applet in $("$busybox" --list); do
		# The list names busybox itself.
		[ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"
	done
	ln -s /bin/busybox "$root/usr/bin/env"

	# On a merged /usr, /bin/bash and /usr/bin/bash are one file; scripts
	# name the first.
	copy_program "$(readlink -f "$(command -v bash)")"
	[ -e "$root/bin/bash" ] || ln -s "$(readlink -f "$(command -v bash)")" "$root/bin/bash"
	copy_program "$(readlink -f "$(command -v git)")"
	core=$(git --exec-path)
	mkdir -p "$root$(dirname "$core")"
	cp -a "$core" "$root$core"
	# No network in there.
	rm -f "$root$core"/git-remote-http* "$root$core"/git-remote-ftp* "$root$core"/git-http-* "$root$core"/git-imap-send

	# Libraries that programs mounted later may want, whether bash and git do
	# or not.
	if command -v dpkg >/dev/null 2>&1; then
		for lib in $(dpkg -L libc6 libgcc-s1 libstdc++6 2>/dev/null | grep -E '/lib.*\.so(\.[0-9.]+)?$'); do
			mkdir -p "$root$(dirname "$lib")"
			[ -e "$root$lib" ] || cp -L "$lib" "$root$lib"
		done
	fi

	cp -L "$ca_bundle" "$root$ca_bundle"
	printf 'root:x:0:0:root:/:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/bash\n' >"$root/etc/passwd"
	printf 'root:x:0:\nagent:x:1000:\n' >"$root/etc/group"
	printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
}

import() {
	tag=$1
	hash=$2
	shift 2
	tar -C "$root" -c . | docker import \
		--change "LABEL ralph.content=$hash" \
		--change "ENV SSL_CERT_FILE=$ca_bundle NODE_EXTRA_CA_CERTS=$ca_bundle" \
		"$@" - "$tag" >/dev/null
	say "built $tag"
}

base=ralph-test/base:1
base_hash=$(content_hash '')
filled=
if up_to_date "$base" "$base_hash"; then
	say "$base is up to date"
else
	fill
	filled=1
	import "$base" "$base_hash" --change "ENV PATH=/usr/bin:/bin"
fi

if [ -n "$with_node" ]; then
	image=ralph-test/node:1
	node=$(readlink -f "$(command -v node)")
	node_hash=$(content_hash "$node")
	if up_to_date "$image" "$node_hash"; then
		say "$image is up to date"
	else
		[ -n "$filled" ] || fill
		filled=1
		copy_program "$node"
		[ "$node" = /usr/bin/node ] || ln -sf "$node" "$root/usr/bin/node"
		import "$image" "$node_hash" --change "ENV PATH=/usr/bin:/bin"
		rm -f "$root$node" "$root/usr/bin/node"
	fi
fi

if [ -n "$goroot" ]; then
	image=ralph-test/go:1
	go_hash=$(content_hash "$goroot/VERSION")
	if up_to_date "$image" "$go_hash"; then
		say "$image is up to date"
	else
		[ -n "$filled" ] || fill
		mkdir -p "$root/usr/local/go"
		tar -C "$goroot" -c VERSION bin go.env lib pkg src | tar -C "$root/usr/local/go" -x
		import "$image" "$go_hash" \
			--change "ENV PATH=/usr/local/go/bin:/usr/bin:/bin" \
			--change "ENV GOTOOLCHAIN=local GOPROXY=off GOFLAGS=-buildvcs=false"
	fi
fi
