//go:build docker

package docker_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/org/ralph-action/internal/sandbox/docker"
)

// Images that were built go when nobody has asked for them: none of a container, of a run,
// of another installation, or of a person.
func TestExpire(t *testing.T) {
	t.Parallel()
	box, err := docker.New(docker.Options{DataDir: t.TempDir(), Installation: strings.ToLower(rand.Text())})
	if err != nil {
		t.Fatal(err)
	}
	other, err := docker.New(docker.Options{DataDir: t.TempDir(), Installation: strings.ToLower(rand.Text())})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	made := func(box *docker.Sandbox, what string) string {
		name := "ralph-test/expire:" + what + strings.ToLower(rand.Text())
		if s := build(t, box, name, "FROM "+image()+"\nRUN echo "+name+" >/made\n", time.Minute); s.Failed != "" {
			t.Fatalf("%+v", s)
		}
		t.Cleanup(func() {
			// Most are gone.
			_, _ = engine.ImageRemove(ctx, name, client.ImageRemoveOptions{Force: true, PruneChildren: true})
		})
		return name
	}
	there := func(name string) bool {
		_, err := engine.ImageInspect(ctx, name)
		return err == nil
	}
	unused, kept, used, theirs := made(box, "unused"), made(box, "kept"), made(box, "used"), made(other, "theirs")
	own := unused + "-own"
	if _, err := engine.ImageTag(ctx, client.ImageTagOptions{Source: unused, Target: own}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = engine.ImageRemove(ctx, own, client.ImageRemoveOptions{Force: true}) })
	c, err := engine.ContainerCreate(ctx, client.ContainerCreateOptions{Config: &container.Config{Image: used, Cmd: []string{"true"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	keep := func(name string) bool { return name == kept }
	late := time.Now().Add(time.Hour)
	for _, tt := range []struct {
		before time.Time
		want   int
		left   bool
	}{{time.Now().Add(-time.Hour), 0, true}, {late, 1, false}, {late, 0, false}} {
		n, bytes, err := box.Expire(ctx, tt.before, keep)
		if err != nil || n != tt.want || (bytes > 0) != (n > 0) || there(unused) != tt.left {
			t.Errorf("%+v: %d with %d bytes, %v; it is there: %v", tt, n, bytes, err, there(unused))
		}
	}
	for _, name := range []string{kept, used, theirs, own} {
		if !there(name) {
			t.Errorf("%s is gone", name)
		}
	}
}
