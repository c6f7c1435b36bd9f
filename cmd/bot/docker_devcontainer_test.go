//go:build docker

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// removeImages takes away what was built when the test ends.
func (e *engine) removeImages(names ...string) {
	e.t.Cleanup(func() {
		for _, name := range names {
			_, err := e.api.ImageRemove(context.WithoutCancel(e.t.Context()), name,
				client.ImageRemoveOptions{PruneChildren: true})
			if err != nil {
				e.t.Errorf("remove the image: %v", err)
			}
		}
	})
}

// TestDockerDevcontainerIsBuilt: agents and checks run in the image that the
// default branch's devcontainer.json says how to build, as confined as in any
// other, whatever else that file asks for and an agent makes of it. The
// next run finds the image.
func TestDockerDevcontainerIsBuilt(t *testing.T) {
	t.Parallel()
	word := rand.Text() // no other test's image
	st := newDockerStage(t, setting{
		files: map[string]string{
			"README.md": "# widgets\n",
			".devcontainer/devcontainer.json": `{
	// What our checks need.
	"build": {"dockerfile": "Dockerfile", "context": "..", "args": {"WORD": "` + word + `"}, "target": "tools",},
	"privileged": true,
	"runArgs": ["--network=host", "--user=root"],
	"mounts": ["source=/,target=/host,type=bind"],
	"remoteUser": "root",
}`,
			".devcontainer/Dockerfile": "FROM " + baseImage() +
				" AS tools\nARG WORD\nCOPY . /seen\nRUN test $(id -u) = 0 && echo $WORD >/made\nFROM tools\nRUN exit 1\n",
			".dockerignore": "README.md\n",
		},
		script: `tasks:
  one: [{files: {one.txt: "1\n", .devcontainer/Dockerfile: "FROM evil.example/evil\n", .devcontainer/devcontainer.json: "{\"image\": \"evil\"}"}, say: done}]
default: [{files: {two.txt: "2\n"}, say: done}]
`,
		change: func(c *config.Server) { c.Sandbox.Devcontainer = config.DevcontainerBuild },
		gates: []config.Gate{
			{Name: "confined", Run: confinement, When: "task", Timeout: time.Minute},
			{
				Name: "made",
				Run:  "grep -qx " + word + " /made && test -e /seen/.devcontainer/Dockerfile && ! test -e /seen/README.md && ! test -e /host",
				When: "task", Timeout: time.Minute,
			},
		},
	})
	exe := builtBot(t)
	e := newEngine(t, st.dir, nil)
	p := st.serveProgram(exe)
	db := st.openStore()
	state := st.ended(db, st.label("Say hello", "- [ ] Write one\n- [ ] Write two\n"))
	if state.Build == nil {
		t.Fatalf("nothing was built; ended %s: %s", state.End, state.EndDetail)
	}
	e.removeImages(state.Image)
	if state.End != run.EndAllTasksComplete || !strings.HasPrefix(state.Image, "ralph-devcontainer:") {
		t.Fatalf("ended %s in %s: %s\n%+v", state.End, state.Image, state.EndDetail, state.History)
	}
	if body := st.onlyPR().Body; !strings.Contains(body,
		"of .devcontainer/devcontainer.json only the image is used, not: mounts, privileged, runArgs") {
		t.Errorf("the description does not say what was not used:\n%s", body)
	}

	next := st.ended(db, st.label("Say it again", "- [ ] Write two\n"))
	if next.End != run.EndAllTasksComplete || next.Image != state.Image {
		t.Errorf("the next run ended %s in %s, want %s: %s", next.End, next.Image, state.Image, next.EndDetail)
	}
	p.stop(t)
	e.nothingLeft(exe)
}

// TestDockerDevcontainerCannotBeBuilt: the run ends before anything is started,
// with what the build said.
func TestDockerDevcontainerCannotBeBuilt(t *testing.T) {
	t.Parallel()
	st := newDockerStage(t, setting{
		files: map[string]string{
			".devcontainer/devcontainer.json": `{"build": {"dockerfile": "Dockerfile"}}`,
			".devcontainer/Dockerfile":        "FROM " + baseImage() + "\nRUN echo no such tool; exit 7\n",
		},
		script: `default: [{files: {one.txt: "1\n"}, say: done}]`,
		change: func(c *config.Server) { c.Sandbox.Devcontainer = config.DevcontainerBuild },
	})
	exe := builtBot(t)
	e := newEngine(t, st.dir, nil)
	p := st.serveProgram(exe)
	state := st.ended(st.openStore(), st.label("Say hello", "- [ ] Write one\n"))
	if state.End != run.EndFailed || !strings.Contains(state.EndDetail, "returned a non-zero code: 7") ||
		!strings.Contains(state.EndDetail, "no such tool") {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	p.stop(t)
	e.expect(st, 0)
	e.nothingLeft(exe)
}

// TestDockerDevcontainerImage: `bot run` without an image of its own takes that of
// the checkout, and builds none where that is not asked for.
func TestDockerDevcontainerImage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		file string
		args []string
		code int
		says string
	}{
		"named": {
			fmt.Sprintf(`{"image": %q, "features": {"x": {}}}`, baseImage()), nil, run.ExitComplete,
			"only the image is used, not: features",
		},
		"built": {
			`{"build": {"dockerfile": "Dockerfile"}}`, nil, run.ExitUsage, "needs an image build, which is not allowed here",
		},
		"built, with one": {
			`{"build": {"dockerfile": "Dockerfile"}}`, []string{"--image", baseImage()}, run.ExitComplete,
			baseImage() + " was used",
		},
		"not there":    {`{"image": "nowhere.example/none:1"}`, nil, run.ExitUsage, "docker pull nowhere.example/none:1"},
		"no reference": {`{"image": "--privileged"}`, nil, run.ExitUsage, "does not look like the reference of an image"},
		"broken": {
			`{"image": `, nil, run.ExitUsage, "devcontainer.json is not valid: it is not JSON with comments",
		},
		"none":             {"", nil, run.ExitUsage, "no sandbox image"},
		"none, with image": {"", []string{"--image", baseImage()}, run.ExitComplete, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"plan.md": onePlan}
			if tt.file != "" {
				files[".devcontainer/devcontainer.json"] = tt.file
			}
			dir := checkout(t, files)
			exe := builtBot(t) // its own, to see what is left of it
			e := newEngine(t, filepath.Dir(dir), nil)
			args := append([]string{"plan.md", "--sandbox", "docker", "--devcontainer", "image", "--gate", confinement},
				tt.args...)
			_, code, told := botSays(t, exe, dir, nil,
				append(args, scripted(t, dir, `default: [{files: {one.txt: "1\n"}, say: done}]`)...)...)
			if code != tt.code || !strings.Contains(told, tt.says) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, tt.code, tt.says, told)
			}
			e.nothingLeft(exe)
		})
	}
}
