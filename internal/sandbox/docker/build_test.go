//go:build docker

package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/docker"
)

// build follows a build of these instructions to its end.
func build(t *testing.T, box *docker.Sandbox, name, dockerfile string, timeout time.Duration) sandbox.BuildStatus {
	t.Helper()
	status, err := tryBuild(t, box, name, dockerfile, timeout)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func tryBuild(t *testing.T, box *docker.Sandbox, name, dockerfile string, timeout time.Duration) (sandbox.BuildStatus, error) {
	t.Helper()
	b := sandbox.Build{Name: name, Dockerfile: "Dockerfile", Timeout: timeout, CPUs: 0.5, Context: func(context.Context) (io.ReadCloser, error) {
		var files bytes.Buffer
		w := tar.NewWriter(&files)
		if err := w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(dockerfile))}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, dockerfile); err != nil {
			return nil, err
		}
		return io.NopCloser(&files), w.Close()
	}}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		status, err := box.Build(t.Context(), b)
		if err != nil || !status.Running {
			return status, err
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the build does not end")
		}
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	box, err := docker.New(docker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	name := "ralph-test/built:" + strings.ToLower(rand.Text())
	if s := build(t, box, name, "FROM "+image()+"\nRUN echo said; exit 3\n", time.Minute); !strings.Contains(s.Failed,
		"non-zero code: 3") || !strings.Contains(s.Output, "said\n") {
		t.Errorf("a command that fails: %+v", s)
	}
	if s := build(t, box, name, "FROM "+image()+"\nRUN sleep 600\n", 2*time.Second); s.Failed != "it took longer than 2s" {
		t.Errorf("a command that does not end: %+v", s)
	}
	if s := build(t, box, name, "no instruction\n", time.Minute); s.Failed == "" {
		t.Error("what is no Dockerfile is built")
	}
	if s, err := tryBuild(t, box, name, "FROM localhost:1/base:1\n", time.Minute); !errors.Is(err, sandbox.ErrNoRegistry) {
		t.Errorf("a registry that is away: %+v, %v", s, err)
	}
	// It can be tried again, and is made once.
	if s := build(t, box, name, "FROM "+image()+"\nRUN echo made >/made\n", time.Minute); s.Failed != "" {
		t.Fatalf("%+v", s)
	}
	engine, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := engine.ImageRemove(context.WithoutCancel(t.Context()), name,
			client.ImageRemoveOptions{PruneChildren: true}); err != nil {
			t.Error(err)
		}
	})
	if s := build(t, box, name, "FROM nowhere\n", time.Minute); s != (sandbox.BuildStatus{}) {
		t.Errorf("an image that is there is made again: %+v", s)
	}
}
