//go:build docker

package docker_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/docker"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

// helperVar tells an owner (see sandboxtest) the helper its parent built.
const helperVar = "RALPH_TEST_HELPER"

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if os.Getenv(helperVar) == "" {
		dir, err := os.MkdirTemp("", "helper")
		if err == nil {
			defer func() { _ = os.RemoveAll(dir) }()
			err = buildHelper(filepath.Join(dir, "helper"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "build the helper:", err)
			return 1
		}
	}
	return sandboxtest.Main(m, open)
}

// buildHelper builds what is mounted as the bot, statically: the test binary
// itself is not where the race detector is on.
func buildHelper(path string) error {
	tool, err := proc.Look("go")
	if err != nil {
		return err
	}
	_, err = proc.Run(context.Background(), proc.Cmd{
		Path: tool, Args: []string{"build", "-o", path, "../sandboxtest/helper"},
		Env: append(os.Environ(), "CGO_ENABLED=0"),
	})
	return errors.Join(err, os.Setenv(helperVar, path))
}

func open() (sandbox.Sandbox, error) {
	return docker.New(docker.Options{Self: os.Getenv(helperVar)})
}

func image() string {
	if name := os.Getenv("RALPH_TEST_IMAGE"); name != "" {
		return name
	}
	return "ralph-test/base:1"
}

func TestContract(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, sandboxtest.Harness{
		Open: open, Helper: docker.ShimPath, Image: image(),
	})
}

// TestNothingIsReached: see sandboxtest.Confine.
func TestNothingIsReached(t *testing.T) {
	sandboxtest.Confine(t, sandboxtest.Harness{
		Helper: docker.ShimPath, Image: image()}, func([]string) (sandbox.Sandbox, error) { return open() })
}

func TestCheck(t *testing.T) {
	t.Parallel()
	box, err := docker.New(docker.Options{Self: os.Getenv(helperVar), Image: image()})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Check(t.Context()); err != nil {
		t.Errorf("%v (scripts/docker-engine.sh and scripts/test-image.sh bring what is needed)", err)
	}
}

// probe runs a script in a container and gives its status and output.
func probe(t *testing.T, script string, change func(*sandbox.Spec)) (sandbox.Status, string) {
	t.Helper()
	box, err := open()
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	if err := box.Prepare(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{
		Argv: []string{"bash", "-c", script}, Image: image(), Workspace: tree,
		RunDir: filepath.Join(t.TempDir(), "run"), WallTimeout: time.Minute, Grace: 200 * time.Millisecond,
	}
	if change != nil {
		change(&spec)
	}
	h, err := box.Start(t.Context(), containerName(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Remove(context.WithoutCancel(t.Context()), h); err != nil {
			t.Error(err)
		}
	})
	st, err := box.Wait(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(filepath.Join(spec.RunDir, "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	return st, string(out)
}

func containerName(t testing.TB) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, strings.ToLower(t.Name()))
	return fmt.Sprintf("%s-%d", name, time.Now().UnixNano())
}

// TestConfinement looks from the inside at what a command is given; what it must not reach is
// hunted by TestNothingIsReached.
func TestConfinement(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, script, want string }{
		{name: "user", script: `id -u; id -g; id -G`, want: fmt.Sprintf("%d\n%d\n%d\n", uid(), gid(), gid())},
		{
			name:   "home and /tmp are there, with exec",
			script: `for d in "$HOME" /tmp; do printf '#!/bin/sh\necho ran\n' >$d/x; chmod +x $d/x; $d/x; done`,
			want:   "ran\nran\n",
		},
		{name: "nothing of others", script: `ls -A /run/ralph "$HOME"`, want: "/home/agent:\n\n/run/ralph:\n"},
		{
			name: "mounts", script: `cat /given/file; (echo x >>/given/file) 2>/dev/null && echo written; ls -A /workspace`,
			want: "given\n",
		},
	}
	given := filepath.Join(t.TempDir(), "given")
	if err := os.Mkdir(given, 0o755); err != nil { // #nosec G301 -- readable for the container's user
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(given, "file"), []byte("given\n"), 0o644); err != nil { // #nosec G306 -- likewise
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, out := probe(t, tt.script, func(s *sandbox.Spec) {
				s.Mounts = []sandbox.Mount{{Host: given, Target: "/given"}}
			})
			if out != tt.want {
				t.Errorf("got %q, want %q", out, tt.want)
			}
		})
	}
}

func uid() int {
	if os.Getuid() != 0 {
		return os.Getuid()
	}
	return docker.DefaultUID
}

