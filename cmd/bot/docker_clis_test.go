//go:build docker && clis

// The tests in this file run real agent CLIs in containers of a real Docker
// engine, without a key and without a network: they reach the scripted model
// through the bot alone.

package main

import (
	"cmp"
	"os"
	"testing"
)

// nodeImage has node in it, which the Gemini CLI needs.
func nodeImage() string { return cmp.Or(os.Getenv("RALPH_TEST_NODE_IMAGE"), "ralph-test/node:1") }

// TestDockerCLIsWorkTheSamePlan: the same in the hardened container, behind the
// gateway. Hostile files leave their marks in the work tree there, where they
// would be part of the commit.
func TestDockerCLIsWorkTheSamePlan(t *testing.T) {
	t.Parallel()
	exe := builtBot(t)
	sameWork(t, func(t *testing.T, name string) cliWork {
		return worksThePlan(t, name, exe, "/workspace", "--sandbox", "docker", "--image", nodeImage())
	})
}
