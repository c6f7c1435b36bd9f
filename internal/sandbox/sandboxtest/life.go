package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/sandbox"
)

// testObserved looks at a command that runs, and once it has ended.
func testObserved(t *testing.T, f *fixture) {
	before := time.Now()
	spec := f.sh(t, "echo one; until [ -e go ]; do sleep 0.01; done; echo two")
	h := f.start(t, f.name(), spec)
	f.awaitOutput(t, h, "one\n")
	running := func() {
		t.Helper()
		if st, err := f.box.Inspect(t.Context(), h); err != nil || st.State != sandbox.Running || st.Ended() || !st.FinishedAt.IsZero() {
			t.Errorf("while it runs: %+v, %v", st, err)
		}
	}
	running()
	if got := f.logs(t, h, 4); got != "" {
		t.Errorf("after what there is: %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if st, err := f.box.Wait(ctx, h); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait gave %+v, %v; want the cancellation", st, err)
	}
	running()
	f.touch(t, spec.Workspace, "go")
	st := f.wait(t, h)
	// Clocks of a start are compared by order only.
	times := []time.Time{before, st.StartedAt, st.FinishedAt, time.Now()}
	for i := 1; i < len(times); i++ {
		if times[i].Before(times[i-1]) {
			t.Errorf("times out of order (before, started, finished, now): %v", times)
			break
		}
	}
	if again, err := f.box.Inspect(t.Context(), h); err != nil || again != st {
		t.Errorf("Inspect after the end: %v, %v", cmp.Diff(st, again), err)
	}
	for offset, want := range map[int64]string{0: "one\ntwo\n", 2: "e\ntwo\n", 4: "two\n", 8: "", 1000: ""} {
		if got := f.logs(t, h, offset); got != want {
			t.Errorf("from %d: %q, want %q", offset, got, want)
		}
	}
}

func testStartTwice(t *testing.T, f *fixture) {
	spec := f.sh(t, "echo run >>runs; until [ -e go ]; do sleep 0.01; done")
	name := f.name()

	const instances, each = 3, 3
	handles := make([]sandbox.Handle, instances*each)
	var starting sync.WaitGroup
	for i := range instances {
		box, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		for j := range each {
			starting.Go(func() {
				h, err := box.Start(t.Context(), name, spec)
				if err != nil {
					t.Errorf("start %d/%d: %v", i, j, err)
				}
				handles[i*each+j] = h
			})
		}
	}
	starting.Wait()
	f.removeLater(t, handles[0])
	f.touch(t, spec.Workspace, "go")
	f.wait(t, handles[0])
	for _, h := range append(handles, f.start(t, name, spec)) {
		if h != handles[0] {
			t.Errorf("handles differ: %v and %v", handles[0], h)
		}
	}
	if st := f.wait(t, handles[0]); st.Reason != sandbox.ReasonExited {
		t.Errorf("ended by %s", st.Reason)
	}
	f.mustHaveRunOnce(t, spec.Workspace)
	if _, err := f.box.Start(t.Context(), f.name(), spec); !errors.Is(err, sandbox.ErrNameTaken) {
		t.Errorf("another name in the same run directory: %v, want ErrNameTaken", err)
	}
	if info, err := os.Stat(spec.RunDir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("run directory: %v, %v; want mode 0700", info.Mode(), err)
	}
}

func (f *fixture) mustHaveRunOnce(t *testing.T, tree string) {
	t.Helper()
	runs, err := os.ReadFile(filepath.Join(tree, "runs"))
	if err != nil || string(runs) != "run\n" {
		t.Errorf("it ran %d times (%v), want once", bytes.Count(runs, []byte("\n")), err)
	}
}

