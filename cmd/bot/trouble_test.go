package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// script changes what the agent does from now on.
func (st *stage) script(text string) {
	st.t.Helper()
	if err := os.WriteFile(st.config.Agent.ScriptFile, []byte(text), 0o600); err != nil {
		st.t.Fatal(err)
	}
}

func (s *serving) started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.events, func(ev run.Event) bool { return ev.Kind == run.EventAgentStarted })
}

// nothingOnce gives every task up at once.
func nothingOnce(c *config.Server) { c.Limits.TaskAttempts = 1 }

// TestDataDirTooLongForSockets is refused before anything is started.
func TestDataDirTooLongForSockets(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll, change: func(c *config.Server) {
		c.Sandbox.Kind, c.Sandbox.Image, c.Agent.Name, c.Agent.Path = config.SandboxDocker, "agent:1", "claude", os.Args[0]
		c.DataDir = filepath.Join(c.DataDir, strings.Repeat("d", 80))
	}})
	a, err := newApp(t.Context(), st.config, zerolog.Nop(), observers{})
	if err == nil {
		t.Fatal("accepted", a.close())
	}
	user, ok := errors.AsType[*run.UserError](err)
	if !ok || !strings.Contains(user.Message, "Linux allows 107") {
		t.Errorf("%v, want a UserError that names the limit", err)
	}
}
