package host_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// builder is an engine whose next builds come to what is listed.
type builder struct {
	sandbox.Sandbox
	next []error
	// under: one is under way.
	under bool
}

func (b *builder) About() sandbox.About { return sandbox.About{Images: b} }

func (b *builder) Build(context.Context, sandbox.Build) (sandbox.BuildStatus, error) {
	if b.under = !b.under; b.under {
		return sandbox.BuildStatus{Running: true}, nil
	}
	err := b.next[0]
	b.next = b.next[1:]
	if errors.Is(err, sandbox.ErrNoRegistry) {
		return sandbox.BuildStatus{}, err
	}
	return sandbox.BuildStatus{Failed: err.Error()}, nil
}

func (b *builder) Expire(context.Context, time.Time, func(string) bool) (int, int64, error) {
	return 0, 0, nil
}

// A base image whose registry is away is waited for, also while it is tried again; one that
// does not exist is told.
func TestBaseImageWithoutItsRegistry(t *testing.T) {
	t.Parallel()
	src := newSource(t, map[string]string{
		".devcontainer.json": `{"build": {"dockerfile": "Dockerfile"}}`, "Dockerfile": "FROM r.example/x\n",
	})
	h := host.New(host.Config{
		Dir: filepath.Join(t.TempDir(), "run"), Source: src, Backend: talker{},
		Sandbox: &builder{next: []error{sandbox.ErrNoRegistry, sandbox.ErrNoRegistry, errors.New("manifest unknown")}},
		Limits:  func(asked run.Limits) run.Limits { return asked.WithDefaults(run.DefaultLimits()) },
	})
	o, err := h.Open(t.Context(), loop.State{})
	if err != nil {
		t.Fatal(err)
	}
	build := func() (loop.ImageStatus, error) {
		return h.BuildImage(t.Context(), loop.State{}, loop.Image{Name: "x", Tree: o.HeadTree})
	}
	if s, err := build(); err != nil || !s.Running {
		t.Errorf("at first: %+v, %v", s, err)
	}
	for range 4 { // the end of one, the next at work, its end, and the last at work
		if s, err := build(); !errors.As(err, new(*loop.Delay)) {
			t.Errorf("it does not wait: %+v, %v", s, err)
		}
	}
	if s, err := build(); err != nil || s.Failed != "manifest unknown" {
		t.Errorf("in the end: %+v, %v", s, err)
	}
}
