//go:build postgres

package pgtest_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

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
