package sandboxtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/sandbox"
)

// single is one command from its start to its end.
type single struct {
	name string
	// script is run by a shell, in which $helper is the helper; argv in its place where it
	// is not nil.
	script string
	argv   []string
	// change is what else the spec says.
	change func(t *testing.T, f *fixture, s *sandbox.Spec)

	// How it ends: by itself, with exit code 0, where nothing is said.
	reason sandbox.Reason
	code   int
	signal string
	// output is all of it; detail is in Status.Detail, stderr at the end of Status.Stderr.
	output, detail, stderr string
	// check looks at the rest.
	check func(t *testing.T, s sandbox.Spec, st sandbox.Status, out string)
}

func testCases(t *testing.T, f *fixture) {
	for kind, cases := range map[string][]single{
		"outcomes": outcomes(), "timeouts": timeouts(), "output": outputs(), "stdin": inputs(), "disk": disks(), "files": files(),
	} {
		for _, c := range cases {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, f)
			})
		}
	}
}

func (c single) run(t *testing.T, f *fixture) {
	spec := f.sh(t, c.script)
	if c.argv != nil {
		spec.Argv = c.argv
	}
	if c.change != nil {
		c.change(t, f, &spec)
	}
	st, out := f.do(t, spec)
	if c.reason == "" {
		c.reason = sandbox.ReasonExited
	}
	if st.State != sandbox.Exited || st.Reason != c.reason || st.ExitCode != c.code || c.signal != "" && st.Signal != c.signal {
		t.Errorf("status %+v, want %s, exit code %d, signal %q", st, c.reason, c.code, c.signal)
	}
	if !strings.Contains(st.Detail, c.detail) || !strings.HasSuffix(st.Stderr, c.stderr) {
		t.Errorf("detail %q, stderr %.100q; want %q, %q", st.Detail, st.Stderr, c.detail, c.stderr)
	}
	// Whatever it left can be read.
	if err := fstree.OpenUp(t.Context(), spec.Workspace); err != nil {
		t.Error(err)
	}
	if c.check != nil {
		c.check(t, spec, st, out)
	} else if out != c.output {
		t.Errorf("output %.100q of %d bytes, want %.100q of %d", out, len(out), c.output, len(c.output))
	}
}

func outcomes() []single {
	return []single{
		{name: "well", script: "echo out; echo err >&2", output: "out\n", stderr: "err\n"},
		{name: "exit code", script: "exit 7", code: 7},
		{name: "signal", script: "kill -9 $$", code: 137, signal: "SIGKILL"},
		{name: "SIGTERM to itself", script: "kill -TERM $$", code: 143, signal: "SIGTERM"},
		cannotStart("no such program", `"no-such-program" not found in PATH`, "no-such-program"),
		cannotStart("no such path", "/no/such/program: no such file", "/no/such/program"),
		cannotStart("not executable", "given: permission denied", "./given"),
		cannotStart("a directory", "/tmp: is a directory", "/tmp"),
		{
			name: "no such directory", script: "true", reason: sandbox.ReasonStartFailed, code: -1, detail: "working directory",
			change: func(_ *testing.T, _ *fixture, s *sandbox.Spec) { s.Dir = "no/such" },
		},
	}
}

func cannotStart(name, detail string, argv ...string) single {
	return single{name: name, argv: argv, detail: detail, reason: sandbox.ReasonStartFailed, code: -1}
}

func timeouts() []single {
	const short = 300 * time.Millisecond
	within := func(wall, idle time.Duration) func(*testing.T, *fixture, *sandbox.Spec) {
		return func(_ *testing.T, _ *fixture, s *sandbox.Spec) { s.WallTimeout, s.IdleTimeout = wall, idle }
	}
	whatever := func(*testing.T, sandbox.Spec, sandbox.Status, string) {}
	return []single{
		{
			name: "wall", script: "while echo x; do sleep 0.02; done", change: within(short, patience),
			reason: sandbox.ReasonWallTimeout, code: 143, check: whatever,
		},
		{
			name: "wall, SIGTERM ignored", script: "trap '' TERM; while echo x; do sleep 0.02; done", change: within(short, 0),
			reason: sandbox.ReasonWallTimeout, code: 137, check: whatever,
		},
		{
			name: "idle", script: "echo x; exec sleep 1000", change: within(patience, short),
			reason: sandbox.ReasonIdleTimeout, code: 143, output: "x\n",
		},
		{
			name: "slow but not idle", script: "for i in 1 2 3 4 5 6 7 8 9 10 11; do sleep 0.2; [ $i -gt 5 ] && echo x || echo x >&2; done",
			change: within(0, 2*time.Second), output: strings.Repeat("x\n", 6), stderr: "x\n",
		},
	}
}

