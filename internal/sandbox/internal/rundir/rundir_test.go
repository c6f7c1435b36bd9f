package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/shim"
)

func newDir(t *testing.T) Dir {
	t.Helper()
	d := Dir(filepath.Join(t.TempDir(), "run"))
	if err := os.Mkdir(string(d), 0o700); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestStatus(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	up := shim.History{ShimAt: at, StartedAt: at}
	ended := func(e shim.Exit) shim.History {
		h := up
		h.EndedAt, h.Exit = at, &e
		return h
	}
	tests := []struct {
		name string
		hist shim.History
		stop []string
		want sandbox.Status
	}{
		{name: "nothing yet", want: sandbox.Status{State: sandbox.Created}},
		{
			name: "running", hist: up,
			want: sandbox.Status{State: sandbox.Running, StartedAt: at},
		},
		{
			name: "asked to stop, still running", hist: up, stop: []string{"enough"},
			want: sandbox.Status{State: sandbox.Running, StartedAt: at},
		},
		{
			name: "ended", hist: ended(shim.Exit{
				Code: 3, Reason: sandbox.ReasonExited, Truncated: true, OOMKilled: true,
			}),
			want: sandbox.Status{
				State: sandbox.Exited, ExitCode: 3, Reason: sandbox.ReasonExited, StartedAt: at, FinishedAt: at,
				Truncated: true, OOMKilled: true,
			},
		},
		{
			name: "stopped; the first reason counts", hist: ended(shim.Exit{
				Code: 143, Signal: "SIGTERM", Reason: sandbox.ReasonStopped,
			}),
			stop: []string{"first", "second"},
			want: sandbox.Status{
				State: sandbox.Exited, ExitCode: 143, Signal: "SIGTERM", Reason: sandbox.ReasonStopped, Detail: "first",
				StartedAt: at, FinishedAt: at,
			},
		},
		{
			name: "signalled, but not by us", hist: ended(shim.Exit{Code: 143, Signal: "SIGTERM", Reason: sandbox.ReasonStopped}),
			want: sandbox.Status{
				State: sandbox.Exited, ExitCode: 143, Signal: "SIGTERM", Reason: sandbox.ReasonExited, StartedAt: at,
				FinishedAt: at,
			},
		},
		{
			name: "ended by itself while being stopped", hist: ended(shim.Exit{Reason: sandbox.ReasonExited}),
			stop: []string{"late"},
			want: sandbox.Status{State: sandbox.Exited, Reason: sandbox.ReasonExited, StartedAt: at, FinishedAt: at},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDir(t)
			for _, reason := range tt.stop {
				if err := d.NoteStop(reason); err != nil {
					t.Fatal(err)
				}
			}
			got, err := d.Status(tt.hist)
			if err != nil || got != tt.want {
				t.Errorf("%v, %s", err, cmp.Diff(tt.want, got))
			}
		})
	}
}

func enter(t *testing.T, d Dir, s Start) (Start, error) {
	t.Helper()
	noted, unlock, err := d.Enter(t.Context(), s)
	if err == nil {
		unlock()
	}
	return noted, err
}

func TestEnter(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	first := Start{Name: "a", Token: "t1", Grace: time.Second}
	for _, again := range []Start{first, {Name: "a", Token: "t2"}} {
		if got, err := enter(t, d, again); err != nil || got != first {
			t.Errorf("Enter(%v) = %v, %v; want what was noted first", again, got, err)
		}
	}
	if _, err := enter(t, d, Start{Name: "b"}); !errors.Is(err, sandbox.ErrNameTaken) {
		t.Errorf("another name: %v, want ErrNameTaken", err)
	}
	// What a power cut leaves of a note that was being written.
	if err := os.WriteFile(d.Path(startFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, found, err := d.Started(); found || err != nil {
		t.Errorf("empty note: %v, %v; want none", found, err)
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	d := newDir(t)
	if _, err := enter(t, d, Start{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.Path(lockFile)); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	for path, text := range map[string]string{
		d.Path(stdoutFile): "out", d.Record(): "x", filepath.Join(outside, "kept"): "kept",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A home that a command left as nastily as it could.
	home := d.Path("home")
	if err := os.MkdirAll(filepath.Join(home, "closed/inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(home, "closed/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(home, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Forget("home", "none"); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(string(d))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range left {
		names = append(names, entry.Name())
	}
	if got := strings.Join(names, " "); got != "stdout" {
		t.Errorf("left: %s; want the transcript only", got)
	}
	if _, err := os.Stat(filepath.Join(outside, "kept")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}
