package sandboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/sandbox"
)

// patience bounds every wait of the suite.
const patience = 60 * time.Second

// Harness is what the suite needs to know of an implementation.
type Harness struct {
	// Open gives a sandbox that shares no memory with any other, as another
	// process would.
	Open func() (sandbox.Sandbox, error)
	// Helper is the path of the test program inside the sandbox.
	Helper string
	// Image is for Spec.Image.
	Image string
	// Escapes says that a process in a session of its own outlives the
	// command (local on macOS).
	Escapes bool
	// PassesEnv says that Spec.PassEnv has an effect.
	PassesEnv bool
	// OwnerEnv is added to the environment of the processes that own starts, so
	// that Main knows which sandbox to open.
	OwnerEnv []string
	// Port gives a port for Spec.GatewayPort.
	Port func(t *testing.T) int
}

// Run exercises the contract of package sandbox.
func Run(t *testing.T, h Harness) {
	tests := []struct {
		name string
		run  func(*testing.T, *fixture)
	}{
		{"outcomes", testOutcomes},
		{"times", testTimes},
		{"stdin", testStdin},
		{"environment", testEnvironment},
		{"home files", testHomeFiles},
		{"mounts", testMounts},
		{"timeouts", testTimeouts},
		{"output limit", testOutputLimit},
		{"disk limit", testDiskLimit},
		{"cache", testCache},
		{"huge line", testHugeLine},
		{"stderr tail", testStderrTail},
		{"logs from offset", testLogsFromOffset},
		{"start twice", testStartTwice},
		{"start interrupted", testStartInterrupted},
		{"name and run directory", testNameAndRunDir},
		{"stop", testStop},
		{"stop by force", testStopByForce},
		{"left behind", testLeftBehind},
		{"wait is cancelled", testWaitCancelled},
		{"work tree", testWorkTree},
		{"working directory", testWorkingDirectory},
		{"remove", testRemove},
		{"unknown handle", testUnknownHandle},
		{"keep", testKeep},
		{"kill", testKill},
		{"relay", testRelay},
		{"bad specs", testBadSpecs},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			box, err := h.Open()
			if err != nil {
				t.Fatal(err)
			}
			tt.run(t, &fixture{Harness: h, t: t, box: box})
		})
	}
}

// fixture is one test's sandbox.
type fixture struct {
	Harness
	t   *testing.T
	box sandbox.Sandbox
	n   atomic.Int64
}

// tree makes a prepared work tree.
func (f *fixture) tree(t *testing.T) sandbox.Workspace {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "given"), []byte("given\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := f.box.Prepare(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// sh is a spec that runs a script, in which $helper is the helper.
func (f *fixture) sh(t *testing.T, script string) sandbox.Spec {
	t.Helper()
	return sandbox.Spec{
		Argv:      []string{"sh", "-c", script},
		Env:       map[string]string{"helper": f.Helper},
		Workspace: f.tree(t), RunDir: filepath.Join(t.TempDir(), "run"), Image: f.Image,
		WallTimeout: patience, Grace: 200 * time.Millisecond,
	}
}

// name is new in this machine, since engines outlive tests.
func (f *fixture) name() string {
	return fmt.Sprintf("test-%s-%d", strings.ToLower(rand.Text()), f.n.Add(1))
}

// start starts spec and removes it at the end of the test.
func (f *fixture) start(t *testing.T, name string, spec sandbox.Spec) sandbox.Handle {
	t.Helper()
	h, err := f.box.Start(t.Context(), name, spec)
	if err != nil {
		t.Fatal(err)
	}
	f.removeLater(t, h)
	return h
}

func (f *fixture) removeLater(t *testing.T, h sandbox.Handle) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := f.box.Remove(ctx, h); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

func (f *fixture) wait(t *testing.T, h sandbox.Handle) sandbox.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	st, err := f.box.Wait(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// do runs spec to its end and gives its status and output.
func (f *fixture) do(t *testing.T, spec sandbox.Spec) (sandbox.Status, string) {
	t.Helper()
	h := f.start(t, f.name(), spec)
	st := f.wait(t, h)
	return st, f.logs(t, h, 0)
}

func (f *fixture) logs(t *testing.T, h sandbox.Handle, offset int64) string {
	t.Helper()
	r, err := f.box.Logs(t.Context(), h, offset)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// eventually waits until ok, and fails with what it waited for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited %v in vain: %s", patience, what)
		case <-tick.C:
		}
	}
}

