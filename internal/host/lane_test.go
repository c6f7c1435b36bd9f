package host_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// inLane is the host of a run, as each process makes it, and how its agents are started.
func inLane(t *testing.T, src host.Source, b *box) (next func() *host.Host, start func(r loop.Runner, tree, name string)) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	next = func() *host.Host {
		return host.New(host.Config{
			Dir: dir, Source: src, Sandbox: b, Backend: talker{},
			Limits: func(asked run.Limits) run.Limits { return asked },
		})
	}
	start = func(r loop.Runner, tree, name string) {
		t.Helper()
		var s loop.State
		s.HeadTree = tree
		_, err := r.StartAgent(t.Context(), s, agentStart(name))
		if err != nil {
			t.Fatal(err)
		}
		b.says(t, "working\n")
	}
	return next, start
}

// TestAnOutdatedOpenEndsTheAgentsOfLanes: they would write what the next ones are given.
func TestAnOutdatedOpenEndsTheAgentsOfLanes(t *testing.T) {
	t.Parallel()
	b := &box{ended: make(chan struct{})}
	next, start := inLane(t, newSource(t, map[string]string{"README": "hello\n"}), b)
	h := next()
	opened := open(t, h)
	start(h, opened.HeadTree, "r1-1")
	wt, runner := h.Lane(1)
	if err := wt.Reset(t.Context(), opened.HeadTree); err != nil {
		t.Fatal(err)
	}
	start(runner, opened.HeadTree, "r1-2")
	var s loop.State
	s.Outdated = true
	if _, err := next().Open(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	slices.Sort(b.stopped)
	if diff := cmp.Diff([]string{"r1-1", "r1-2"}, b.stopped); diff != "" {
		t.Error(diff)
	}
}

// TestALaneFollowsTheDefaultBranch: also one that was laid out before that moved.
func TestALaneFollowsTheDefaultBranch(t *testing.T) {
	t.Parallel()
	b := &box{ended: make(chan struct{})}
	src := &branched{source: newSource(t, map[string]string{"CLAUDE.md": "old\n", "main.go": "one\n"})}
	_, def, err := src.repo.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	src.def = def
	next, start := inLane(t, src, b)
	for i, want := range []string{"old\n", "new\n"} {
		h := next()
		opened := open(t, h)
		wt, runner := h.Lane(1)
		if err := wt.Reset(t.Context(), opened.HeadTree); err != nil {
			t.Fatal(err)
		}
		start(runner, opened.HeadTree, "r1-"+string(rune('1'+i)))
		given := tree(t, filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(b.spec.RunDir))), "work", "tree"))
		if given["CLAUDE.md"] != want {
			t.Errorf("the agent is steered by %q, want %q", given["CLAUDE.md"], want)
		}
		src.commit(t, map[string]string{"CLAUDE.md": "new\n"})
		if _, src.def, err = src.repo.Head(t.Context()); err != nil {
			t.Fatal(err)
		}
		src.commit(t, map[string]string{"CLAUDE.md": "of the branch\n"})
	}
}
