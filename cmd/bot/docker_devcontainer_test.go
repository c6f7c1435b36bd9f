//go:build docker

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// TestDockerDevcontainerImage: `bot run` without an image of its own takes the one that the
// checkout's devcontainer.json names, and follows nothing else of that file.
func TestDockerDevcontainerImage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		file string
		args []string
		code int
		says string
	}{
		"named": {
			fmt.Sprintf(`{"image": %q, "privileged": true, "runArgs": ["--network=host", "--user=root"],
				"mounts": ["source=/,target=/host,type=bind"]}`, baseImage()), nil, run.ExitComplete,
			"only the image is used, not: mounts, privileged, runArgs",
		},
		"built": {
			`{"build": {"dockerfile": "Dockerfile"}}`, nil, run.ExitUsage, "names no image, and images are not built",
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
			args := append([]string{"plan.md", "--sandbox", "docker", "--devcontainer", "--gate", confinement},
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