func (f *fixture) awaitOutput(t *testing.T, h sandbox.Handle, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("output %q", want), func() bool {
		return strings.Contains(f.logs(t, h, 0), want)
	})
}

// released says whether no process holds the lock of a "hold" on path.
func released(t *testing.T, path string) bool {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Fatal(err)
	}
	return err == nil
}

func (f *fixture) mustBeDead(t *testing.T, w sandbox.Workspace, names ...string) {
	t.Helper()
	for _, name := range names {
		if !released(t, filepath.Join(w.Dir, name)) {
			t.Errorf("the process that holds %q is alive", name)
		}
	}
}

func testOutcomes(t *testing.T, f *fixture) {
	type outcome struct {
		State  sandbox.State
		Code   int
		Signal string
		Reason sandbox.Reason
		Output string
	}
	tests := []struct {
		name   string
		argv   []string
		want   outcome
		detail string
	}{
		{
			name: "well", argv: []string{"sh", "-c", "echo out; echo err >&2"},
			want: outcome{sandbox.Exited, 0, "", sandbox.ReasonExited, "out\n"},
		},
		{
			name: "exit code", argv: []string{"sh", "-c", "exit 7"},
			want: outcome{sandbox.Exited, 7, "", sandbox.ReasonExited, ""},
		},
		{
			name: "signal", argv: []string{"sh", "-c", "kill -9 $$"},
			want: outcome{sandbox.Exited, 137, "SIGKILL", sandbox.ReasonExited, ""},
		},
		{
			name: "SIGTERM to itself", argv: []string{"sh", "-c", "kill -TERM $$"},
			want: outcome{sandbox.Exited, 143, "SIGTERM", sandbox.ReasonExited, ""},
		},
		{
			name: "no such program", argv: []string{"no-such-program"},
			want: outcome{sandbox.Exited, -1, "", sandbox.ReasonStartFailed, ""}, detail: `"no-such-program" not found in PATH`,
		},
		{
			name: "no such path", argv: []string{"/no/such/program"},
			want: outcome{sandbox.Exited, -1, "", sandbox.ReasonStartFailed, ""}, detail: "/no/such/program: no such file",
		},
		{
			name: "not executable", argv: []string{"./given"},
			want: outcome{sandbox.Exited, -1, "", sandbox.ReasonStartFailed, ""}, detail: "given: permission denied",
		},
		{
			name: "a directory", argv: []string{"/tmp"},
			want: outcome{sandbox.Exited, -1, "", sandbox.ReasonStartFailed, ""}, detail: "/tmp: is a directory",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := f.sh(t, "")
			spec.Argv = tt.argv
			st, out := f.do(t, spec)
			got := outcome{st.State, st.ExitCode, st.Signal, st.Reason, out}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(st.Detail, tt.detail) {
				t.Errorf("detail %q does not say %q", st.Detail, tt.detail)
			}
		})
	}
}

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

