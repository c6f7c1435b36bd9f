#!/usr/bin/env bash
# Plays docs/tour.md and takes its pictures, docs/images/tour-*.png, and that of a
# first run, if RALPH_TEST_CLAUDE names Claude Code. Installs a
# browser without a screen, and fonts, on Debian as root; elsewhere it is named.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v chromium-headless-shell >/dev/null; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "tour: chromium-headless-shell is missing; install it, with fonts (on Debian: apt-get install chromium-headless-shell fonts-liberation2 fonts-dejavu-core fonts-noto-color-emoji)" >&2
		exit 1
	fi
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium-headless-shell fonts-liberation2 fonts-dejavu-core fonts-noto-color-emoji
fi
# The screen of a first run on one's own repository, of the suite with the real Claude Code.
if [ -n "${RALPH_TEST_CLAUDE:-}" ]; then
	RALPH_TEST_PICTURE=$PWD/docs/images/first-run.svg go test -tags claude -count=1 -run '^TestFirstRunOfTheReadme$' ./cmd/bot
fi
exec go run ./scripts/tour -bot bin/bot -out docs/images
