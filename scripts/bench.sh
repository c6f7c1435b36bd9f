#!/usr/bin/env bash
# Runs the benchmarks, package after package so that none disturbs another.
# BENCHTIME (1s) and BENCH (.) are handed to go test.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t dirs < <(grep -rlE --include='*_test.go' '^func Benchmark[A-Z]' cmd internal test | xargs -r -n1 dirname | sort -u | sed 's,^,./,')
if [ "${#dirs[@]}" -eq 0 ]; then
	echo "bench: no benchmark found" >&2
	exit 1
fi
go test -p 1 -run '^$' -bench "${BENCH:-.}" -benchmem -benchtime "${BENCHTIME:-1s}" -timeout 30m "${dirs[@]}"
