package rundir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/fstree/fstreetest"
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

// TestReasonsAreTheShims: the shim imports nothing, so that it names the
// reasons itself.
func TestReasonsAreTheShims(t *testing.T) {
	t.Parallel()
	for ours, shims := range map[sandbox.Reason]string{
		sandbox.ReasonExited:      shim.ReasonExited,
		sandbox.ReasonWallTimeout: shim.ReasonWallTimeout,
		sandbox.ReasonIdleTimeout: shim.ReasonIdleTimeout,
		sandbox.ReasonStopped:     shim.ReasonSignalled,
		sandbox.ReasonOwnerDied:   shim.ReasonOwnerDied,
		sandbox.ReasonStartFailed: shim.ReasonStartFailed,
	} {
		if string(ours) != shims {
			t.Errorf("%q here, %q in the shim", ours, shims)
		}
	}
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
		name   string
		hist   shim.History
		stop   []string
		stdout string
		want   sandbox.Status
	}{
		{name: "nothing yet", want: sandbox.Status{State: sandbox.Created}},
		{
			name: "running", hist: up, stdout: "abc",
			want: sandbox.Status{State: sandbox.Running, StartedAt: at, OutputBytes: 3},
		},
		{
			name: "asked to stop, still running", hist: up, stop: []string{"enough"},
			want: sandbox.Status{State: sandbox.Running, StartedAt: at},
		},
		{
			name: "ended", hist: ended(shim.Exit{
				Code: 3, Reason: shim.ReasonExited, OutputBytes: 9, Truncated: true, OOMKilled: true,
			}), stdout: "abc",
			want: sandbox.Status{
				State: sandbox.Exited, ExitCode: 3, Reason: sandbox.ReasonExited, StartedAt: at, FinishedAt: at,
				OutputBytes: 9, Truncated: true, OOMKilled: true,
			},
		},
		{
			name: "stopped; the first reason counts", hist: ended(shim.Exit{
				Code: 143, Signal: "SIGTERM", Reason: shim.ReasonSignalled,
			}),
			stop: []string{"first", "second"},
			want: sandbox.Status{
				State: sandbox.Exited, ExitCode: 143, Signal: "SIGTERM", Reason: sandbox.ReasonStopped, Detail: "first",
				StartedAt: at, FinishedAt: at,
			},
		},
		{
			name: "signalled, but not by us", hist: ended(shim.Exit{Code: 143, Signal: "SIGTERM", Reason: shim.ReasonSignalled}),
			want: sandbox.Status{
				State: sandbox.Exited, ExitCode: 143, Signal: "SIGTERM", Reason: sandbox.ReasonExited, StartedAt: at,
				FinishedAt: at,
			},
		},
		{
			name: "ended by itself while being stopped", hist: ended(shim.Exit{Reason: shim.ReasonExited}),
			stop: []string{"late"},
			want: sandbox.Status{State: sandbox.Exited, Reason: sandbox.ReasonExited, StartedAt: at, FinishedAt: at},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDir(t)
			if tt.stdout != "" {
				if err := os.WriteFile(d.Stdout(), []byte(tt.stdout), 0o600); err != nil {
					t.Fatal(err)
				}
			}
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

func TestLogsBeforeThereAreAny(t *testing.T) {
	t.Parallel()
	r, err := newDir(t).Logs(10)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if data, err := io.ReadAll(r); err != nil || len(data) != 0 {
		t.Errorf("%q, %v", data, err)
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
		d.Stdout(): "out", d.Record(): "x", filepath.Join(outside, "kept"): "kept",
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

// Whatever permissions a command left, and however deep, the owner has access
// afterwards; what a link leads to keeps its own.
func TestOpenUp(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o200); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "tree")
	deep := filepath.Join(dir, strings.Repeat("d/", 100), "e")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	modes := map[string]fs.FileMode{"f": 0, "d/f": 0o200, "d/d/d/f": 0o700}
	for path, mode := range modes {
		if err := os.WriteFile(filepath.Join(dir, path), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(deep, "f")
	if err := errors.Join(
		os.WriteFile(file, nil, 0), os.Symlink(outside, filepath.Join(dir, "link")),
		os.Chmod(deep, 0o500), os.Chmod(filepath.Join(dir, "d/d"), 0), os.Chmod(dir, 0o100),
	); err != nil {
		t.Fatal(err)
	}
	if err := OpenUp(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{
		dir: 0o700, filepath.Join(dir, "f"): 0o400, filepath.Join(dir, "d/f"): 0o600, filepath.Join(dir, "d/d"): 0o700,
		filepath.Join(dir, "d/d/d/f"): 0o700, deep: 0o700, file: 0o400, outside: 0o200,
	} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has %o, not %o", strings.TrimPrefix(path, dir), got, want)
		}
	}
}

// No depth keeps the host busy, and a cancel is heard.
func TestOpenUpOfDeepDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := fstreetest.Dig(dir, 10_000); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fstree.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := OpenUp(ctx, dir); err != nil {
		t.Errorf("10,000 nested directories: %v", err)
	}
	cancel()
	if err := OpenUp(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled walk says %v", err)
	}
}
