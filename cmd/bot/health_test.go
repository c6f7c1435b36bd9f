//go:build unix

package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// readyz asks the server whether it does its work.
func (st *stage) readyz() (status int, body string) {
	st.t.Helper()
	req, err := http.NewRequestWithContext(st.t.Context(), http.MethodGet, st.hookURL+"/readyz", nil)
	if err != nil {
		st.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		st.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		st.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
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
