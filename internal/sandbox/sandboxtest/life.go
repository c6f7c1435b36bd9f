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

func testTimes(t *testing.T, f *fixture) {
	before := time.Now()
	spec := f.sh(t, "until [ -e go ]; do sleep 0.01; done; echo hi; until [ -e end ]; do sleep 0.01; done")
	h := f.start(t, f.name(), spec)
	st, err := f.box.Inspect(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if st.State != sandbox.Running || st.Ended() {
		t.Errorf("state %s after Start, want running", st.State)
	}
	if !st.FirstByteAt.IsZero() || !st.FinishedAt.IsZero() {
		t.Errorf("first byte %v and end %v before they happened", st.FirstByteAt, st.FinishedAt)
	}
	f.touch(t, spec.Workspace, "go")
	eventually(t, "the time of the first byte", func() bool {
		st, err = f.box.Inspect(t.Context(), h)
		return err == nil && !st.FirstByteAt.IsZero() && st.OutputBytes == 3
	})
	if st.State != sandbox.Running {
		t.Errorf("state %s, want running", st.State)
	}
	f.touch(t, spec.Workspace, "end")
	st = f.wait(t, h)
	// Clocks of a start are compared by order only.
	times := []time.Time{before, st.StartedAt, st.FirstByteAt, st.FinishedAt, time.Now()}
	for i := 1; i < len(times); i++ {
		if times[i].Before(times[i-1]) {
			t.Errorf("times out of order (before, started, first byte, finished, now): %v", times)
			break
		}
	}
	if again, err := f.box.Inspect(t.Context(), h); err != nil || again != st {
		t.Errorf("Inspect after the end: %v, %v", cmp.Diff(st, again), err)
	}
}

func testLogsFromOffset(t *testing.T, f *fixture) {
	spec := f.sh(t, "echo one; until [ -e go ]; do sleep 0.01; done; echo two")
	h := f.start(t, f.name(), spec)
	f.awaitOutput(t, h, "one\n")
	if got := f.logs(t, h, 4); got != "" {
		t.Errorf("after what there is: %q", got)
	}
	f.touch(t, spec.Workspace, "go")
	f.wait(t, h)
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
	for _, h := range handles {
		if h != handles[0] {
			t.Errorf("handles differ: %v and %v", handles[0], h)
		}
	}
	if h := f.start(t, name, spec); h != handles[0] {
		t.Errorf("started again while running: %v, want %v", h, handles[0])
	}
	f.touch(t, spec.Workspace, "go")
	f.wait(t, handles[0])
	if h := f.start(t, name, spec); h != handles[0] {
		t.Errorf("started again after the end: %v, want %v", h, handles[0])
	}
	if st := f.wait(t, handles[0]); st.Reason != sandbox.ReasonExited {
		t.Errorf("ended by %s", st.Reason)
	}
	f.mustHaveRunOnce(t, spec.Workspace)
}

func (f *fixture) mustHaveRunOnce(t *testing.T, w sandbox.Workspace) {
	t.Helper()
	runs, err := os.ReadFile(filepath.Join(w.Dir, "runs"))
	if err != nil || string(runs) != "run\n" {
		t.Errorf("it ran %d times (%v), want once", bytes.Count(runs, []byte("\n")), err)
	}
}

func testNameAndRunDir(t *testing.T, f *fixture) {
	spec := f.sh(t, "true")
	h := f.start(t, f.name(), spec)
	f.wait(t, h)
	if _, err := f.box.Start(t.Context(), f.name(), spec); !errors.Is(err, sandbox.ErrNameTaken) {
		t.Errorf("another name in the same run directory: %v, want ErrNameTaken", err)
	}
	if info, err := os.Stat(spec.RunDir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("run directory: %v, %v; want mode 0700", info.Mode(), err)
	}
}

func testStop(t *testing.T, f *fixture) {
	spec := f.sh(t, `trap 'echo bye; exit 3' TERM
		"$helper" helper hold child & "$helper" helper escape escaped; setsid "$helper" helper hold session &
		echo ready; while :; do sleep 0.02; done`)
	spec.Grace = patience / 2
	h := f.start(t, f.name(), spec)
	for _, want := range []string{"ready", "held child", "held escaped", "held session"} {
		f.awaitOutput(t, h, want)
	}
	begin := time.Now()
	if err := f.box.Stop(t.Context(), h, "the label was removed"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > spec.Grace {
		t.Errorf("Stop took %v", took)
	}
	st, err := f.box.Inspect(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if st.State != sandbox.Exited || st.Reason != sandbox.ReasonStopped || st.Detail != "the label was removed" ||
		st.ExitCode != 3 {
		t.Errorf("status %+v", st)
	}
	if out := f.logs(t, h, 0); !strings.Contains(out, "bye") {
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
		t.Errorf("the second Stop changed the status: %v, %v", cmp.Diff(st, again), err)
	}
}

func testStopByForce(t *testing.T, f *fixture) {
	spec := f.sh(t, `"$helper" helper hold child & exec "$helper" helper hold main`)
	h := f.start(t, f.name(), spec)
	f.awaitOutput(t, h, "held main")
	f.awaitOutput(t, h, "held child")
	// From another process, so to say, and twice at once.
	other, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	var stopping sync.WaitGroup
	for _, box := range []sandbox.Sandbox{f.box, other} {
		stopping.Go(func() {
			if err := box.Stop(t.Context(), h, "enough"); err != nil {
				t.Error(err)
			}
		})
	}
	stopping.Wait()
	st, err := f.box.Inspect(t.Context(), h)
	if err != nil || st.Reason != sandbox.ReasonStopped || st.Signal != "SIGKILL" || st.ExitCode != 137 {
		t.Errorf("status %+v, %v", st, err)
	}
	f.mustBeDead(t, spec.Workspace, "main", "child")
}

func testLeftBehind(t *testing.T, f *fixture) {
	spec := f.sh(t, `"$helper" helper hold child & "$helper" helper escape escaped
		until [ -e go ]; do sleep 0.01; done; exit 5`)
	h := f.start(t, f.name(), spec)
	f.awaitOutput(t, h, "held child")
	f.awaitOutput(t, h, "held escaped")
	f.touch(t, spec.Workspace, "go")
	if st := f.wait(t, h); st.ExitCode != 5 || st.Reason != sandbox.ReasonExited {
		t.Errorf("status %+v", st)
	}
	f.mustBeDead(t, spec.Workspace, "child")
	if !f.Escapes {
		f.mustBeDead(t, spec.Workspace, "escaped")
	}
}

func testWaitCancelled(t *testing.T, f *fixture) {
	spec := f.sh(t, "echo ready; exec sleep 1000")
	h := f.start(t, f.name(), spec)
	f.awaitOutput(t, h, "ready")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	time.AfterFunc(20*time.Millisecond, func() { cancel(enough) })
	if st, err := f.box.Wait(ctx, h); !errors.Is(err, enough) && !errors.Is(err, context.Canceled) {
		t.Errorf("Wait gave %+v, %v; want the cancellation", st, err)
	}
	if st, err := f.box.Inspect(t.Context(), h); err != nil || st.State != sandbox.Running {
		t.Errorf("after the cancelled Wait: %+v, %v; want running", st, err)
	}
}

func testRemove(t *testing.T, f *fixture) {
	spec := f.sh(t, `echo run >>runs; "$helper" helper hold main`)
	name := f.name()
	h := f.start(t, name, spec)
	f.awaitOutput(t, h, "held main")
	for range 2 { // also while it runs; also again
		if err := f.box.Remove(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		st, err := f.box.Inspect(t.Context(), h)
		if err != nil || st.State != sandbox.Missing {
			t.Errorf("after Remove: %+v, %v; want missing", st, err)
		}
	}
	f.mustBeDead(t, spec.Workspace, "main")
	if st := f.wait(t, h); st.State != sandbox.Missing {
		t.Errorf("Wait after Remove: %+v", st)
	}
	if err := f.box.Stop(t.Context(), h, "late"); err != nil {
		t.Errorf("Stop after Remove: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(spec.RunDir, "stdout")); err != nil ||
		!strings.Contains(string(data), "held main") {
		t.Errorf("the transcript is gone: %q, %v", data, err)
	}
	// The name is free again.
	spec.Argv = []string{"sh", "-c", "echo second"}
	h = f.start(t, name, spec)
	if st := f.wait(t, h); st.Reason != sandbox.ReasonExited || f.logs(t, h, 0) != "second\n" {
		t.Errorf("started anew: %+v, %q", st, f.logs(t, h, 0))
	}
}

func testUnknownHandle(t *testing.T, f *fixture) {
	spec := f.sh(t, "true")
	h := f.start(t, f.name(), spec)
	f.wait(t, h)

	unknown := h
	unknown.Name, unknown.RunDir, unknown.ID = f.name(), filepath.Join(t.TempDir(), "none"), ""
	if st, err := f.box.Inspect(t.Context(), unknown); err != nil || st.State != sandbox.Missing {
		t.Errorf("unknown start: %+v, %v; want missing", st, err)
	}
	if err := errors.Join(f.box.Stop(t.Context(), unknown, "x"), f.box.Remove(t.Context(), unknown)); err != nil {
		t.Errorf("stop and remove of an unknown start: %v", err)
	}
}
