package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/org/ralph-action/internal/store"
)

// childEnv makes the test binary the process that is killed: it holds the name
// of the database, childCommits says how far to go before.
const (
	childEnv     = "STORE_TEST_CHILD"
	childCommits = "STORE_TEST_CHILD_COMMITS"
)

func TestMain(m *testing.M) {
	if path, is := os.LookupEnv(childEnv); is {
		if err := child(context.Background(), path); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child writes a delivery, says so, and waits to be killed: inside the
// transaction, or right after its commit.
func child(ctx context.Context, path string) error {
	st, err := store.Open(ctx, path)
	if err != nil {
		return err
	}
	wait := func() error {
		if _, err := os.Stdout.WriteString("ready\n"); err != nil {
			return err
		}
		_, err := os.Stdin.Read(make([]byte, 1)) // until killed
		return err
	}
	err = st.InTx(ctx, func(tx *store.Tx) error {
		if _, err := st.InsertDelivery(ctx, tx, store.Delivery{GUID: "from-child", ReceivedAt: time.Unix(1, 0)}); err != nil {
			return err
		}
		if os.Getenv(childCommits) == "" {
			return wait()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return wait()
}

// killChild runs child on the database at path until it says it is ready, and
// kills it with SIGKILL.
func killChild(t *testing.T, path, commits string) {
	t.Helper()
	stdin, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, stdin, hold)
	ready, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, ready)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess(exe, []string{exe}, &os.ProcAttr{
		Env:   append(os.Environ(), childEnv+"="+path, childCommits+"="+commits),
		Files: []*os.File{stdin, stdout, os.Stderr},
	})
	closeAll(t, stdout)
	if err != nil {
		t.Fatal(err)
	}
	line, rerr := bufio.NewReader(ready).ReadString('\n')
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if rerr != nil || line != "ready\n" {
		t.Fatalf("child said %q, %v", line, rerr)
	}
}

func closeAll(t *testing.T, files ...*os.File) {
	t.Helper()
	for _, f := range files {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