// touch makes a file in the tree from the outside.
func (f *fixture) touch(t *testing.T, w sandbox.Workspace, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func testStdin(t *testing.T, f *fixture) {
	big := make([]byte, 3<<20)
	_, _ = rand.Read(big)
	for name, data := range map[string][]byte{"big": big, "empty": {}, "without newline": []byte("a\nb")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := f.sh(t, "sleep 0.05; cat")
			spec.Stdin = filepath.Join(t.TempDir(), "prompt")
			if err := os.WriteFile(spec.Stdin, data, 0o600); err != nil {
				t.Fatal(err)
			}
			h := f.start(t, f.name(), spec)
			if err := os.Remove(spec.Stdin); err != nil { // not needed after Start
				t.Fatal(err)
			}
			st := f.wait(t, h)
			if out := f.logs(t, h, 0); out != string(data) || st.ExitCode != 0 {
				t.Errorf("read %d bytes (exit %d, %s), want the %d given", len(out), st.ExitCode, st.Stderr, len(data))
			}
		})
	}
	t.Run("is no way to the file", func(t *testing.T) {
		t.Parallel()
		spec := f.sh(t, `for f in /dev/stdin /proc/self/fd/0 /dev/fd/0; do echo forged 2>/dev/null >>$f; done; true`)
		spec.Stdin = filepath.Join(t.TempDir(), "prompt")
		if err := os.WriteFile(spec.Stdin, []byte("given"), 0o600); err != nil {
			t.Fatal(err)
		}
		st, _ := f.do(t, spec)
		if got, err := os.ReadFile(spec.Stdin); err != nil || string(got) != "given" {
			t.Errorf("the file is %q, %v (%+v)", got, err, st)
		}
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		if st, out := f.do(t, f.sh(t, "cat; echo end")); out != "end\n" || st.ExitCode != 0 {
			t.Errorf("output %q, exit %d", out, st.ExitCode)
		}
	})
	t.Run("a FIFO", func(t *testing.T) {
		t.Parallel()
		spec := f.sh(t, "cat")
		spec.Stdin = filepath.Join(t.TempDir(), "fifo")
		if err := syscall.Mkfifo(spec.Stdin, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := f.box.Start(t.Context(), f.name(), spec); err == nil {
			t.Error("started with a FIFO as input")
		}
	})
}

func testHomeFiles(t *testing.T, f *fixture) {
	spec := f.sh(t, `cat "$HOME/.tool/rules/own.toml" "$HOME/.settings" && : >"$HOME/.tool/state" && echo writable`)
	spec.HomeFiles = map[string]string{".tool/rules/own.toml": "allow = 1\n", ".settings": "x\n"}
	if st, out := f.do(t, spec); st.ExitCode != 0 || out != "allow = 1\nx\nwritable\n" {
		t.Errorf("exit %d: %q, %s", st.ExitCode, out, st.Stderr)
	}
	for _, name := range []string{"../x", "/etc/x", "", "."} {
		spec.HomeFiles = map[string]string{name: "x"}
		if err := spec.Validate("a"); err == nil {
			t.Errorf("%q lies in the home", name)
		}
	}
}

// testMounts: files and directories of the host are seen where the spec says.
func testMounts(t *testing.T, f *fixture) {
	dir := t.TempDir()
	for name, content := range map[string]string{"file": "one\n", "dir/file": "two\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // #nosec G301 -- for the command's user, too
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil { // #nosec G306 -- likewise
			t.Fatal(err)
		}
	}
	one, two := filepath.Join(dir, "file"), filepath.Join(dir, "dir")
	spec := f.sh(t, `cat "$0" "$1/file"`)
	spec.Argv = append(spec.Argv, one, two)
	spec.Mounts = []sandbox.Mount{{Host: one, Target: one}, {Host: two, Target: two}}
	if st, out := f.do(t, spec); st.ExitCode != 0 || out != "one\ntwo\n" {
		t.Errorf("exit %d: %q, %s", st.ExitCode, out, st.Stderr)
	}
}

func testEnvironment(t *testing.T, f *fixture) {
	spec := f.sh(t, `env; echo "home: $(ls -A "$HOME" | wc -l)"; : >"$HOME/x" && : >"$TMPDIR/x" && echo writable`)
	spec.Env["GIVEN"] = "a b\n=c"
	spec.Env["LANG"] = "xx_YY"
	spec.PassEnv = []string{PlantedPass, "RALPH_TEST_UNSET"}
	for _, round := range []string{"first", "second"} {
		spec.RunDir = filepath.Join(t.TempDir(), round)
		st, out := f.do(t, spec)
		if st.ExitCode != 0 {
			t.Fatalf("exit %d: %s", st.ExitCode, st.Stderr)
		}
		if strings.Contains(out, Planted) {
			t.Error("a variable of the host is visible")
		}
		if got := strings.Contains(out, PlantedPass+"=planted"); got != f.PassesEnv {
			t.Errorf("the variable named in PassEnv is visible: %v, want %v", got, f.PassesEnv)
		}
		if strings.Contains(out, "RALPH_TEST_UNSET") {
			t.Error("a variable that the host has not is set")
		}
		for _, want := range []string{
			"GIVEN=a b\n=c\n", "LANG=xx_YY\n", "TERM=dumb\n", "HOME=/", "TMPDIR=/", "PATH=/", "writable\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %q", want, out)
			}
		}
		if _, count, _ := strings.Cut(out, "home: "); !strings.HasPrefix(strings.TrimSpace(count), "0") {
			t.Errorf("the home is not fresh: %q", count)
		}
	}
}

