//go:build postgres

package store

import (
	"testing"

	"github.com/org/ralph-action/internal/store/pgtest"
)

func TestSpendOnPostgres(t *testing.T) {
	t.Parallel()
	testSpend(t, pgtest.URL)
}
