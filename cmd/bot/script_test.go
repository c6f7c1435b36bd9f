package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
)

// TestScripts runs the program through the door its users use: testdata/script
// holds one story a file. Beside testscript's own commands there are
//
//	exits CODE PROGRAM ARG…            runs it and compares the exit code;
//	                                   its output is in $WORK/stdout and stderr
//	signal NAME CODE TEXT PROGRAM ARG… the same, with a signal sent once TEXT
//	                                   stands in what it says
//	killed bot ARG…                    kills it before and after its first save,
//	                                   its second in the next life, and so on,
//	                                   until it ends by itself, with 0
//	json FILE PATH VALUE               compares a value in a JSON document
//	repo                               makes $WORK/repo from $WORK/files
//	static                             sets $BOT to the program as it is shipped
func TestScripts(t *testing.T) {
	t.Parallel()
	ctx, cancel := untilDeadline(t, time.Hour) // of all scripts together
	t.Cleanup(cancel)                          // when the last script has ended
	// Somebody who answers is all that agents of scripts need of a model's endpoint.
	endpoint := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(endpoint.Close)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Values[scriptContext{}] = ctx
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, "cache"))
			env.Setenv("RALPH_DATA_DIR", filepath.Join(env.WorkDir, "data"))
			env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			env.Setenv("ANTHROPIC_BASE_URL", endpoint.URL)
			// A check that compiles would have to begin with the standard library.
			env.Setenv("RALPH_LOCAL_ISOLATION", "none")
			// Most scripts look at the work where they stand; place.txtar does not.
			env.Setenv("SWITCH", "1")
			for _, name := range []string{"GORACE", "GOGC"} {
				env.Setenv(name, os.Getenv(name))
			}
			program, err := program()
			if err != nil {
				return err
			}
			env.Setenv("PATH", filepath.Dir(program)+string(filepath.ListSeparator)+env.Getenv("PATH"))
			// A build cache of one's own would cost minutes.
			if cache, err := os.UserCacheDir(); err == nil {
				env.Setenv("GOCACHE", filepath.Join(cache, "go-build"))
				env.Setenv("GOFLAGS", "-trimpath") // as the program itself is built
			}
			// A script may have files for it.
			if err := os.MkdirAll(home, 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(env.WorkDir, "app.pem"), ghsimtest.Key(), 0o600); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(home, ".gitconfig"),
				[]byte("[user]\nname = Ada\nemail = ada@example.com\n[init]\ndefaultBranch = main\n"), 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"static": func(ts *testscript.TestScript, _ bool, _ []string) {
				program, err := built()
				ts.Check(err)
				file := filepath.Join(ts.Getenv("WORK"), "static-bot")
				ts.Check(os.WriteFile(file, program, 0o700))
				ts.Setenv("BOT", file)
			},
			"exits": cmdExits, "signal": cmdSignal, "killed": cmdKilled, "json": cmdJSON, "repo": cmdRepo,
		},
	})
}

// scriptContext is the key of the context in which a script's programs run.
type scriptContext struct{}

// start prepares a program with the script's environment.
func start(ts *testscript.TestScript, extra []string, args []string) (*exec.Cmd, *watched, *watched) {
	ctx, _ := ts.Value(scriptContext{}).(context.Context)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{
		"PATH", "HOME", "XDG_CACHE_HOME", "RALPH_DATA_DIR", "GIT_CONFIG_NOSYSTEM", "GOCACHE", "GOFLAGS",
		"TMPDIR", "WORK",
		"GORACE", "GOGC", "DOCKER_HOST", "RALPH_WEBHOOK_SECRET", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL",
		"RALPH_LOCAL_ISOLATION",
		"RALPH_CUSTOM_NOTIFY_SCRIPT", "RALPH_NOTIFY_SECRET", "RALPH_SLACK_WEBHOOK_URL", "LC_ALL", "CLICOLOR_FORCE",
	} {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, extra...)
	if path, err := lookIn(ts.Getenv("PATH"), args[0]); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	out, errOut := &watched{}, &watched{}
	cmd.Stdout, cmd.Stderr = out, errOut
	return cmd, out, errOut
}

func lookIn(path, name string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o111 != 0 {
			return file, nil
		}
	}
	return "", exec.ErrNotFound
}

// finish waits for the program and keeps what it said.
func finish(ts *testscript.TestScript, cmd *exec.Cmd, out, errOut *watched) int {
	return keep(ts, cmd.Wait(), out, errOut)
}

