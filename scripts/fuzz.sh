#!/usr/bin/env bash
# Runs every fuzz target of the tree for FUZZTIME (10s) each. New findings are
# written to testdata/fuzz beside the target; commit them.
set -euo pipefail
cd "$(dirname "$0")/.."

found=0
while IFS=: read -r file name; do
	found=$((found + 1))
	printf '\n==> %s %s\n' "$(dirname "$file")" "$name"
	# Making a new input smaller takes up to a minute unless it is told how many
	# tries to make, and then there is no time left to look for others.
	go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-10s}" -fuzzminimizetime 10x "./$(dirname "$file")"
done < <(grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' cmd internal test | sed 's/:func /:/' | sort)
if [ "$found" -eq 0 ]; then
	echo "fuzz: no target found" >&2
	exit 1
fi
