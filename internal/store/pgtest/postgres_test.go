//go:build postgres

package pgtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/org/ralph-action/internal/store/pgtest"
)

// childEnv makes the test program one that starts a server and says where, until it is
// killed.
const childEnv = "PGTEST_CHILD"

func TestServer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := pgtest.Start(t)
	url := s.URL(t)
	write := func(statement string) {
		t.Helper()
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Exec(ctx, statement)
		if err := errors.Join(err, c.Close(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	write(`CREATE TABLE kept (n INTEGER)`)
	s.Kill(t)
	if c, err := pgx.Connect(ctx, url); err == nil {
		t.Error("a killed server answers", c.Close(ctx))
	}
	s.Up(t)
	write(`INSERT INTO kept VALUES (1)`)
	s.Restart(t)
	write(`DROP TABLE kept`)
	if s.URL(t) == url {
		t.Error("one database twice")
	}
}

// ask runs a statement over a connection of its own.
func ask(ctx context.Context, url, statement string) (n int, err error) {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	err = c.QueryRow(ctx, statement).Scan(&n)
	return n, err
}

// asks is ask for an answer.
func asks(t *testing.T, url, statement string, want int) {
	t.Helper()
	if n, err := ask(t.Context(), url, statement); err != nil || n != want {
		t.Errorf("%s on %s: %d, %v; want %d", statement, url, n, err, want)
	}
}

// silent says that nothing is heard until the question is given up.
func silent(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if n, err := ask(ctx, url, `SELECT 1`); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s answers %d, %v", url, n, err)
	}
}

// A server that is paused says nothing, to whom it knew and to others, and goes on afterwards as
// if nothing had been. It can be killed while it is, and ends with the test.
func TestPause(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := pgtest.Start(t)
	url := s.URL(t)
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	answers := make(chan error, 1)
	s.Pause(t)
	go func() { answers <- c.Ping(ctx) }()
	silent(t, url)
	select {
	case err := <-answers:
		t.Errorf("an open connection is answered: %v", err)
	default:
	}
	s.Resume(t)
	if err := <-answers; err != nil {
		t.Errorf("after the pause: %v", err)
	}
	asks(t, url, `SELECT 1`, 1)

	s.Pause(t)
	s.Kill(t)
	if err := c.Ping(ctx); err == nil {
		t.Error("a killed server answers")
	}
	s.Up(t)
	asks(t, url, `SELECT 1`, 1)
	s.Pause(t)
}

// A standby has what was committed while it followed, and not the rest, when it takes the
// place of its primary.
func TestStandby(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	url := s.URL(t)
	standby := s.Standby(t)
	there := standby.At(t, url)
	write := func(url, statement string) error {
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return err
		}
		_, err = c.Exec(t.Context(), statement)
		return errors.Join(err, c.Close(t.Context()))
	}
	if err := errors.Join(write(url, `CREATE TABLE kept (n INTEGER)`), write(url, `INSERT INTO kept VALUES (1)`)); err != nil {
		t.Fatal(err)
	}
	standby.CatchUp(t)
	const count = `SELECT count(*) FROM kept`
	asks(t, there, count, 1)
	if err := write(there, `INSERT INTO kept VALUES (2)`); err == nil {
		t.Error("a standby can be written to")
	}
	// It follows again after its link was cut, and after it was killed.
	standby.Link.Cut()
	if err := write(url, `INSERT INTO kept VALUES (2)`); err != nil {
		t.Fatal(err)
	}
	asks(t, there, count, 1)
	standby.Link.Join()
	standby.CatchUp(t)
	asks(t, there, count, 2)
	standby.Kill(t)
	standby.Up(t)
	standby.CatchUp(t)

	relay := s.Relay(t)
	asks(t, relay.URL(t, url), count, 2)
	standby.Link.Cut()
	if err := write(url, `INSERT INTO kept VALUES (3)`); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	standby.Promote(t)
	relay.LeadTo(standby.Server)
	asks(t, relay.URL(t, url), count, 2)
	if err := write(relay.URL(t, url), `INSERT INTO kept VALUES (4)`); err != nil {
		t.Errorf("the standby did not take the primary's place: %v", err)
	}
}

// What waits at a relay that was cut passes when it is joined; what is broken ends.
func TestRelay(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := pgtest.Start(t)
	url := s.URL(t)
	relay := s.Relay(t)
	way := relay.URL(t, url)
	c, err := pgx.Connect(ctx, way)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	relay.Cut()
	answers := make(chan error, 1)
	go func() { answers <- c.Ping(ctx) }()
	silent(t, way)
	asks(t, url, `SELECT 1`, 1)
	// The end of a connection is heard of no sooner than anything else.
	if n, err := ask(ctx, url, fmt.Sprintf(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE pid = %d AND datname = current_database()`, c.PgConn().PID())); err != nil || n != 1 {
		t.Errorf("ended %d sessions, %v; want 1", n, err)
	}
	select {
	case err := <-answers:
		t.Errorf("something passes: %v", err)
	default:
	}
	relay.Join()
	if err := <-answers; err == nil {
		t.Error("a session that was ended answers")
	}
	asks(t, way, `SELECT 1`, 1)
	if c, err = pgx.Connect(ctx, way); err != nil {
		t.Fatal(err)
	}
	relay.Break()
	if err := c.Ping(ctx); err == nil {
		t.Error("a connection that was broken answers")
	}
	asks(t, way, `SELECT 1`, 1)
	relay.Cut() // it ends with the test all the same
}

// TestServerGoesWithItsProgram: also where the program is killed.
func TestServerGoesWithItsProgram(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		_, err := os.Stdout.WriteString("at " + pgtest.URL(t) + "\n")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed
		return
	}
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), exe, "-test.run=^TestServerGoesWithItsProgram$")
	child.Env = append(os.Environ(), childEnv+"=yes")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := child.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	buf := make([]byte, 1<<10)
	for !strings.Contains(said.String(), "\n") {
		n, err := out.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			t.Fatalf("said %q, %v", said.String(), err)
		}
	}
	_, dir, ok := strings.Cut(strings.TrimSpace(said.String()), "?host=")
	if !ok {
		t.Fatalf("said %q", said.String())
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The shell that stops the server has the same standard error: it is at its end when
	// the shell is.
	if _, err := io.Copy(io.Discard, errs); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}