// keep keeps what a program said that ended with err.
func keep(ts *testscript.TestScript, err error, out, errOut *watched) int {
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), "stdout"), out.bytes(), 0o600))
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), "stderr"), errOut.bytes(), 0o600))
	switchTo(ts, errOut.bytes())
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// switchTo checks out the branch that a run has committed to, as whoever looks at the work
// does, where the script has $SWITCH.
func switchTo(ts *testscript.TestScript, said []byte) {
	branch := regexp.MustCompile(`(?m)^  commits go to (\S+?)[;,]? `).FindSubmatch(said)
	if ts.Getenv("SWITCH") == "" || branch == nil {
		return
	}
	in := func(args ...string) error {
		ctx, _ := ts.Value(scriptContext{}).(context.Context)
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", ts.MkAbs(".")}, args...)...) // #nosec G204 -- of the test
		return cmd.Run()
	}
	if in("rev-parse", "--verify", "-q", "refs/heads/"+string(branch[1])) == nil {
		ts.Check(in("switch", "-q", string(branch[1])))
	}
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG…")
	}
	cmd, out, errOut := start(ts, nil, args[1:])
	ts.Check(cmd.Start())
	if code := finish(ts, cmd, out, errOut); strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s\nstdout: %s\nstderr: %s", code, args[0], out.bytes(), errOut.bytes())
	}
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}
	if neg || len(args) < 4 {
		ts.Fatalf("usage: signal NAME CODE TEXT PROGRAM ARG…")
	}
	cmd, out, errOut := start(ts, nil, args[3:])
	seen, seenOut := errOut.await(args[2]), out.await(args[2])
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-seen:
	case <-seenOut:
	case err := <-ended:
		ts.Fatalf("it ended without %q: %v\n%s", args[2], err, errOut.bytes())
	}
	ts.Check(cmd.Process.Signal(signals[args[0]]))
	if code := keep(ts, <-ended, out, errOut); strconv.Itoa(code) != args[1] {
		ts.Fatalf("exit code %d, want %s\nstderr: %s", code, args[1], errOut.bytes())
	}
}

func cmdKilled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || args[0] != "bot" {
		ts.Fatalf("usage: killed bot ARG…")
	}
	// The shipped program cannot be told to kill itself.
	exe, err := os.Executable()
	ts.Check(err)
	args[0] = exe
	for lives := 0; ; lives++ {
		if lives > 200 {
			ts.Fatalf("the program does not get on")
		}
		// Its agents die with it, so that each life has to be a little longer.
		when := fmt.Sprintf("%d:%s", lives/2+1, []string{"before", "after"}[lives%2])
		cmd, out, errOut := start(ts, []string{envBe + "=bot", envKill + "=" + when}, args)
		ts.Check(cmd.Start())
		code := finish(ts, cmd, out, errOut)
		if code == 0 {
			ts.Logf("%d lives", lives)
			if lives < 6 {
				ts.Fatalf("only %d lives: it is not killed at each step", lives)
			}
			return
		}
		if code != -1 {
			ts.Fatalf("exit code %d in life %d\nstderr: %s", code, lives, errOut.bytes())
		}
	}
}

func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json FILE PATH VALUE")
	}
	var doc any
	src := ts.ReadFile(args[0])
	dec := json.NewDecoder(strings.NewReader(src))
	ts.Check(dec.Decode(&doc))
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		ts.Fatalf("%s holds more than one document", args[0])
	}
	at := doc
	for part := range strings.SplitSeq(args[1], ".") {
		switch v := at.(type) {
		case map[string]any:
			at = v[part]
		case []any:
			if part == "len" {
				at = len(v)
				continue
			}
			i, err := strconv.Atoi(part)
			ts.Check(err)
			if i >= len(v) {
				at = nil
				continue
			}
			at = v[i]
		default:
			at = nil
		}
	}
	got, err := json.Marshal(at)
	ts.Check(err)
	if (string(got) == args[2]) == neg {
		ts.Fatalf("%s is %s\n%s", args[1], got, src)
	}
}

func cmdRepo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: repo")
	}
	work := ts.Getenv("WORK")
	ts.Check(os.CopyFS(filepath.Join(work, "repo"), os.DirFS(filepath.Join(work, "files"))))
	ts.Check(ts.Chdir("repo"))
	for _, line := range []string{"init -q", "add -A", "commit -q -m begin"} {
		ts.Check(ts.Exec("git", strings.Fields(line)...))
	}
}

// watched is a buffer that tells when a text was written to it.
type watched struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	want string
	seen chan struct{}
}

func (w *watched) await(want string) <-chan struct{} {
	w.want, w.seen = want, make(chan struct{})
	return w.seen
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.buf.Write(p)
	if w.want != "" && strings.Contains(w.buf.String(), w.want) {
		w.want = ""
		close(w.seen)
	}
	return n, err
}

func (w *watched) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.buf.Bytes())
}
