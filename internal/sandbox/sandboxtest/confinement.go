package sandboxtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/sandbox"
)

// CanaryKey is the name of a key that is in the session's keyring of the process
// that starts the hostile program.
const CanaryKey = "ralph-canary"

// Prey is what the hostile program is told of the machine that it runs on, as
// somebody who planned the attack would know it.
type Prey struct {
	// Files are by what they hold. Sockets are a network and an address each.
	Files, Sockets map[string]string
	// Bot is the process that starts sandboxes, and Args its command line: in a sandbox the
	// number may be another process's.
	Bot  int
	Args []string
}

// Confine runs a hostile program in a sandbox, and wants that it reaches nothing.
// What "nothing" is stands here and in hunt, once for all sandboxes. open gives
// one that was told to hide the directories and files.
//
// It changes the environment of the process: no other test may run beside it.
func Confine(t *testing.T, h Harness, open func(hide []string) (sandbox.Sandbox, error)) {
	t.Helper()
	found := Hunt(t, h, open)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		t.Run(name, func(t *testing.T) {
			if found[name] != "" {
				t.Errorf("reached: %s", found[name])
			}
		})
	}
}

// Hunt gives what the hostile program found, and prints it as a table.
func Hunt(t *testing.T, h Harness, open func(hide []string) (sandbox.Sandbox, error)) map[string]string {
	t.Helper()
	prey, hide := machine(t)
	box, err := open(hide)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Harness: h, t: t, box: box}
	told, err := json.Marshal(prey)
	if err != nil {
		t.Fatal(err)
	}
	spec := f.sh(t, `exec "$helper" helper hunt "$prey"`)
	spec.Env["prey"] = string(told)
	if sandbox.Isolated(box) {
		spec.GatewayDir = shortDir(t)
	}
	st, out := f.do(t, spec)
	found := map[string]string{}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("%v: %+v: %q", err, st, out)
	}
	var table strings.Builder
	for _, name := range slices.Sorted(maps.Keys(found)) {
		what := found[name]
		if what == "" {
			what = "-"
		}
		fmt.Fprintf(&table, "  %-48s %s\n", name, what)
	}
	t.Logf("what a hostile program reached in %s:\n%s", sandbox.Describe(box), table.String())
	return found
}

// machine puts onto the machine, and into this process, what a hostile program
// would like to have. The directories and files of hide are those that a caller
// names to the sandbox.
func machine(t *testing.T) (prey Prey, hide []string) {
	t.Helper()
	home := t.TempDir()
	write := func(path string, mode os.FileMode) string {
		t.Helper()
		path = filepath.Join(home, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // #nosec G301 -- as people's are
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("planted"), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("HOME", home)
	t.Setenv("PATH", strings.Join([]string{
		filepath.Join(home, ".fly/bin"), filepath.Join(home, "checkout"), filepath.Join(home, "etc"), home, os.Getenv("PATH"),
	}, ":"))
	write(".fly/bin/flyctl", 0o755)
	write("checkout/run", 0o755)
	write("etc/run", 0o755)
	prey.Bot, prey.Args = os.Getpid(), os.Args
	prey.Files = map[string]string{
		"credentials in the home":                     write(".netrc", 0o644),
		"credentials beside a program of PATH":        write(".fly/config.yml", 0o644),
		"a private file among the programs of PATH":   write(".fly/bin/token", 0o600),
		".env of the checkout":                        write("checkout/.env", 0o644),
		".git/config of the checkout":                 write("checkout/.git/config", 0o644),
		"the App's private key":                       write("etc/app.pem", 0o644),
		"the configuration's directory":               write("etc/ralph/ralph.yaml", 0o644),
		"the database":                                write("etc/data/ralph.db", 0o644),
		"the source of another program":               write("src/secret", 0o644),
		"the inherited directory":                     "/proc/self/fd/200/" + strings.TrimPrefix(home, "/") + "/.netrc",
		"what a daemon has in /run":                   "/run/docker.sock",
		"the bot's own directory for temporary files": write("tmp/planted", 0o644),
		"the first process's root":                    "/proc/1/root" + filepath.Join(home, ".netrc"),
		"the first process's working directory":       "/proc/1/cwd/" + strings.Repeat("../", 32) + filepath.Join(home, ".netrc"),
		"the first process's files":                   "/proc/1/fd/3",
	}
	hide = []string{
		filepath.Join(home, "etc/app.pem"), filepath.Join(home, "etc/ralph"), filepath.Join(home, "etc/data"),
	}

	short := shortDir(t)
	prey.Sockets = map[string]string{}
	listen := func(name, network, address string) {
		t.Helper()
		l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		prey.Sockets[name] = network + ":" + l.Addr().String()
	}
	listen("a socket in a directory", "unix", filepath.Join(short, "s"))
	listen("an abstract socket", "unix", "@ralph-hunt-"+filepath.Base(short))
	listen("a service on the host's loopback", "tcp", "127.0.0.1:0")
	if err := plant(); err != nil {
		t.Fatal(err)
	}

	// As `exec 200</; bot run` would leave it.
	fd, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	const inherited = 200
	if err := unix.Dup2(fd, inherited); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Close(fd)
		_ = syscall.Close(inherited)
	})
	return prey, hide
}

// shortDir is a directory for sockets, whose paths must be short.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
