package docker_test

// What needs no engine.

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/docker"
)

func TestNoEngine(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none.sock")
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	box, err := docker.New(docker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, startErr := box.Start(t.Context(), "x", sandbox.Spec{
		Argv: []string{"true"}, Image: "x", Workspace: t.TempDir(),
		RunDir: filepath.Join(t.TempDir(), "run"),
	})
	checkErr := box.Check(t.Context())
	user, ok := errors.AsType[*run.UserError](checkErr)
	if !ok || !strings.Contains(user.Message, socket) || !strings.Contains(user.Hint, "--sandbox local") {
		t.Errorf("check: %v, want a UserError that says where and what to do", checkErr)
	}
	// Later it may only be restarting: come back rather than ask a person.
	if _, ok := errors.AsType[*run.UserError](startErr); ok || !errors.Is(startErr, sandbox.ErrUnavailable) {
		t.Errorf("start: %v, want ErrUnavailable and no UserError", startErr)
	}
}

func TestBadSettings(t *testing.T) {
	t.Setenv("DOCKER_HOST", "nonsense")
	if _, err := docker.New(docker.Options{}); err == nil {
		t.Error("DOCKER_HOST=nonsense is accepted")
	} else if _, ok := errors.AsType[*run.UserError](err); !ok {
		t.Errorf("%v is no UserError", err)
	}
}
