package store

import (
	"path/filepath"
	"testing"

	"github.com/org/ralph-action/internal/spend"
	"github.com/org/ralph-action/internal/spend/spendtest"
)

func TestSpend(t *testing.T) {
	t.Parallel()
	spendtest.Run(t, func(t *testing.T, dir string) spend.Ledger {
		s, err := Open(t.Context(), filepath.Join(dir, "ralph.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s.Spend()
	})
}