// testEnds: however a command ends, nothing of it is left, and what ended it is kept.
func testEnds(t *testing.T, f *fixture) {
	const holders = `"$helper" helper hold child & "$helper" helper escape escaped; setsid "$helper" helper hold session & `
	for name, tt := range map[string]struct {
		script string
		// stops is how many stop it at once, when it has said that it is ready; none: it ends by itself.
		stops int
		ready string
		want  sandbox.Status
		says  string
	}{
		"by itself": {
			script: `until [ -e go ]; do sleep 0.01; done; exit 5`,
			want:   sandbox.Status{Reason: sandbox.ReasonExited, ExitCode: 5},
		},
		"asked to": {
			script: `trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.02; done`,
			stops:  1, ready: "ready", says: "bye",
			want: sandbox.Status{Reason: sandbox.ReasonStopped, ExitCode: 3, Detail: "the label was removed"},
		},
		"by force": {
			script: `exec "$helper" helper hold main`,
			stops:  2, ready: "held main",
			want: sandbox.Status{
				Reason: sandbox.ReasonStopped, ExitCode: 137, Signal: "SIGKILL", Detail: "the label was removed",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := f.sh(t, holders+tt.script)
			if tt.says != "" {
				spec.Grace = patience / 2
			}
			h := f.start(t, f.name(), spec)
			for _, want := range []string{"held child", "held escaped", "held session"} {
				f.awaitOutput(t, h, want)
			}
			if tt.stops > 0 {
				f.awaitOutput(t, h, tt.ready)
			}
			var stopping sync.WaitGroup
			for range tt.stops {
				box, err := f.Open() // from another process, so to say
				if err != nil {
					t.Fatal(err)
				}
				stopping.Go(func() {
					if err := box.Stop(t.Context(), h, "the label was removed"); err != nil {
						t.Error(err)
					}
				})
			}
			stopping.Wait()
			f.touch(t, spec.Workspace, "go")
			st := f.wait(t, h)
			got := sandbox.Status{Reason: st.Reason, ExitCode: st.ExitCode, Signal: st.Signal, Detail: st.Detail}
			if st.State != sandbox.Exited || got != tt.want {
				t.Errorf("status %+v", st)
			}
			if out := f.logs(t, h, 0); !strings.Contains(out, tt.says) {
				t.Errorf("it was not asked to end: %q", out)
			}
			f.mustBeDead(t, spec.Workspace, "child")
			if !f.Escapes {
				f.mustBeDead(t, spec.Workspace, "escaped", "session")
			}
			if err := f.box.Stop(t.Context(), h, "again"); err != nil {
				t.Errorf("stop again: %v", err)
			}
			if again, err := f.box.Inspect(t.Context(), h); err != nil || again != st {
				t.Errorf("the last Stop changed the status: %v, %v", cmp.Diff(st, again), err)
			}
		})
	}
}

func testRemove(t *testing.T, f *fixture) {
	spec := f.sh(t, `echo run >>runs; "$helper" helper hold main`)
	name := f.name()
	h := f.start(t, name, spec)
	f.awaitOutput(t, h, "held main")
	unknown := sandbox.Handle{Name: f.name(), RunDir: filepath.Join(t.TempDir(), "none")}
	for _, h := range []sandbox.Handle{unknown, h, h} { // also while it runs; also again
		if err := f.box.Remove(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if st, err := f.box.Inspect(t.Context(), h); err != nil || st.State != sandbox.Missing {
			t.Errorf("after Remove: %+v, %v; want missing", st, err)
		}
		if st := f.wait(t, h); st.State != sandbox.Missing {
			t.Errorf("Wait after Remove: %+v", st)
		}
		if err := f.box.Stop(t.Context(), h, "late"); err != nil {
			t.Errorf("Stop after Remove: %v", err)
		}
	}
	f.mustBeDead(t, spec.Workspace, "main")
	if data, err := os.ReadFile(filepath.Join(spec.RunDir, "stdout")); err != nil || !strings.Contains(string(data), "held main") {
		t.Errorf("the transcript is gone: %q, %v", data, err)
	}
	// The name is free again.
	spec.Argv = []string{"sh", "-c", "echo second"}
	h = f.start(t, name, spec)
	if st := f.wait(t, h); st.Reason != sandbox.ReasonExited || f.logs(t, h, 0) != "second\n" {
		t.Errorf("started anew: %+v, %q", st, f.logs(t, h, 0))
	}
}
