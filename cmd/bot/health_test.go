package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// readyz asks the server whether it does its work.
func (st *stage) readyz() (status int, body string) {
	st.t.Helper()
	return ask(st.t, st.hookURL+"/readyz")
}

func TestReady(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{})
	st.serve()
	for range 2 {
		if status, body := st.readyz(); status != http.StatusOK || body != "ready\n" {
			t.Errorf("%d %q", status, body)
		}
	}
}

// A database that is gone takes no webhook: what would be lost with it, GitHub is
// told to keep.
func TestNothingIsAcceptedThatIsNotStored(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{})
	s := st.serveLogging(zerolog.Nop())
	if err := os.Remove(s.store.Path()); err != nil {
		t.Fatal(err)
	}
	if status, body := st.readyz(); status != http.StatusServiceUnavailable || !strings.Contains(body, "not ready: database") {
		t.Errorf("%d %q", status, body)
	}
	if status := st.send("issues", "g-1", map[string]any{"action": "labeled"}); status != http.StatusServiceUnavailable {
		t.Errorf("a webhook was answered %d", status)
	}
}

// A full disk is seen, and takes no webhook; when there is room again, all is well.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{})
	s := st.serveLogging(zerolog.Nop())
	pragma := func(text string) {
		t.Helper()
		if err := s.store.InTx(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), text)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if status, body := st.readyz(); status != http.StatusOK { // it is up, too
		t.Fatalf("%d %q", status, body)
	}
	large := map[string]any{"action": "labeled", "filler": strings.Repeat("x", 100_000)}
	pragma("PRAGMA max_page_count = 1")
	if status := st.send("issues", "g-1", large); status != http.StatusServiceUnavailable {
		t.Errorf("a webhook was answered %d", status)
	}
	if _, err := s.store.Delivery(t.Context(), "g-1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it was stored: %v", err)
	}
	pragma("PRAGMA max_page_count = 1000000")
	if status := st.send("issues", "g-1", large); status != http.StatusAccepted {
		t.Errorf("the same webhook was then answered %d", status)
	}
}

// What is wrong with the database is said at the start, with what to do.
func TestDamagedDatabaseIsSaidAtStart(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{})
	s := st.serve()
	path := s.store.Path()
	st.processed(s)
	s.stop()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// All but the first pages, which every start reads.
	_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, int(info.Size())/2), info.Size()/2)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := newApp(t.Context(), st.config, zerolog.Nop(), observers{self: theProgram(t)}); err == nil {
		t.Error("a damaged database was opened")
	} else if user, ok := errors.AsType[*run.UserError](err); !ok || !strings.Contains(user.Hint, "put a copy of data_dir in its place") {
		t.Errorf("%v", err)
	}
}
