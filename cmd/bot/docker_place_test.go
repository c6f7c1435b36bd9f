//go:build docker

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/org/ralph-action/internal/run"
)

// TestDockerBotInAContainer: the bot itself runs in a container, with the
// engine's socket and a directory that has another name on the machine. Its
// program is in its own image, where the engine cannot mount it from.
func TestDockerBotInAContainer(t *testing.T) {
	t.Parallel()
	dir := shortTempDir(t)
	newRepo(t, filepath.Join(dir, "repo"), map[string]string{"plan.md": "# Greet\n\n- [ ] Write one\n"})
	if err := os.WriteFile(filepath.Join(dir, "script.yaml"), []byte(`default: [{files: {one.txt: "1\n"}, say: done}]`),
		0o644); err != nil {
		t.Fatal(err)
	}
	exe := builtBot(t)
	e := newEngine(t, "/elsewhere", nil)
	socket := strings.TrimPrefix(e.api.DaemonHost(), "unix://")
	made, err := e.api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{
			Image: baseImage(), User: "0:0", WorkingDir: "/elsewhere/repo",
			Env: []string{"RALPH_DATA_DIR=/elsewhere/data", "HOME=/tmp", "DOCKER_HOST=unix:///engine.sock", "TMPDIR=/tmp"},
			Cmd: []string{"sh", "-c", `git config --global --add safe.directory '*' && cp /given /usr/bin/bot &&
				exec bot run plan.md --json --sandbox docker --image "$0" --agent script --script /elsewhere/script.yaml --gate 'test -s one.txt'`, baseImage()},
		},
		HostConfig: &container.HostConfig{NetworkMode: "none", Mounts: []mount.Mount{
			{Type: mount.TypeBind, Source: dir, Target: "/elsewhere"},
			{Type: mount.TypeBind, Source: exe, Target: "/given", ReadOnly: true},
			{Type: mount.TypeBind, Source: socket, Target: "/engine.sock"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := e.api.ContainerRemove(context.WithoutCancel(t.Context()), made.ID,
			client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	if _, err := e.api.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	wait := e.api.ContainerWait(ctx, made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	var code int64
	select {
	case end := <-wait.Result:
		code = end.StatusCode
	case err := <-wait.Error:
		t.Fatal(err)
	}
	logs, err := e.api.ContainerLogs(t.Context(), made.ID, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = logs.Close() }()
	var stdout, stderr bytes.Buffer
	if _, err := stdcopy.StdCopy(&stdout, &stderr, io.Reader(logs)); err != nil {
		t.Fatal(err)
	}
	var got result
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil || code != run.ExitComplete {
		t.Fatalf("exit code %d, %v\n%s\n%s", code, err, stdout.String(), stderr.String())
	}
	if got.Run.EndReason != run.EndAllTasksComplete || len(got.Commits) != 1 {
		t.Errorf("run %+v, commits %+v\n%s", got.Run, got.Commits, stderr.String())
	}
	copies, err := filepath.Glob(filepath.Join(dir, "data", "programs", "*-bot"))
	if err != nil || len(copies) != 1 {
		t.Errorf("copies of the program: %v, %v; want one", copies, err)
	}
	for _, c := range e.containers() {
		t.Errorf("container %v is left: %s", c.Names, c.Status)
	}
}
