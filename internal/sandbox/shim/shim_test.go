package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/org/ralph-action/internal/sandbox"
	"go.uber.org/goleak"

	"github.com/org/ralph-action/internal/proc"
)

// partVar makes this binary the shim, as "bot shim" is. What a shim does with
// real commands is tested by package sandboxtest.
const partVar = "SHIM_TEST_PART"

func TestMain(m *testing.M) {
	if os.Getenv(partVar) != "" {
		// Not os.Exit, which sleeps a second under the race detector.
		syscall.Exit(Main(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// runShim runs a shim and gives its exit code and what it said.
func runShim(t *testing.T, args ...string) (int, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	res, err := proc.Run(t.Context(), proc.Cmd{
		Path: self, Args: args, Env: []string{partVar + "=1", "PATH=/usr/bin:/bin"},
	})
	said := string(res.Stdout) + string(res.Stderr)
	if exit, ok := errors.AsType[*proc.ExitError](err); ok {
		return exit.Code, said
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, said
}

// config is one whose files are where the shim is told, and, by kept, where they stay.
func config(t *testing.T, argv ...string) (Config, string) {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{
		Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir,
		Stdout: filepath.Join(dir, "stdout"), Stderr: filepath.Join(dir, "stderr"), Record: filepath.Join(dir, "record"),
		OutputLimit: 1 << 20, Grace: time.Second, WallTimeout: time.Minute,
	}
	for _, name := range []string{cfg.Stdout, cfg.Stderr, cfg.Record} {
		if err := os.MkdirAll(filepath.Dir(kept(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(kept(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, cfg)
	return cfg, filepath.Join(dir, "config")
}

func kept(name string) string {
	return filepath.Join(filepath.Dir(name), "..", filepath.Base(filepath.Dir(name))+"-kept", filepath.Base(name))
}

// fill gives a shim the names that the one before it has removed.
func fill(t *testing.T, cfg Config) {
	t.Helper()
	for _, name := range []string{cfg.Stdout, cfg.Stderr, cfg.Record} {
		if err := os.Link(kept(name), name); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
}

func TestMainRunsOnce(t *testing.T) {
	t.Parallel()
	cfg, path := config(t, "sh", "-c", "echo run; exit 3")
	for i, want := range []struct {
		code int
		said string
	}{{3, "ready\n"}, {0, "taken\n"}} {
		fill(t, cfg)
		if err := cfg.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		if code, said := runShim(t, path); code != want.code || said != want.said {
			t.Errorf("shim %d: exit %d, said %q; want %d, %q", i, code, said, want.code, want.said)
		}
	}
	if out, err := os.ReadFile(kept(cfg.Stdout)); err != nil || string(out) != "run\n" {
		t.Errorf("output %q, %v", out, err)
	}
	hist, err := ReadHistory(kept(cfg.Record))
	if err != nil || hist.Exit == nil || *hist.Exit != (Exit{Code: 3, Reason: sandbox.ReasonExited}) {
		t.Errorf("record %+v, %v", hist.Exit, err)
	}
	if pid, err := Holder(kept(cfg.Record)); pid != 0 || err != nil {
		t.Errorf("held by %d, %v", pid, err)
	}
}

func TestMainDoesNotRunBesideAnother(t *testing.T) {
	t.Parallel()
	cfg, path := config(t, "echo", "run")
	_, mine, err := openRecord(cfg.Record)
	if err != nil || !mine {
		t.Fatal(mine, err)
	}
	if err := cfg.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if code, said := runShim(t, path); code != 0 || said != "taken\n" {
		t.Errorf("exit %d, said %q", code, said)
	}
	// Whoever opens and closes the file again has let it go.
	if pid, err := Holder(cfg.Record); pid != 0 || err != nil {
		t.Errorf("held by %d, %v", pid, err)
	}
	if code, said := runShim(t, path); code != 0 || said != "ready\n" {
		t.Errorf("after the other one: exit %d, said %q", code, said)
	}
}

func TestSealRemovesEveryName(t *testing.T) {
	t.Parallel()
	cfg, path := config(t, "ls", "-A")
	cfg.Stdin = filepath.Join(cfg.Dir, "prompt")
	if err := errors.Join(os.WriteFile(cfg.Stdin, nil, 0o600), cfg.WriteFile(path)); err != nil {
		t.Fatal(err)
	}
	if code, said := runShim(t, path); code != 0 {
		t.Errorf("exit %d: %s", code, said)
	}
	if seen, err := os.ReadFile(kept(cfg.Stdout)); err != nil || len(seen) != 0 {
		t.Errorf("the command saw %q, %v; want nothing", seen, err)
	}
}

func TestMainFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, args := range map[string][]string{
		"no argument":      nil,
		"no configuration": {filepath.Join(dir, "none")},
		"no JSON":          {write("garbage", "{")},
		"nothing to run":   {write("empty", "{}")},
		"no place for its record": {write("unwritable",
			`{"argv":["true"],"record":"/no/such/dir/r","stdout":"/no/s","stderr":"/no/e"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, said := runShim(t, args...); code != CodeShimFailed || !strings.HasPrefix(said, "shim: ") {
				t.Errorf("exit %d, said %q", code, said)
			}
		})
	}
}

func TestFullDiskDoesNotBlockTheCommand(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Log("this system has no /dev/full")
		return
	}
	cfg, path := config(t, "sh", "-c", "head -c 1000000 /dev/zero && exit 4")
	if err := errors.Join(os.Remove(cfg.Stdout), os.Symlink("/dev/full", cfg.Stdout)); err != nil {
		t.Fatal(err)
	}
	if err := cfg.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if code, said := runShim(t, path); code != 4 {
		t.Errorf("exit %d: %s", code, said)
	}
	hist, err := ReadHistory(kept(cfg.Record))
	if err != nil || hist.Exit == nil {
		t.Fatal(hist, err)
	}
	if !hist.Exit.Truncated || !strings.Contains(hist.Exit.Detail, "no space") {
		t.Errorf("record %+v", *hist.Exit)
	}
}

func TestTailFile(t *testing.T) {
	t.Parallel()
	for _, step := range []int{1, 3, 7, 50, 1000} {
		path := filepath.Join(t.TempDir(), "f")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		const keep = 20
		tail := &tailFile{f: f, keep: keep}
		var all []byte
		for i := range 200 {
			p := bytes.Repeat([]byte{byte('a' + i%26)}, step)
			all = append(all, p...)
			if n, err := tail.Write(p); n != len(p) || err != nil {
				t.Fatalf("Write gave %d, %v", n, err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasSuffix(all, got) || len(got) < min(keep, len(all)) || len(got) > 2*keep {
				t.Fatalf("step %d: kept %q of %d bytes", step, got, len(all))
			}
		}
		_ = f.Close()
	}
}

func TestLookPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/tool": 0o700, "b/tool": 0o600, "c/tool/x": 0o700, "tool": 0o700} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	in := func(names ...string) []string {
		for i, n := range names {
			names[i] = filepath.Join(dir, n)
		}
		return []string{"PATH=/nowhere", "PATH=" + strings.Join(names, ":"), "XPATH=/bin"}
	}
	tests := []struct {
		name, program string
		env           []string
		want, wantErr string
	}{
		{name: "found", program: "tool", env: in("a"), want: "a/tool"},
		{name: "not executable and directories are passed over", program: "tool", env: in("b", "c", "a"), want: "a/tool"},
		{name: "none", program: "tool", env: in("b", "c"), wantErr: "not found in PATH"},
		{name: "no PATH", program: "tool", wantErr: "not found in PATH"},
		{name: "relative entries are passed over", program: "tool", env: []string{"PATH=.:"}, wantErr: "not found"},
		{name: "relative to the directory", program: "./tool", want: "tool"},
		{name: "a path", program: filepath.Join(dir, "a/tool"), want: "a/tool"},
		{name: "a path that is not there", program: filepath.Join(dir, "x/tool"), wantErr: "no such file"},
		{name: "a path not executable", program: "b/tool", wantErr: "permission denied"},
		{name: "a directory", program: "c/tool", wantErr: "is a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := lookPath(tt.program, dir, tt.env)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got %q, %v; want an error with %q", got, err, tt.wantErr)
				}
				return
			}
			if want := filepath.Join(dir, tt.want); err != nil || got != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		})
	}
}

func TestReadHistory(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	var whole []byte
	for _, e := range []Event{
		{Event: EventShim, Time: at},
		{Event: EventStarted, Time: at.Add(1)},
		{Event: EventEnded, Time: at.Add(3), Exit: &Exit{Code: 1, Reason: sandbox.ReasonExited}},
	} {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		whole = append(append(whole, line...), '\n')
	}
	full := History{
		ShimAt: at, StartedAt: at.Add(1), EndedAt: at.Add(3),
		Exit: &Exit{Code: 1, Reason: sandbox.ReasonExited},
	}
	running := full
	running.EndedAt, running.Exit = time.Time{}, nil
	for name, tt := range map[string]struct {
		data string
		want History
	}{
		"empty":           {"", History{}},
		"whole":           {string(whole), full},
		"being written":   {string(whole[:len(whole)-1]), running},
		"garbage between": {"x\n" + string(whole), full},
		"end without how": {`{"event":"ended"}` + "\n", History{}},
	} {
		path := filepath.Join(t.TempDir(), "record")
		if err := os.WriteFile(path, []byte(tt.data), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadHistory(path); err != nil || !cmp.Equal(tt.want, got) {
			t.Errorf("%s: %v, %s", name, err, cmp.Diff(tt.want, got))
		}
	}
	if got, err := ReadHistory(filepath.Join(t.TempDir(), "none")); err != nil || got != (History{}) {
		t.Errorf("no file: %+v, %v", got, err)
	}
}

func FuzzParseHistory(f *testing.F) {
	f.Add([]byte(`{"event":"shim"}` + "\n" + `{"event":"ended","exit":{"code":0}}` + "\n"))
	f.Add([]byte("{\n}\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := parseHistory(data)
		// Bytes after the last line end are not looked at.
		if end := bytes.LastIndexByte(data, '\n') + 1; !cmp.Equal(got, parseHistory(data[:end])) {
			t.Error("an unfinished line was read")
		}
	})
}

// answer serves one connection per call of handle.
func answer(t *testing.T, path string, handle func(net.Conn)) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			handle(conn)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
}

// startRelay gives the address that is relayed to path.
func startRelay(t *testing.T, path string, patience time.Duration) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); relay{socket: path, patience: patience}.serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	return l.Addr().String()
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("dialled a %T", conn)
	}
	return tcp
}

func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func TestRelayPassesHalfCloseAndBulk(t *testing.T) {
	t.Parallel()
	path := socketDir(t)
	answer(t, path, func(conn net.Conn) {
		// Answers only after the client's end of data.
		n, err := io.Copy(io.Discard, conn)
		if err == nil {
			_, err = fmt.Fprintf(conn, "%d bytes", n)
		}
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Error(err)
		}
	})
	addr := startRelay(t, path, time.Minute)
	for range 3 {
		conn := dial(t, addr)
		if _, err := conn.Write(make([]byte, 3<<20)); err != nil {
			t.Fatal(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "3145728 bytes" {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

func TestRelayLosesPatience(t *testing.T) {
	t.Parallel()
	conn := dial(t, startRelay(t, socketDir(t), 50*time.Millisecond))
	if got, err := io.ReadAll(conn); err != nil || len(got) != 0 {
		t.Errorf("got %q, %v; want the end", got, err)
	}
}

func TestRelayPassesAServerThatHangsUp(t *testing.T) {
	t.Parallel()
	path := socketDir(t)
	answer(t, path, func(conn net.Conn) { _ = conn.Close() })
	conn := dial(t, startRelay(t, path, time.Minute))
	// Either an end or a reset, but not silence.
	if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the client was left waiting")
	}
}