func gid() int {
	if os.Getuid() != 0 {
		return os.Getgid()
	}
	return docker.DefaultUID
}

// TestRecordCannotBeForged lets a command try everything its user could do to
// the shim, and then end with exit code 9.
func TestRecordCannotBeForged(t *testing.T) {
	t.Parallel()
	st, out := probe(t, `
		for f in /proc/1/fd/* /proc/1/cwd /proc/1/root /proc/1/mem /proc/1/environ; do
			(echo forged >>"$f") 2>/dev/null && echo "wrote $f"
			(cat "$f") >/dev/null 2>&1 && echo "read $f"
		done
		ls /proc/1/fd 2>/dev/null
		for f in stdout stderr exit.jsonl config prompt; do echo '{"event":"ended","exit":{"code":0,"reason":"exited"}}' >/run/ralph/$f; done
		for s in HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM STKFLT CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS 34 64; do
			[ $s = INT ] || kill -$s 1 2>/dev/null
		done
		find / -xdev -links +1 -user "$(id -u)" -type f 2>/dev/null
		echo survived; exit 9`, nil)
	if out != "survived\n" {
		t.Errorf("output %q", out)
	}
	if st.ExitCode != 9 || st.Reason != sandbox.ReasonExited {
		t.Errorf("status %+v", st)
	}
}

func TestSignalFromInsideIsNoStop(t *testing.T) {
	t.Parallel()
	st, _ := probe(t, `kill -TERM 1; sleep 60`, nil)
	if st.Reason != sandbox.ReasonExited || st.Signal != "SIGTERM" {
		t.Errorf("status %+v", st)
	}
}

func TestForkBomb(t *testing.T) {
	t.Parallel()
	st, _ := probe(t, `cat /dev/zero & cat /dev/zero >&2 & f() { f | f & }; f; while :; do :; done`,
		func(s *sandbox.Spec) {
			s.PIDs, s.WallTimeout, s.CPUs = 24, 2*time.Second, 1
		})
	// The shim, whose threads count too, lives through it and keeps the time.
	if st.Reason != sandbox.ReasonWallTimeout {
		t.Errorf("ended by %s with exit code %d: %s", st.Reason, st.ExitCode, st.Detail)
	}
}

