//go:build kube

package kube_test

import (
	"testing"

	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/kube"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, harness())
}

// TestNothingIsReached: see sandboxtest.Confine.
func TestNothingIsReached(t *testing.T) {
	sandboxtest.Confine(t, harness(), func([]string) (sandbox.Sandbox, error) { return open() })
}

func TestCheck(t *testing.T) {
	t.Parallel()
	box, err := kube.New(options())
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
