package docker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

func TestHostPaths(t *testing.T) {
	t.Parallel()
	p := paths{shared: map[string]string{"/data": "/srv/ralph", "/data/runs": "/fast/runs", "/": "/image"}}
	for path, want := range map[string]string{
		"/data": "/srv/ralph", "/data/x/y": "/srv/ralph/x/y", "/data/runs/1": "/fast/runs/1", "/database": "/image/database",
	} {
		if got, ok := p.host(path); !ok || got != want {
			t.Errorf("%s: %q, %v; want %q", path, got, ok, want)
		}
	}
	if got, ok := (paths{shared: map[string]string{"/data": "/srv"}}).host("/database"); ok {
		t.Errorf("/database is not below /data, yet it is %q", got)
	}
	if got, ok := (paths{}).host("/anything"); !ok || got != "/anything" {
		t.Errorf("outside of a container: %q, %v", got, ok)
	}
}

func TestMountable(t *testing.T) {
	t.Parallel()
	shared, hidden := t.TempDir(), t.TempDir()
	program := filepath.Join(hidden, "bot")
	if err := os.WriteFile(program, []byte("program"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := paths{shared: map[string]string{shared: "/host"}, dir: filepath.Join(shared, "data")}
	at, err := p.mountable(program)
	if err != nil {
		t.Fatal(err)
	}
	copied := shared + strings.TrimPrefix(at, "/host")
	info, err := os.Stat(copied)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Fatalf("the copy %s has mode %v, %v", copied, info, err)
	}
	if again, err := p.mountable(program); err != nil || again != at {
		t.Errorf("a second time: %q, %v; want %q", again, err, at)
	}
	if err := os.WriteFile(program, []byte("another program"), 0o700); err != nil {
		t.Fatal(err)
	}
	if changed, err := p.mountable(program); err != nil || changed == at {
		t.Errorf("after it changed: %q, %v", changed, err)
	}
	for name, p := range map[string]paths{
		"a directory":       p,
		"nothing to put it": {shared: map[string]string{shared: "/host"}},
	} {
		path := program
		if name == "a directory" {
			path = hidden
		}
		_, err := p.mountable(path)
		if user, ok := errors.AsType[*run.UserError](err); !ok || !strings.Contains(user.Message, path) ||
			!strings.Contains(user.Hint, "sandbox.host_paths") {
			t.Errorf("%s: %v, want a UserError that says what cannot be seen", name, err)
		}
	}
}

func TestOwnContainer(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0a", 32)
	for line, want := range map[string]string{
		"600 580 8:1 /var/lib/docker/containers/" + id + "/hostname /etc/hostname rw - ext4 /dev/a rw": id,
		"600 580 8:1 /docker/containers/" + id + "/resolv.conf /etc/resolv.conf rw - ext4 /dev/a rw":   id,
		"600 580 8:1 /var/lib/docker/containers/" + id + "/mounts/shm /dev/shm rw - tmpfs shm rw":      "",
		"600 580 8:1 / / rw - ext4 /dev/a rw":                                                          "",
	} {
		got := ""
		if m := containerID.FindStringSubmatch(line); m != nil {
			got = m[1]
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
