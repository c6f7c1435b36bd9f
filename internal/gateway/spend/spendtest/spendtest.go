// Package spendtest opens ledgers for tests.
package spendtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/store"
)

// test is a *testing.T, or that of a package which draws its cases.
type test interface {
	Context() context.Context
	Fatal(args ...any)
	Cleanup(f func())
}

// Open opens the ledger in a directory, and makes it where there is none. It is closed
// with the test. Opening the same directory again is what the next process does.
func Open(t test, dir string) spend.Ledger {
	file := filepath.Join(dir, "spend.db")
	if _, err := os.Stat(file); err != nil {
		book, err := empty()
		if err == nil {
			err = os.WriteFile(file, book, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	st, err := store.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return st.Spend()
}

// empty is a ledger of which nothing was written yet. To make its tables anew for each
// test would take most of the tests' time.
var empty = sync.OnceValues(func() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "ralph-spend-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "spend.db")
	st, err := store.Open(context.Background(), file)
	if err != nil {
		return nil, err
	}
	if err := st.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})