// TestDiskOfAContainerIsCounted: what is written beside the work tree ends the
// command, too, and none of it is on the engine's disk.
func TestDiskOfAContainerIsCounted(t *testing.T) {
	t.Parallel()
	st, _ := probe(t, `cat /dev/zero >/run/ralph/x; sleep 30`, func(s *sandbox.Spec) { s.DiskBytes = 16 << 20 })
	if st.Reason != sandbox.ReasonDiskLimit || !strings.Contains(st.Detail, "16 MiB") {
		t.Errorf("the run's directory: %+v", st)
	}
	engine := engineOf(t)
	made, err := engine.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{Image: image(), Cmd: []string{"true"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	name := "ralph-test/volume-" + containerName(t)
	_, err = engine.ContainerCommit(t.Context(), made.ID, client.ContainerCommitOptions{
		Reference: name, Changes: []string{"VOLUME /data"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, rmErr := engine.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{RemoveVolumes: true})
		_, imageErr := engine.ImageRemove(ctx, name, client.ImageRemoveOptions{Force: true})
		if err := errors.Join(rmErr, imageErr); err != nil {
			t.Error(err)
		}
	})
	_, out := probe(t, `cat /dev/zero >/data/x 2>/dev/null; stat -f -c %T /data; stat -c %s /data/x`,
		func(s *sandbox.Spec) { s.Image, s.MemoryBytes = name, 128<<20 })
	if out != "tmpfs\n67108864\n" {
		t.Errorf("a volume of the image is %q, want half of the memory", out)
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"the command": `exec tail /dev/zero`,
		"a child":     `tail /dev/zero; exit 0`,
		"in a tmpfs":  `cat /dev/zero >/tmp/x & cat /dev/zero >"$HOME/x" & wait; tail /dev/zero; exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, _ := probe(t, script, func(s *sandbox.Spec) { s.MemoryBytes = 64 << 20 })
			if !st.OOMKilled || st.State != sandbox.Exited {
				t.Errorf("status %+v", st)
			}
		})
	}
}

// engineOf is the engine that the sandboxes use.
func engineOf(t *testing.T) *client.Client {
	t.Helper()
	engine, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// sleeper starts a command that does not end.
func sleeper(t *testing.T, installation string) (*docker.Sandbox, sandbox.Handle) {
	t.Helper()
	box, err := docker.New(docker.Options{Self: os.Getenv(helperVar), Installation: installation})
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	if err := box.Prepare(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	h, err := box.Start(t.Context(), containerName(t), sandbox.Spec{
		Argv: []string{"sleep", "1000"}, Image: image(), Workspace: tree, RunDir: filepath.Join(t.TempDir(), "run"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := engineOf(t).ContainerRemove(context.WithoutCancel(t.Context()), "ralph-"+h.Name,
			client.ContainerRemoveOptions{Force: true})
		if err != nil && !errdefs.IsNotFound(err) {
			t.Error(err)
		}
	})
	return box, h
}

// TestEngineKills ends the container behind the shim's back.
func TestEngineKills(t *testing.T) {
	t.Parallel()
	engine := engineOf(t)
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		box, h := sleeper(t, "")
		if _, err := engine.ContainerKill(t.Context(), "ralph-"+h.Name, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
			t.Fatal(err)
		}
		st, err := box.Wait(t.Context(), h)
		if err != nil || st.State != sandbox.Exited || st.Reason != sandbox.ReasonLost || st.ExitCode != -1 ||
			st.FinishedAt.IsZero() {
			t.Errorf("status %+v, %v", st, err)
		}
	})
	t.Run("removed", func(t *testing.T) {
		t.Parallel()
		box, h := sleeper(t, "")
		if _, err := engine.ContainerRemove(t.Context(), "ralph-"+h.Name, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		if st, err := box.Wait(t.Context(), h); err != nil || st.State != sandbox.Missing {
			t.Errorf("status %+v, %v", st, err)
		}
	})
}

func TestForeignContainer(t *testing.T) {
	t.Parallel()
	engine := engineOf(t)
	name := containerName(t)
	foreign, err := engine.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: "ralph-" + name, Config: &container.Config{Image: image(), Cmd: []string{"true"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := engine.ContainerRemove(context.WithoutCancel(t.Context()), foreign.ID,
			client.ContainerRemoveOptions{}); err != nil {
			t.Error(err)
		}
	})
	box, err := open()
	if err != nil {
		t.Fatal(err)
	}
	_, err = box.Start(t.Context(), name, sandbox.Spec{
		Argv: []string{"true"}, Image: image(), Workspace: t.TempDir(),
		RunDir: filepath.Join(t.TempDir(), "run"),
	})
	if !errors.Is(err, sandbox.ErrNameTaken) {
		t.Errorf("error %v, want ErrNameTaken", err)
	}
}

func TestMissingImage(t *testing.T) {
	t.Parallel()
	const none = "ralph-test/there-is-none:1"
	box, err := docker.New(docker.Options{Self: os.Getenv(helperVar), Image: none})
	if err != nil {
		t.Fatal(err)
	}
	_, startErr := box.Start(t.Context(), containerName(t), sandbox.Spec{
		Argv: []string{"true"}, Image: none, Workspace: t.TempDir(),
		RunDir: filepath.Join(t.TempDir(), "run"),
	})
	for what, err := range map[string]error{"check": box.Check(t.Context()), "start": startErr} {
		user, ok := errors.AsType[*run.UserError](err)
		if !ok || !strings.Contains(user.Message, none) {
			t.Errorf("%s: %v, want a UserError that names the image", what, err)
		}
	}
}

// TestReap: a container whose run directory is gone is removed at the next
// start of the bot that made it, and no other container is.
func TestReap(t *testing.T) {
	t.Parallel()
	engine := engineOf(t)
	mine, others := strings.ToLower(rand.Text()), strings.ToLower(rand.Text())
	box, kept := sleeper(t, mine)
	_, forgotten := sleeper(t, mine)
	_, foreign := sleeper(t, others)
	for _, h := range []sandbox.Handle{forgotten, foreign} {
		if err := os.RemoveAll(h.RunDir); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := box.Reap(t.Context()); n != 1 || err != nil {
		t.Errorf("removed %d, %v; want one", n, err)
	}
	for name, want := range map[string]struct {
		h     sandbox.Handle
		there bool
	}{"remembered": {kept, true}, "forgotten": {forgotten, false}, "another bot's": {foreign, true}} {
		_, err := engine.ContainerInspect(t.Context(), "ralph-"+want.h.Name, client.ContainerInspectOptions{})
		if errdefs.IsNotFound(err) == want.there {
			t.Errorf("%s: %v, want it there: %v", name, err, want.there)
		}
	}
	if n, err := box.Reap(t.Context()); n != 0 || err != nil {
		t.Errorf("again: removed %d, %v; want none", n, err)
	}
}
