package sandboxtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/sandbox"
)

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
		if runs, err := os.ReadFile(filepath.Join(spec.Workspace, "runs")); len(runs) > len("run\n") {
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

// testOwnerDies: a command goes on without the process that started it, or ends with it, as it was asked to.
func testOwnerDies(t *testing.T, f *fixture) {
	for policy, want := range map[sandbox.OwnerDeath]sandbox.Reason{
		sandbox.KeepWithoutOwner: sandbox.ReasonExited, sandbox.KillWithOwner: sandbox.ReasonOwnerDied,
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			spec := f.sh(t, `"$helper" helper hold child & echo run >>runs; echo one; until [ -e go ]; do sleep 0.01; done; exit 4`)
			spec.OnOwnerDeath = policy
			name := f.name()
			o := f.startOwner(t, name, spec)
			h := o.handle(t)
			f.removeLater(t, h)
			f.awaitOutput(t, h, "one")
			f.awaitOutput(t, h, "held child")
			running := func() {
				t.Helper()
				if st, err := f.box.Inspect(t.Context(), h); err != nil || st.State != sandbox.Running {
					t.Fatalf("%+v, %v; want running", st, err)
				}
			}
			running()
			o.kill(t)
			if policy == sandbox.KeepWithoutOwner {
				running()
				if again := f.start(t, name, spec); again != h {
					t.Errorf("adopted by name: %v, want %v", again, h)
				}
				f.touch(t, spec.Workspace, "go")
			}
			if st := f.wait(t, h); st.State != sandbox.Exited || st.Reason != want || want == sandbox.ReasonExited && st.ExitCode != 4 {
				t.Errorf("status %+v", st)
			}
			f.mustHaveRunOnce(t, spec.Workspace)
			f.mustBeDead(t, spec.Workspace, "child")
		})
	}
}
