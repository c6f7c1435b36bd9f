package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/run"
)

// devcontainerPaths are where a repository may keep devcontainer.json; the first that
// exists counts (https://containers.dev/implementors/spec/#devcontainerjson).
var devcontainerPaths = []string{".devcontainer/devcontainer.json", ".devcontainer.json"}

// maxDevcontainer bounds the file, in bytes.
const maxDevcontainer = 64 << 10

// environment is what the default branch's devcontainer.json makes of the sandboxes of a
// run: an image, "" for the server's own, and what people are told.
type environment struct {
	image    string
	findings []gate.Finding
}

// environment reads the default branch's devcontainer.json, where images may come from
// there. Only the name of an image is taken; mounts, privileges, users, hooks and
// environments are never followed, and images are not built.
func (h *Host) environment(ctx context.Context, at Location) (environment, error) {
	if !h.cfg.Devcontainer {
		return environment{}, nil
	}
	name, src, err := findDevcontainer(ctx, at.Repo, at.Default)
	if err != nil {
		return environment{}, err
	}
	var image string
	var unused []string
	if name != "" {
		if image, unused, err = parseDevcontainer(src); err != nil {
			return environment{}, invalidDevcontainer(name, err)
		}
	}
	own := h.cfg.Image
	switch {
	case name == "" && own == "":
		return environment{}, &run.UserError{
			Message: "no sandbox image: the default branch has no " + strings.Join(devcontainerPaths, " and no "),
			Hint:    "add one, or name another image",
		}
	case name == "":
		return environment{}, nil
	case image == "" && own == "":
		return environment{}, &run.UserError{
			Message: name + " names no image, and images are not built",
			Hint:    `build it, and name it there as "image", or name another image`,
		}
	case image == "":
		return environment{findings: []gate.Finding{h.note("%s names no image, and images are not built: %s was used", name, own)}}, nil
	}
	env := environment{image: image}
	if len(unused) > 0 {
		more := ""
		if n := len(unused) - maxTold; n > 0 {
			unused, more = unused[:maxTold], fmt.Sprintf(" and %d more", n)
		}
		env.findings = append(env.findings,
			h.note("of %s only the image is used, not: %.300s%s", name, strings.Join(unused, ", "), more))
	}
	return env, nil
}

// note makes a finding for the pull request, and shows it to who watches.
func (h *Host) note(format string, args ...any) gate.Finding {
	f := gate.Finding{Rule: "devcontainer", Text: fmt.Sprintf(format, args...)}
	if h.cfg.Emit != nil {
		h.cfg.Emit(run.Event{Kind: run.EventPersonNotified, Text: f.Text})
	}
	return f
}

// findDevcontainer reads the file; name is "" where there is none.
func findDevcontainer(ctx context.Context, repo *gitrepo.Repo, treeish gitrepo.OID) (name string, src []byte, _ error) {
	for _, name := range devcontainerPaths {
		src, err := repo.ReadFile(ctx, treeish, name, maxDevcontainer)
		switch {
		case errors.Is(err, gitrepo.ErrNotFound):
			continue
		case errors.Is(err, gitrepo.ErrTooLarge):
			return "", nil, invalidDevcontainer(name, fmt.Errorf("it holds more than %d KiB", maxDevcontainer>>10))
		case err != nil:
			return "", nil, fmt.Errorf("read %s: %w", name, err)
		}
		return name, src, nil
	}
	return "", nil, nil
}

func invalidDevcontainer(name string, err error) error {
	return &run.UserError{
		Message: fmt.Sprintf("%s is not valid: %s", name, err), Hint: "fix it on the default branch", Err: err,
	}
}

// editorKeys change nothing in the container as we use it: they are for editors, or
// belong to an image that somebody else builds.
var editorKeys = []string{
	"$schema", "name", "customizations", "forwardPorts", "portsAttributes", "otherPortsAttributes", "appPort",
	"shutdownAction", "workspaceFolder", "hostRequirements", "updateRemoteUserUID", "remoteUser", "containerUser",
	"userEnvProbe", "overrideCommand", "init", "waitFor", "extensions", "settings", "image",
}

// parseDevcontainer reads JSON with comments and trailing commas. image is "" where the
// file names none; unused are the keys that would make another container of it. The
// error says what a person has to fix.
func parseDevcontainer(src []byte) (image string, unused []string, _ error) {
	plain, err := hujson.Standardize(slices.Clone(src))
	if err != nil {
		return "", nil, fmt.Errorf("it is not JSON with comments: %w", err)
	}
	// A map, since encoding/json compares the names of fields without regard to case.
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(plain, &doc); err != nil {
		return "", nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	if value, ok := doc["image"]; ok {
		if err := json.Unmarshal(value, &image); err != nil {
			return "", nil, errors.New("image is not a text")
		}
		// This also refuses "${localEnv:NAME}", a variable of the machine that the bot runs on.
		if !config.IsImage(image) {
			return "", nil, fmt.Errorf("%.80q does not look like the reference of an image", image)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		if !slices.Contains(editorKeys, key) {
			unused = append(unused, key)
		}
	}
	return image, unused, nil
}
