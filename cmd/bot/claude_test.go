//go:build claude

// The tests in this file run the real Claude Code CLI, named by the environment
// variable RALPH_TEST_CLAUDE, against a scripted model on loopback.

package main

import (
	"os"
	"testing"
)

// modelName is a model whose price the CLI knows.
const modelName = "claude-sonnet-4-5"

func claudePath(t testing.TB) string {
	t.Helper()
	path := os.Getenv("RALPH_TEST_CLAUDE")
	if path == "" {
		t.Fatal("RALPH_TEST_CLAUDE does not name the Claude Code binary")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}