func testTimeouts(t *testing.T, f *fixture) {
	const short = 300 * time.Millisecond
	tests := []struct {
		name       string
		script     string
		wall, idle time.Duration
		want       sandbox.Reason
		code       int
	}{
		{
			name: "wall", script: "while echo x; do sleep 0.02; done",
			wall: short, idle: patience, want: sandbox.ReasonWallTimeout, code: 143,
		},
		{
			name: "wall, SIGTERM ignored", script: "trap '' TERM; while echo x; do sleep 0.02; done",
			wall: short, want: sandbox.ReasonWallTimeout, code: 137,
		},
		{
			name: "idle", script: "echo x; exec sleep 1000",
			wall: patience, idle: short, want: sandbox.ReasonIdleTimeout, code: 143,
		},
		{
			name: "idle from the start", script: "exec sleep 1000",
			wall: patience, idle: short, want: sandbox.ReasonIdleTimeout, code: 143,
		},
		{
			name: "slow but not idle", script: "for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; echo x; done",
			idle: 5 * time.Second, want: sandbox.ReasonExited,
		},
		{
			name: "stderr is a sign of life", script: "i=0; while [ $i -lt 25 ]; do sleep 0.1; echo x >&2; i=$((i + 1)); done",
			idle: 2 * time.Second, want: sandbox.ReasonExited,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := f.sh(t, tt.script)
			spec.WallTimeout, spec.IdleTimeout = tt.wall, tt.idle
			st, _ := f.do(t, spec)
			if st.Reason != tt.want || st.ExitCode != tt.code {
				t.Errorf("ended by %s with exit code %d, want %s, %d", st.Reason, st.ExitCode, tt.want, tt.code)
			}
		})
	}
}

func testDiskLimit(t *testing.T, f *fixture) {
	const fill = `i=0; while :; do head -c 4194304 /dev/zero >"$dir/f$i" || exit 3; i=$((i + 1)); done`
	tests := []struct{ name, script, want string }{
		{"bytes", `dir=.; ` + fill, "more than the 32 MiB allowed"},
		{
			"files", `i=0; while [ $i -lt 50000 ]; do : >f$i; i=$((i + 1)); done; sleep 1000`,
			"more than the 2000 files allowed",
		},
		{"in a directory that is shut", `mkdir d; cd d; dir=.; chmod 300 .; ` + fill, "more than the 32 MiB allowed"},
		{"in the cache", `dir=$RALPH_CACHE; ` + fill, "more than the 32 MiB allowed"},
		{"while SIGTERM is ignored", `trap '' TERM; dir=.; ` + fill, "more than the 32 MiB allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := f.sh(t, tt.script)
			spec.DiskBytes, spec.DiskFiles, spec.CacheDir = 32<<20, 2000, f.tree(t).Dir
			st, _ := f.do(t, spec)
			if st.State != sandbox.Exited || st.Reason != sandbox.ReasonDiskLimit || st.ExitCode != 137 ||
				!strings.Contains(st.Detail, tt.want) {
				t.Errorf("status %+v, want %q", st, tt.want)
			}
			if dir, err := f.box.Collect(t.Context(), spec.Workspace); err != nil || dir != spec.Workspace.Dir {
				t.Errorf("collect: %q, %v", dir, err)
			}
		})
	}
	t.Run("within it", func(t *testing.T) {
		t.Parallel()
		spec := f.sh(t, `head -c 16777216 /dev/zero >f; sync; sleep 0.3; exit 4`)
		spec.DiskBytes, spec.DiskFiles = 64<<20, 2000
		if st, _ := f.do(t, spec); st.Reason != sandbox.ReasonExited || st.ExitCode != 4 {
			t.Errorf("status %+v", st)
		}
	})
}

