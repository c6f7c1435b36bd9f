#!/usr/bin/env bash
# Builds ralph-test/debian:1, which stands for the bases of the images that ship
# where no registry is reached: Debian's packages, this machine's certificates, and
# its Node. Made by mmdebstrap, once.
set -euo pipefail

image=ralph-test/debian:1
say() { printf 'test-debian: %s\n' "$*" >&2; }

docker image inspect "$image" >/dev/null 2>&1 && exit 0
if ! command -v mmdebstrap >/dev/null; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		say "mmdebstrap is missing; install it (on Debian: apt-get install mmdebstrap)"
		exit 1
	fi
	apt-get install -q -y --no-install-recommends mmdebstrap >&2
fi
node=$(readlink -f "$(command -v node)")
modules=$(npm root --global)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mmdebstrap --quiet --variant=apt --include=ca-certificates bookworm "$work/base.tar"
mkdir "$root"
tar -C "$root" --exclude='./dev/*' -xf "$work/base.tar"
cp "$node" "$root/usr/local/bin/node"
mkdir -p "$root/usr/local/lib/node_modules"
cp -a "$modules/npm" "$root/usr/local/lib/node_modules/npm"
for name in npm npx; do
	ln -s "../lib/node_modules/npm/bin/$name-cli.js" "$root/usr/local/bin/$name"
done
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
tar -C "$root" -c . | docker import --change 'ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
	--change 'CMD ["/bin/bash"]' - "$image" >/dev/null
say "built $image"
