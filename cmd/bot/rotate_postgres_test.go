//go:build postgres

package main

import (
	"os/exec"
	"testing"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/store/pgtest"
)

// TestNoSecretIsInPostgres is TestNoSecretIsInTheDatabase there.
func TestNoSecretIsInPostgres(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: tells(tellsKey), change: func(c *config.Server) {
		c.Model.APIKey, c.DatabaseURL = tellsKey, pgtest.URL(t)
	}})
	st.tellAll(t)
	dump, err := exec.CommandContext(t.Context(), pgtest.Program(t, "pg_dump"), st.config.DatabaseURL).Output()
	if err != nil {
		t.Fatal(err)
	}
	st.holdsNoSecret(t, dump)
}
