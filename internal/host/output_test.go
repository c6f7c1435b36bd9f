package host_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// says lays out what a start has written.
func (b *box) says(t *testing.T, output string) {
	t.Helper()
	if err := os.MkdirAll(b.spec.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.spec.RunDir, "stdout"), []byte(output), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOutputGoesWithItsStart: a run has many starts, and each may write a lot. What one
// wrote stays until it has been taken, also by a process that died before it said so.
func TestOutputGoesWithItsStart(t *testing.T) {
	t.Parallel()
	h, b, _, handle := metered(t, agent.Result{Outcome: agent.OutcomeCompleted})
	b.says(t, "output\n")
	b.end(sandbox.Status{Reason: sandbox.ReasonExited})
	for range 2 {
		if _, err := h.ObserveAgent(t.Context(), handle); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(b.spec.RunDir, "stdout")); err != nil {
			t.Fatalf("gone before it was taken: %v", err)
		}
	}
	for range 2 {
		if err := h.Remove(t.Context(), handle); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(b.spec.RunDir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after Remove: %v; want nothing", err)
		}
	}
	if _, err := os.Stat(filepath.Dir(b.spec.RunDir)); err != nil {
		t.Errorf("what says that the start was laid out is gone: %v", err)
	}
}

// TestOutputOfWhatEndedWithUsGoes: also that of a start which begins again; what it used does not.
func TestOutputOfWhatEndedWithUsGoes(t *testing.T) {
	t.Parallel()
	h, b, meter, handle := metered(t, agent.Result{Outcome: agent.OutcomeEmpty})
	use(t, meter, 1000, 200)
	b.says(t, "output\n")
	b.end(sandbox.Status{Reason: sandbox.ReasonOwnerDied})
	got, err := h.ObserveAgent(t.Context(), handle)
	if want := (run.Usage{InputTokens: 1000, OutputTokens: 200, CostUSD: 0.002, Turns: 1}); got.Usage != want || !errors.Is(err, loop.ErrGone) {
		t.Fatalf("%+v, %v; want ErrGone", got, err)
	}
	if _, err := os.Stat(b.spec.RunDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("afterwards: %v; want nothing", err)
	}
}
