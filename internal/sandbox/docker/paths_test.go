package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/internal/rundir"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
	"github.com/org/ralph-action/internal/sandbox/shim"
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
			!strings.Contains(user.Hint, "mount the data directory") {
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

// A directory whose name is not UTF-8, or that nests too deep, is no reason to
// refuse the tree.
func TestOwnTakesEveryName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad\xff")
	if err := errors.Join(os.Mkdir(bad, 0o700), sandboxtest.Dig(dir, 5000)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fstree.RemoveAll(dir) })
	s := Sandbox{uid: os.Getuid(), gid: os.Getgid()}
	if err := rundir.Own(t.Context(), dir, s.uid, s.gid); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := rundir.Own(ctx, dir, s.uid, s.gid); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled Prepare says %v", err)
	}
}

// A start that fails leaves no box: an agent's environment is in it.
func TestStartThatFailsLeavesNoBox(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.Contains(r.URL.Path, "/images/") && r.URL.Path != "/_ping" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	engine, err := client.New(client.WithHost("tcp://"+server.Listener.Addr().String()), client.WithHTTPClient(server.Client()))
	if err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(t.TempDir(), "tree")
	for name, tt := range map[string]struct {
		spec  sandbox.Spec
		found paths
		says  string
	}{
		"no standard input":      {spec: sandbox.Spec{Stdin: "/no/such/prompt"}, says: "no such file"},
		"what no engine can see": {spec: sandbox.Spec{}, found: paths{shared: map[string]string{"/nowhere": "/host"}}, says: "mount"},
		"an engine that fails":   {spec: sandbox.Spec{}, says: "500"},
	} {
		d := rundir.Dir(t.TempDir())
		s := Sandbox{engine: engine, uid: os.Getuid(), gid: os.Getgid(), opts: Options{Self: "/opt/bot"}, found: &tt.found}
		tt.spec.Image, tt.spec.Workspace, tt.spec.Env = "x", hidden, map[string]string{"KEY": "hunter2"}
		err := s.create(t.Context(), d, rundir.Start{Name: "x"}, tt.spec)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
		entries, err := os.ReadDir(string(d))
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.IsDir() }) {
			t.Errorf("%s: %v is left", name, entries)
		}
	}
}

// Whatever a command can write is in memory, or counted by the shim: a directory of
// the host that is mounted to be written is watched, and a volume of the image is not
// on the engine's disk.
func TestNothingWritableIsUncounted(t *testing.T) {
	t.Parallel()
	d := rundir.Dir(t.TempDir())
	s := Sandbox{uid: os.Getuid(), gid: os.Getgid(), opts: Options{Self: "/opt/bot"}, found: &paths{}}
	spec := sandbox.Spec{
		Workspace: "/data/tree", CacheDir: "/data/cache", GatewayDir: t.TempDir(),
		Mounts:    []sandbox.Mount{{Host: "/opt/agent", Target: "/opt/agent"}},
		Resources: sandbox.Resources{DiskBytes: 1 << 30, DiskFiles: 1000},
	}
	box, err := s.pack(t.Context(), d, rundir.Start{Name: "x"}, spec)
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(filepath.Join(box, rundir.ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	var cfg shim.Config
	if err := json.Unmarshal(src, &cfg); err != nil {
		t.Fatal(err)
	}
	volumes := []string{"/var/lib/data", "cache/", "/tmp", WorkDir, "/opt/agent", homeDir}
	host, err := s.hostConfig(t.Context(), box, spec, volumes)
	if err != nil {
		t.Fatal(err)
	}
	mounted := map[string]bool{}
	for _, m := range host.Mounts {
		mounted[m.Target] = true
		if m.Type != mount.TypeBind || !m.ReadOnly && !slices.Contains(cfg.Watched, m.Target) {
			t.Errorf("%s can be written and is not watched: %+v", m.Target, cfg.Watched)
		}
	}
	for _, volume := range append(volumes, "/cache") {
		options, inMemory := host.Tmpfs[path.Clean("/"+volume)]
		if !inMemory && !mounted[volume] || inMemory && !strings.Contains(options, "size=") {
			t.Errorf("the volume %s is on the engine's disk: %q", volume, options)
		}
	}
	if !host.ReadonlyRootfs || host.ShmSize <= 0 || host.Resources.Memory <= 0 {
		t.Errorf("not bounded: %+v", host)
	}
	if strings.Contains(host.Tmpfs[homeDir], "1777") {
		t.Errorf("home is everybody's: %q", host.Tmpfs[homeDir])
	}
}