func outputs() []single {
	const much = sandbox.OutputLimit + 1
	return []single{
		{
			name: "one line over the limit", script: fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo done >&2", much),
			stderr: "done\n",
			check: func(t *testing.T, _ sandbox.Spec, st sandbox.Status, out string) {
				if len(out) != sandbox.OutputLimit || !st.Truncated {
					t.Errorf("kept %d, truncated %v", len(out), st.Truncated)
				}
			},
		},
		{
			name: "much on stderr", script: "head -c 1000000 /dev/zero | tr '\\0' y >&2; echo the end >&2", stderr: "yythe end\n",
			check: func(t *testing.T, _ sandbox.Spec, st sandbox.Status, _ string) {
				if len(st.Stderr) != 4<<10 {
					t.Errorf("%d bytes of stderr", len(st.Stderr))
				}
			},
		},
	}
}

func inputs() []single {
	given := func(data string) func(*testing.T, *fixture, *sandbox.Spec) {
		return func(t *testing.T, _ *fixture, s *sandbox.Spec) {
			s.Stdin = filepath.Join(t.TempDir(), "prompt")
			if err := os.WriteFile(s.Stdin, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	big := strings.Repeat("0123456789abcdef", 200_000)
	return []single{
		{name: "big", script: "sleep 0.05; cat", change: given(big), output: big},
		{name: "empty", script: "cat", change: given("")},
		{name: "without newline", script: "cat", change: given("a\nb"), output: "a\nb"},
		{name: "none", script: "cat; echo end", output: "end\n"},
		{
			name:   "is no way to the file",
			script: `for f in /dev/stdin /proc/self/fd/0 /dev/fd/0; do echo forged 2>/dev/null >>$f; done; true`,
			change: given("given"),
			check: func(t *testing.T, s sandbox.Spec, _ sandbox.Status, _ string) {
				if got, err := os.ReadFile(s.Stdin); err != nil || string(got) != "given" {
					t.Errorf("the file is %q, %v", got, err)
				}
			},
		},
	}
}

func disks() []single {
	const (
		fill = `i=0; while :; do head -c 4194304 /dev/zero >"$dir/f$i" || exit 3; i=$((i + 1)); done`
		much = "more than the 32 MiB allowed"
	)
	limit := func(bytes int64) func(*testing.T, *fixture, *sandbox.Spec) {
		return func(t *testing.T, f *fixture, s *sandbox.Spec) {
			s.DiskBytes, s.DiskFiles, s.CacheDir = bytes, 2000, f.tree(t)
		}
	}
	var cases []single
	for _, c := range []struct{ name, script, detail string }{
		{"bytes", `dir=.; ` + fill, much},
		{
			"files", `i=0; while [ $i -lt 50000 ]; do : >f$i; i=$((i + 1)); done; sleep 1000`,
			"more than the 2000 files allowed",
		},
		{"in a directory that is shut", `mkdir d; cd d; dir=.; chmod 300 .; ` + fill, much},
		{"in the cache", `dir=$RALPH_CACHE; ` + fill, much},
		{"while SIGTERM is ignored", `trap '' TERM; dir=.; ` + fill, much},
	} {
		cases = append(cases, single{
			name: c.name, script: c.script, detail: c.detail, change: limit(32 << 20), reason: sandbox.ReasonDiskLimit, code: 137,
		})
	}
	return append(cases, single{
		name: "within it", script: `head -c 16777216 /dev/zero >f; sync; sleep 0.3; exit 4`, change: limit(64 << 20), code: 4,
	})
}

func files() []single {
	return []single{
		{
			name: "home", output: "allow = 1\nx\nwritable\n",
			script: `cat "$HOME/.tool/rules/own.toml" "$HOME/.settings" && : >"$HOME/.tool/state" && echo writable`,
			change: func(_ *testing.T, _ *fixture, s *sandbox.Spec) {
				s.HomeFiles = map[string]string{".tool/rules/own.toml": "allow = 1\n", ".settings": "x\n"}
			},
		},
		{
			name: "mounts", script: `cat "$0" "$1/file"`, output: "one\ntwo\n",
			change: func(t *testing.T, _ *fixture, s *sandbox.Spec) {
				one, two := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "dir")
				if err := errors.Join(
					os.WriteFile(one, []byte("one\n"), 0o644),                        // #nosec G306 -- for the command's user, too
					os.Mkdir(two, 0o755),                                             // #nosec G301 -- likewise
					os.WriteFile(filepath.Join(two, "file"), []byte("two\n"), 0o644), // #nosec G306 -- likewise
				); err != nil {
					t.Fatal(err)
				}
				s.Argv = append(s.Argv, one, two)
				s.Mounts = []sandbox.Mount{{Host: one, Target: one}, {Host: two, Target: two}}
			},
		},
		{
			name: "working directory", script: "cat here", output: "x\n",
			change: func(t *testing.T, _ *fixture, s *sandbox.Spec) {
				s.Dir = "sub/dir"
				dir := filepath.Join(s.Workspace, s.Dir)
				if err := errors.Join(os.MkdirAll(dir, 0o755), // #nosec G301 -- likewise
					os.WriteFile(filepath.Join(dir, "here"), []byte("x\n"), 0o644)); err != nil { // #nosec G306 -- likewise
					t.Fatal(err)
				}
			},
		},
	}
}