// testCache: what one start leaves in its cache the next one finds, if it is
// given the same; tools are led there unless the caller says otherwise.
func testCache(t *testing.T, f *fixture) {
	caches := []string{f.tree(t).Dir, f.tree(t).Dir}
	run := func(cache, script string) string {
		spec := f.sh(t, script)
		spec.CacheDir, spec.Env["GOMODCACHE"] = cache, "/own"
		st, out := f.do(t, spec)
		if st.ExitCode != 0 {
			t.Errorf("exit %d: %s", st.ExitCode, st.Stderr)
		}
		return out
	}
	if out := run(caches[0],
		`[ "$GOCACHE" = "$RALPH_CACHE/go-build" ] && echo $GOMODCACHE; mkdir -p "$GOCACHE"; echo kept >"$GOCACHE/x"`); out != "/own\n" {
		t.Errorf("output %q", out)
	}
	if out := run(caches[0], `cat "$GOCACHE/x"`); out != "kept\n" {
		t.Errorf("the same cache holds %q", out)
	}
	if out := run(caches[1], `ls -A "$RALPH_CACHE"; ls "$GOCACHE" 2>/dev/null; true`); out != "given\n" {
		t.Errorf("another cache holds %q", out)
	}
	if out := run("", `echo "<$RALPH_CACHE$GOCACHE>"; ls -d /run/cache 2>/dev/null; true`); out != "<>\n" {
		t.Errorf("without a cache: %q", out)
	}
}

func testOutputLimit(t *testing.T, f *fixture) {
	const limit, written = 1 << 20, 5<<20 + 1
	spec := f.sh(t, fmt.Sprintf("head -c %d /dev/zero; echo done >&2", written))
	spec.OutputLimit = limit
	st, out := f.do(t, spec)
	if len(out) != limit || !st.Truncated || st.OutputBytes != written {
		t.Errorf("kept %d, truncated %v, counted %d; want %d, true, %d", len(out), st.Truncated, st.OutputBytes, limit,
			written)
	}
	if st.ExitCode != 0 || st.Stderr != "done\n" {
		t.Errorf("the writer was disturbed: exit %d, %q", st.ExitCode, st.Stderr)
	}

	spec = f.sh(t, "head -c 1000 /dev/zero")
	spec.OutputLimit = 1000
	if st, out = f.do(t, spec); len(out) != 1000 || st.Truncated {
		t.Errorf("exactly the limit: kept %d, truncated %v; want all, false", len(out), st.Truncated)
	}
}

