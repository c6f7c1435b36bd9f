package local_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/local"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

// TestContractApart: the whole contract holds with bubblewrap, too.
func TestContractApart(t *testing.T) {
	t.Parallel()
	contract(t, openApart, false, apartVar+"=1")
}

// TestNothingIsReached: a hostile program reaches nothing, and the same one does
// where nothing is kept apart, so that its hunt can be believed.
func TestNothingIsReached(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := sandboxtest.Harness{Helper: self}
	kept := func(how local.Isolation) func(hide []string) (sandbox.Sandbox, error) {
		return func(hide []string) (sandbox.Sandbox, error) {
			return local.New(local.Options{Isolation: how, Hide: hide})
		}
	}
	t.Run("apart", func(t *testing.T) { sandboxtest.Confine(t, h, kept(local.IsolationBubblewrap)) })
	t.Run("none", func(t *testing.T) {
		found := sandboxtest.Hunt(t, h, kept(local.IsolationNone))
		for _, name := range []string{
			"credentials in the home", "the App's private key", "a service on the host's loopback", "an abstract socket",
			"a socket in a directory", "keyctl", "unfiltered calls", ".env of the checkout", "write into /dev",
			"the bot's process", "a network interface", "the database",
		} {
			if found[name] == "" && (name != "write into /dev" || os.Getuid() == 0) {
				t.Errorf("%s was not found", name)
			}
		}
	})
}

// ask runs a script in a sandbox and gives what it said.
func ask(t *testing.T, box sandbox.Sandbox, change func(*sandbox.Spec), script string) string {
	t.Helper()
	h, _ := start(t, box, change, "sh", "-c", script)
	st, err := box.Wait(t.Context(), h)
	if err != nil || st.Reason != sandbox.ReasonExited {
		t.Fatalf("%+v, %v", st, err)
	}
	r, err := h.Stdout(0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestShimKilledApart: nothing outlives the shim, not for a moment.
func TestShimKilledApart(t *testing.T) {
	t.Parallel()
	box, err := openApart()
	if err != nil {
		t.Fatal(err)
	}
	killShim(t, box)
}

// TestRecordIsOutOfReach: a command that is kept apart cannot write how it ended,
// and neither its own status nor what it says is taken from anybody but the shim.
func TestRecordIsOutOfReach(t *testing.T) {
	t.Parallel()
	box, err := openApart()
	if err != nil {
		t.Fatal(err)
	}
	h, _ := start(t, box, nil, "sh", "-c", `
		run=$(dirname "$HOME")
		for f in "$run"/*; do [ -f "$f" ] && echo forged >>"$f"; done
		for fd in /proc/[0-9]*/fd/[34]; do echo '{"ended":true,"status":0}' >"$fd"; done
		exit 9`)
	st, err := box.Wait(t.Context(), h)
	if err != nil || st.Reason != sandbox.ReasonExited || st.ExitCode != 9 {
		t.Errorf("status %+v, %v", st, err)
	}
}

// TestProcessLimits hold in both: no dump of memory, bounded descriptors; with a
// user namespace of its own, processes too.
func TestProcessLimits(t *testing.T) {
	t.Parallel()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	most := strconv.FormatUint(min(files.Max, 1<<16), 10)
	for name, tt := range map[string]struct {
		open func() (sandbox.Sandbox, error)
		want string
	}{
		"none":  {open, "0 " + most + " 2097152"},
		"apart": {openApart, "0 " + most + " 2097152 64"},
	} {
		box, err := tt.open()
		if err != nil {
			t.Fatal(err)
		}
		script := `ulimit -c; ulimit -n; ulimit -f`
		if name == "apart" {
			script += `; sed -n 's/^Max processes *\([0-9]*\).*/\1/p' /proc/self/limits`
		}
		out := ask(t, box, func(s *sandbox.Spec) { s.DiskBytes, s.PIDs = 512<<20, 64 }, script)
		if got := strings.Join(strings.Fields(out), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestIsolationThatCannotBeHad is refused where it was asked for, and told where
// it was not.
func TestIsolationThatCannotBeHad(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	box, err := local.New(local.Options{Isolation: local.IsolationBubblewrap})
	if err != nil {
		t.Fatal(err)
	}
	if problem, ok := errors.AsType[*run.UserError](box.Check(t.Context())); !ok ||
		!strings.Contains(problem.Hint, "install bubblewrap") {
		t.Errorf("%v", problem)
	}
	if box, err = local.New(local.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := box.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if got := sandbox.Describe(box); got != "local (no isolation)" {
		t.Errorf("%q", got)
	}
	if c := box.Confinement(); c.Isolated || c.Why == nil {
		t.Errorf("%+v", c)
	}
	// One that is there and refused. It is tried as a start uses it.
	refusing := filepath.Join(t.TempDir(), "bwrap")
	const script = `#!/bin/sh
{ echo "$@"; cat /proc/self/uid_map; } >"${0%/*}/asked"
echo 'bwrap: No permissions to create a new namespace' >&2
exit 1
`
	if err := os.WriteFile(refusing, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(refusing)+":/bin:/usr/bin")
	if box, err = local.New(local.Options{Isolation: local.IsolationBubblewrap}); err != nil {
		t.Fatal(err)
	}
	if problem, ok := errors.AsType[*run.UserError](box.Check(t.Context())); !ok ||
		!strings.Contains(problem.Hint, "user namespaces") {
		t.Errorf("%v", problem)
	}
	asked, err := os.ReadFile(filepath.Join(filepath.Dir(refusing), "asked"))
	if err != nil {
		t.Fatal(err)
	}
	args, users, _ := strings.Cut(string(asked), "\n")
	asRoot := strings.Contains(args, "--cap-add CAP_SETUID --cap-add CAP_SETGID") &&
		!strings.Contains(args, "--unshare-user") && strings.Count(users, "\n") == 2
	if asRoot != (os.Getuid() == 0) {
		t.Errorf("asked for %s as\n%s", args, users)
	}
}
