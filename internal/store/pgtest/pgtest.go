// Package pgtest gives tests a real PostgreSQL: Debian's, started by the test program as a
// user without rights, on a socket in a directory of its own, and gone with it.
//
// Invariants:
//   - Nothing outlives the test program, however it ends: a shell waits for the end of
//     its standard input, stops the server then and removes its directory. A server of a
//     test's own ends with the test, also where it was paused.
//   - No test sees the database of another one.
//   - There is no port: the server listens on a unix socket only.
package pgtest

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// script makes a server, or a standby of the primary that its fourth argument says how to reach,
// and answers each word that it reads with "done" when it has done what the word says. Its end
// is that of its standard input.
const script = `
set -eu
bin=$1 dir=$2 fsync=$3 primary=$4
cd "$dir"
up() { "$bin/pg_ctl" start -w -t 120 -s -D "$dir/data" -l "$dir/log" -o "-k $dir -c listen_addresses= \
	-c max_connections=200 -c fsync=$fsync -c max_wal_size=256MB -c wal_keep_size=256MB \
	-c synchronous_standby_names=* -c synchronous_commit=local" >/dev/null 2>&1 || { cat "$dir/log"; exit 1; }; }
# One process is the parent of all others.
main() { head -n 1 "$dir/data/postmaster.pid" 2>/dev/null; }
others() {
	for stat in /proc/[0-9]*/stat; do
		{ read -r line <"$stat"; } 2>/dev/null || continue
		set -- ${line##*) }
		[ "$2" != "$main" ] || basename "${stat%/stat}"
	done
}
# until_all STATES PIDS waits until each process is gone or in one of the states.
until_all() {
	states=$1
	shift
	for pid; do
		while { read -r line <"/proc/$pid/stat"; } 2>/dev/null; do
			line=${line##*) }
			case $states in *"${line%% *}"*) break ;; esac
		done
	done
}
halt() { main=$(main); kill -STOP "$main"; until_all TtZX "$main"; others=$(others); }
end() {
	if main=$(main); then kill -CONT "$main" $(others) 2>/dev/null || true; fi
	"$bin/pg_ctl" stop -w -s -m immediate -D "$dir/data" >/dev/null 2>&1 || true; cd /; rm -rf "$dir"; }
trap end EXIT
trap '' PIPE # the program has ended: the next answer fails, and end is called
export LC_ALL=C
if [ -z "$primary" ]; then
	"$bin/initdb" -D "$dir/data" -U bot -A trust -E UTF8 --locale=C --no-sync >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
	sed -i '1i local all guarded scram-sha-256' "$dir/data/pg_hba.conf"
else
	"$bin/pg_basebackup" -D "$dir/data" -d "$primary" -R -X stream -c fast --no-sync >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
fi
up
echo done
while read -r word; do
	case $word in
	# A zombie still has its number, by which the next server would take it for alive.
	kill) halt; kill -KILL "$main" $others; until_all ZX $others; until_all gone "$main" ;;
	pause) halt; kill -STOP $others; until_all TtZX $others ;;
	resume) main=$(main); kill -CONT "$main" $(others) ;;
	restart) "$bin/pg_ctl" stop -w -s -m fast -D "$dir/data" >/dev/null; up ;;
	start) up ;;
	promote) "$bin/pg_ctl" promote -w -s -D "$dir/data" >/dev/null ;;
	esac
	echo done
done
`

// Server is a PostgreSQL with no databases but those of URL. A role called guarded, where a test
// makes one, has to give its password.
type Server struct {
	dir    string
	shared bool
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	mu     sync.Mutex
}

// shared is the server of all tests of a program that do not need one of their own.
var shared = sync.OnceValues(func() (*Server, error) {
	s, err := start("off", "")
	if err == nil {
		s.shared = true
	}
	return s, err
})

// URL makes a database in the server that all tests share and gives its URL. It is dropped
// at the end of the test.
func URL(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s.URL(t)
}

// Start starts a server of its own for a test, which keeps what it has committed when it is
// killed.
func Start(t testing.TB) *Server {
	t.Helper()
	return startOwn(t, "")
}

func startOwn(t testing.TB, primary string) *Server {
	t.Helper()
	s, err := start("on", primary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.in.Close(), s.cmd.Wait()); err != nil {
			t.Errorf("end PostgreSQL: %v", err)
		}
		if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", s.dir, err)
		}
	})
	return s
}

// Kill kills the server, as a power cut would, and Up starts it again.
func (s *Server) Kill(t testing.TB) { s.tell(t, "kill") }

// Pause stops all processes of the server where they are, as a machine that hangs does: who
// talks to it hears nothing. Resume has them go on.
func (s *Server) Pause(t testing.TB) { s.tell(t, "pause") }

// Resume ends a pause.
func (s *Server) Resume(t testing.TB) { s.tell(t, "resume") }

// Up starts a server that was killed.
func (s *Server) Up(t testing.TB) { s.tell(t, "start") }

// Restart stops the server in good order, which ends all connections, and starts it again.
func (s *Server) Restart(t testing.TB) { s.tell(t, "restart") }

func (s *Server) tell(t testing.TB, word string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString(s.in, word+"\n")
	if err == nil {
		err = s.answer()
	}
	if err != nil {
		t.Fatalf("%s PostgreSQL: %v", word, err)
	}
}

// answer waits until what was asked for is done.
func (s *Server) answer() error {
	var said strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if line == "done\n" {
			return nil
		}
		said.WriteString(line)
		if err != nil {
			return fmt.Errorf("%w: %s", err, said.String())
		}
	}
}

// URL makes a database and gives its URL. It is gone at the end of the test.
func (s *Server) URL(t testing.TB) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	if err := s.exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	if !s.shared {
		return s.url(name) // it goes with the server
	}
	t.Cleanup(func() {
		if err := s.exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return s.url(name)
}

func (s *Server) url(name string) string { return "postgres://bot@/" + name + "?host=" + s.dir }

// exec runs statements, which are one transaction where they can be.
func (s *Server) exec(statements string) (err error) {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	_, err = c.PgConn().Exec(ctx, statements).ReadAll()
	return err
}

// programs is the directory of PostgreSQL's programs; Debian keeps those of the server out
// of PATH.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("PostgreSQL is not installed (on Debian: apt-get install postgresql): %w", err)
	}
	return filepath.Dir(path), nil
}

// Program is the path of one of PostgreSQL's programs, such as pg_dump.
func Program(t testing.TB, name string) string {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(bin, name)
}

func start(fsync, primary string) (_ *Server, err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	// Not below TMPDIR, which another user may not be able to enter.
	dir, err := os.MkdirTemp("/tmp", "ralph-pg-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", script, "sh", bin, dir, fsync, primary) //nolint:noctx // it ends with this program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                        // the terminal's ^C is not for it
	if os.Getuid() == 0 {
		// PostgreSQL refuses to be root.
		if cmd.SysProcAttr.Credential, err = nobody(); err == nil {
			err = os.Chown(dir, int(cmd.SysProcAttr.Credential.Uid), int(cmd.SysProcAttr.Credential.Gid))
		}
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	cmd.Stderr = os.Stderr
	s := &Server{dir: dir, cmd: cmd}
	// Of the shared one nobody closes the other end: the kernel does when this program ends.
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.in, s.out = in, bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.answer(); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return s, nil
}

// nobody is the user that the server runs as where the tests are root's.
func nobody() (*syscall.Credential, error) {
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(uerr, gerr)
}