func testHugeLine(t *testing.T, f *fixture) {
	const size = 50 << 20
	st, out := f.do(t, f.sh(t, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo; echo last", size)))
	if want := strings.Repeat("x", size) + "\nlast\n"; out != want {
		t.Errorf("%d bytes came through, want %d", len(out), len(want))
	}
	if st.OutputBytes != size+6 || st.Truncated {
		t.Errorf("counted %d, truncated %v", st.OutputBytes, st.Truncated)
	}
}

func testStderrTail(t *testing.T, f *fixture) {
	st, _ := f.do(t, f.sh(t, "head -c 1000000 /dev/zero | tr '\\0' y >&2; echo the end >&2"))
	if len(st.Stderr) != 4<<10 || !strings.HasSuffix(st.Stderr, "yy"+"the end\n") {
		t.Errorf("%d bytes ending in %q", len(st.Stderr), st.Stderr[max(0, len(st.Stderr)-20):])
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

// owner is another process that starts something.
type owner struct {
	*proc.Detached
	in  *os.File
	out *json.Decoder
}

func (f *fixture) startOwner(t *testing.T, name string, spec sandbox.Spec) *owner {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inW.Close(); _ = outR.Close() })
	d, err := proc.StartDetached(proc.Cmd{
		Path: selfPath(), Args: []string{"owner"}, Env: append(os.Environ(), f.OwnerEnv...), Stdin: inR, Stdout: outW,
		Stderr: os.Stderr,
	})
	_ = inR.Close()
	_ = outW.Close()
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{Detached: d, in: inW}
	t.Cleanup(func() { o.kill(t) })
	if err := json.NewEncoder(inW).Encode(start{Name: name, Spec: spec}); err != nil {
		t.Fatal(err)
	}
	var word [6]byte
	if _, err := io.ReadFull(outR, word[:]); err != nil || string(word[:]) != "begin\n" {
		t.Fatalf("the owner said %q, %v", word, err)
	}
	o.out = json.NewDecoder(outR)
	return o
}

func (o *owner) kill(t *testing.T) {
	t.Helper()
	select {
	case <-o.Done():
		return
	default:
	}
	if err := syscall.Kill(o.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
	<-o.Done()
}

func (o *owner) handle(t *testing.T) sandbox.Handle {
	t.Helper()
	var h sandbox.Handle
	if err := o.out.Decode(&h); err != nil {
		t.Fatalf("the owner gave no handle: %v", err)
	}
	return h
}

// testStartInterrupted kills a process somewhere in its Start, and starts the
// same name again.
func testStartInterrupted(t *testing.T, f *fixture) {
	const rounds = 8
	for _, policy := range []sandbox.OwnerDeath{sandbox.KeepWithoutOwner, sandbox.KillWithOwner} {
		for i := range rounds {
			t.Run(fmt.Sprintf("%s/%d", policy, i), func(t *testing.T) {
				t.Parallel()
				interrupt(t, f, policy, time.Duration(i*i)*4*time.Millisecond)
			})
		}
	}
}

func interrupt(t *testing.T, f *fixture, policy sandbox.OwnerDeath, after time.Duration) {
	spec := f.sh(t, "echo run >>runs; cat")
	spec.OnOwnerDeath = policy
	spec.Stdin = filepath.Join(t.TempDir(), "prompt")
	prompt := strings.Repeat("prompt ", 1000)
	if err := os.WriteFile(spec.Stdin, []byte(prompt), 0o600); err != nil {
		t.Fatal(err)
	}
	name := f.name()
	o := f.startOwner(t, name, spec)
	select {
	case <-time.After(after):
	case <-o.Done():
	}
	o.kill(t)

	h := f.start(t, name, spec)
	st := f.wait(t, h)
	if policy == sandbox.KillWithOwner && st.Reason != sandbox.ReasonExited {
		// The first one got far enough to die with its owner; that is no
		// reason to run it again.
		if st.State != sandbox.Missing && st.Reason != sandbox.ReasonOwnerDied {
			t.Errorf("status %+v", st)
		}
		if runs, err := os.ReadFile(filepath.Join(spec.Workspace.Dir, "runs")); len(runs) > len("run\n") {
			t.Errorf("it ran more than once: %q, %v", runs, err)
		}
		return
	}
	if st.State != sandbox.Exited || st.Reason != sandbox.ReasonExited || st.ExitCode != 0 {
		t.Errorf("status %+v", st)
	}
	f.mustHaveRunOnce(t, spec.Workspace)
	if out := f.logs(t, h, 0); out != prompt {
		t.Errorf("read %d of %d bytes", len(out), len(prompt))
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

func testWorkTree(t *testing.T, f *fixture) {
	// What the host put in is writable for the command, at any depth.
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a/b/f"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := fileOwner(t, outside)
	if err := os.Symlink(outside, filepath.Join(dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	w, err := f.box.Prepare(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	spec := f.sh(t, `set -e; echo 2 >>a/b/f; mkdir new; echo 3 >new/g; echo 4 >new/closed; chmod 000 new/closed new`)
	spec.Workspace = w
	if st, _ := f.do(t, spec); st.ExitCode != 0 {
		t.Fatalf("exit %d: %s", st.ExitCode, st.Stderr)
	}
	got, err := f.box.Collect(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a/b/f": "12\n", "new/g": "3\n", "new/closed": "4\n"} {
		data, err := os.ReadFile(filepath.Join(got, name))
		if err != nil || string(data) != want {
			t.Errorf("%s: %q, %v; want %q", name, data, err, want)
		}
		info, err := os.Stat(filepath.Join(got, name))
		if err != nil || info.Mode()&0o400 == 0 {
			t.Errorf("%s: mode %v, %v; its owner cannot read it", name, info.Mode(), err)
		}
	}
	if after := fileOwner(t, outside); after != before {
		t.Errorf("a link out of the tree was followed: its target belongs to %d, not %d", after, before)
	}

	// And again: what the command left is there in the next start.
	if w, err = f.box.Prepare(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	spec = f.sh(t, "cat new/g && echo 5 >>new/g")
	spec.Workspace = w
	if st, out := f.do(t, spec); out != "3\n" || st.ExitCode != 0 {
		t.Errorf("second start: %q, exit %d: %s", out, st.ExitCode, st.Stderr)
	}
}

func fileOwner(t *testing.T, path string) uint32 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Uid
}

func testWorkingDirectory(t *testing.T, f *fixture) {
	spec := f.sh(t, "mkdir -p sub/dir && echo x >sub/dir/here")
	if st, _ := f.do(t, spec); st.ExitCode != 0 {
		t.Fatalf("exit %d: %s", st.ExitCode, st.Stderr)
	}
	next := f.sh(t, "cat here")
	next.Workspace, next.Dir = spec.Workspace, "sub/dir"
	if st, out := f.do(t, next); out != "x\n" {
		t.Errorf("output %q: %s", out, st.Stderr)
	}
	next = f.sh(t, "cat here")
	next.Workspace, next.Dir = spec.Workspace, "no/such"
	if st, _ := f.do(t, next); st.Reason != sandbox.ReasonStartFailed ||
		!strings.Contains(st.Detail, "working directory") {
		t.Errorf("a directory that is not there: %+v", st)
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

	foreign := h
	foreign.Node = "another-machine"
	_, inspectErr := f.box.Inspect(t.Context(), foreign)
	_, waitErr := f.box.Wait(t.Context(), foreign)
	_, logsErr := f.box.Logs(t.Context(), foreign, 0)
	for what, err := range map[string]error{
		"inspect": inspectErr, "wait": waitErr, "logs": logsErr,
		"stop": f.box.Stop(t.Context(), foreign, "x"), "remove": f.box.Remove(t.Context(), foreign),
	} {
		if !errors.Is(err, sandbox.ErrOtherNode) {
			t.Errorf("%s of a handle of another node: %v, want ErrOtherNode", what, err)
		}
	}
}

func testKeep(t *testing.T, f *fixture) {
	spec := f.sh(t, "echo run >>runs; echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 4")
	spec.OnOwnerDeath = sandbox.KeepWithoutOwner
	name := f.name()
	o := f.startOwner(t, name, spec)
	h := o.handle(t)
	f.removeLater(t, h)
	f.awaitOutput(t, h, "one")
	o.kill(t)

	st, err := f.box.Inspect(t.Context(), h)
	if err != nil || st.State != sandbox.Running {
		t.Fatalf("after the owner's death: %+v, %v; want running", st, err)
	}
	if again := f.start(t, name, spec); again != h {
		t.Errorf("adopted by name: %v, want %v", again, h)
	}
	f.touch(t, spec.Workspace, "go")
	if st := f.wait(t, h); st.ExitCode != 4 || st.Reason != sandbox.ReasonExited {
		t.Errorf("status %+v", st)
	}
	if out := f.logs(t, h, 0); out != "one\ntwo\n" {
		t.Errorf("output %q", out)
	}
	f.mustHaveRunOnce(t, spec.Workspace)
}

func testKill(t *testing.T, f *fixture) {
	spec := f.sh(t, `"$helper" helper hold child & echo ready; while :; do sleep 0.02; done`)
	spec.OnOwnerDeath = sandbox.KillWithOwner
	o := f.startOwner(t, f.name(), spec)
	h := o.handle(t)
	f.removeLater(t, h)
	f.awaitOutput(t, h, "ready")
	f.awaitOutput(t, h, "held child")
	if st, err := f.box.Inspect(t.Context(), h); err != nil || st.State != sandbox.Running {
		t.Fatalf("before the owner's death: %+v, %v; want running", st, err)
	}
	o.kill(t)
	if st := f.wait(t, h); st.State != sandbox.Exited || st.Reason != sandbox.ReasonOwnerDied {
		t.Errorf("status %+v", st)
	}
	f.mustBeDead(t, spec.Workspace, "child")
}

// testRelay lets commands talk to a gateway that says back what it hears.
func testRelay(t *testing.T, f *fixture) {
	// Short, because a socket's path may have 107 bytes.
	gateway := func(t *testing.T) string {
		dir, err := os.MkdirTemp("", "gw") //nolint:usetesting // t.TempDir is too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	spec := func(t *testing.T, dir string) sandbox.Spec {
		port := f.Port(t)
		s := f.sh(t, `echo ready; "$helper" helper talk 127.0.0.1:`+fmt.Sprint(port)+` hello`)
		s.GatewayDir, s.GatewayPort = dir, port
		return s
	}
	t.Run("there", func(t *testing.T) {
		t.Parallel()
		dir := gateway(t)
		echo(t, dir)
		st, out := f.do(t, spec(t, dir))
		if out != "ready\nyou said hello" || st.ExitCode != 0 {
			t.Errorf("output %q, exit %d: %s", out, st.ExitCode, st.Stderr)
		}
	})
	t.Run("late", func(t *testing.T) {
		t.Parallel()
		dir := gateway(t)
		h := f.start(t, f.name(), spec(t, dir))
		f.awaitOutput(t, h, "ready")
		echo(t, dir)
		st := f.wait(t, h)
		if out := f.logs(t, h, 0); out != "ready\nyou said hello" || st.ExitCode != 0 {
			t.Errorf("output %q, exit %d: %s", out, st.ExitCode, st.Stderr)
		}
	})
	t.Run("restarted", func(t *testing.T) {
		t.Parallel()
		dir := gateway(t)
		stop := echo(t, dir)
		s := spec(t, dir)
		s.Argv[2] += `; until [ -e go ]; do sleep 0.01; done; ` + s.Argv[2]
		h := f.start(t, f.name(), s)
		f.awaitOutput(t, h, "you said hello")
		stop()
		f.touch(t, s.Workspace, "go")
		f.awaitOutput(t, h, "helloready")
		echo(t, dir)
		f.wait(t, h)
		if out := f.logs(t, h, 0); out != "ready\nyou said helloready\nyou said hello" {
			t.Errorf("output %q", out)
		}
	})
}

// echo answers each connection, once it has heard all, with what it heard.
func echo(t *testing.T, dir string) (stop func()) {
	t.Helper()
	path := filepath.Join(dir, sandbox.GatewaySocket)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // #nosec G302 -- as the contract says
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			heard, err := io.ReadAll(conn)
			if err == nil {
				_, err = fmt.Fprintf(conn, "you said %s", heard)
			}
			if err := errors.Join(err, conn.Close()); err != nil {
				t.Errorf("gateway: %v", err)
			}
		}
	})
	stop = sync.OnceFunc(func() { _ = l.Close(); serving.Wait() })
	t.Cleanup(stop)
	return stop
}

func testBadSpecs(t *testing.T, f *fixture) {
	good := f.sh(t, "true")
	for name, change := range map[string]func(*sandbox.Spec) string{
		"no command":             func(s *sandbox.Spec) string { s.Argv = nil; return f.name() },
		"NUL in an argument":     func(s *sandbox.Spec) string { s.Argv = []string{"a\x00b"}; return f.name() },
		"relative run directory": func(s *sandbox.Spec) string { s.RunDir = "run"; return f.name() },
		"relative workspace":     func(s *sandbox.Spec) string { s.Workspace.Dir = "."; return f.name() },
		"directory out of it":    func(s *sandbox.Spec) string { s.Dir = "../x"; return f.name() },
		"relative mount": func(s *sandbox.Spec) string {
			s.Mounts = []sandbox.Mount{{Host: "a", Target: "/a"}}
			return f.name()
		},
		"variable with =":         func(s *sandbox.Spec) string { s.Env = map[string]string{"A=B": ""}; return f.name() },
		"unknown policy":          func(s *sandbox.Spec) string { s.OnOwnerDeath = "x"; return f.name() },
		"input that is not there": func(s *sandbox.Spec) string { s.Stdin = "/no/such/prompt"; return f.name() },
		"name with a slash":       func(*sandbox.Spec) string { return "a/b" },
		"name like an option":     func(*sandbox.Spec) string { return "-rm" },
		"empty name":              func(*sandbox.Spec) string { return "" },
		"long name":               func(*sandbox.Spec) string { return strings.Repeat("x", 101) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := good
			spec.RunDir = filepath.Join(t.TempDir(), "run")
			name := change(&spec)
			if h, err := f.box.Start(t.Context(), name, spec); err == nil {
				f.removeLater(t, h)
				t.Error("started")
			}
		})
	}
}
