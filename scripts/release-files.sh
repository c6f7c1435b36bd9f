#!/usr/bin/env bash
# What a release has beside the program, made by the program itself: the manual page
# and what completes words in shells, in .release.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf .release
mkdir -p .release/completions
# It writes the name that it is called by.
go build -o .release/ralph-bot ./cmd/bot
.release/ralph-bot man | gzip -n9 >.release/ralph-bot.1.gz
.release/ralph-bot completion bash >.release/completions/ralph-bot.bash
.release/ralph-bot completion zsh >.release/completions/_ralph-bot
.release/ralph-bot completion fish >.release/completions/ralph-bot.fish
rm .release/ralph-bot
