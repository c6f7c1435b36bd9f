//go:build postgres

package queue_test

import (
	"testing"

	"github.com/org/ralph-action/internal/store/pgtest"
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	testQueue(t, pgtest.URL)
}

func TestKilledProcessOnPostgres(t *testing.T) {
	t.Parallel()
	testKilledProcess(t, pgtest.URL)
}
