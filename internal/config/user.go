package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/run"
)

// UserFile is where a person keeps what holds for each of their runs, below the
// directory of their configuration.
const UserFile = "ralph/config.yml"

// User is what a person wants of each `bot run` that does not say otherwise. The
// zero value says nothing. Its keys are those of the server's file.
type User struct {
	Agent Agent
	// Sandbox has Kind, Image, LocalIsolation and Show only.
	Sandbox Sandbox
	// Limits are zero where the file names none.
	Limits run.Limits
	// Egress are hosts that containers may reach.
	Egress egress.List
}

type userFile struct {
	Agent   agentFile `yaml:"agent"`
	Sandbox struct {
		Kind           string   `yaml:"kind"`
		Image          string   `yaml:"image"`
		LocalIsolation string   `yaml:"local_isolation"`
		Show           []string `yaml:"show"`
	} `yaml:"sandbox"`
	Limits limitsFile `yaml:"limits"`
	Egress struct {
		Allow []string `yaml:"allow"`
	} `yaml:"egress"`
}

// LoadUser reads the file at path. One that is not there says nothing, and found
// is false; what is wrong with one is a *run.UserError that names all of it.
func LoadUser(path string, readFile func(string) ([]byte, error)) (u User, found bool, err error) {
	source, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return User{}, false, nil
	}
	if err != nil {
		return User{}, false, &run.UserError{
			Message: "cannot read your configuration: " + err.Error(), Hint: "check the path and its permissions", Err: err,
		}
	}
	u, problems := parseUser(source, filepath.Dir(path))
	if len(problems) > 0 {
		return User{}, true, problemsError(path, problems)
	}
	return u, true, nil
}

// parseUser reads the file's content. dir is what relative paths are relative
// to.
func parseUser(source []byte, dir string) (User, []Problem) {
	var f userFile
	doc, problems := decode(source, &f)
	if len(problems) > 0 {
		return User{}, problems
	}
	report := func(path, format string, args ...any) {
		problems = append(problems, doc.problem(path, fmt.Sprintf(format, args...)))
	}
	u := User{
		Agent: f.Agent.agent(dir),
		Sandbox: Sandbox{
			Kind: f.Sandbox.Kind, Image: f.Sandbox.Image, LocalIsolation: f.Sandbox.LocalIsolation,
			Show: allWithin(dir, f.Sandbox.Show),
		},
		Limits: limits(f.Limits, report),
		Egress: f.Egress.Allow,
	}
	u.check(report)
	return u, problems
}

func (u User) check(report reporter) {
	oneOf := func(path, value string, words ...string) {
		if value != "" && !slices.Contains(words, value) {
			report(path, "%q is not one of %s", clip(value), strings.Join(words, ", "))
		}
	}
	oneOf("$.agent.name", u.Agent.Name, Agents()...)
	oneOf("$.sandbox.kind", u.Sandbox.Kind, SandboxLocal, SandboxDocker)
	oneOf("$.sandbox.local_isolation", u.Sandbox.LocalIsolation, isolations()...)
	if u.Agent.Model != "" && !run.IsModelName(u.Agent.Model) {
		report("$.agent.model", "%q does not look like the name of a model", clip(u.Agent.Model))
	}
	if u.Sandbox.Image != "" && !IsImage(u.Sandbox.Image) {
		report("$.sandbox.image", "%q does not look like the reference of an image", clip(u.Sandbox.Image))
	}
	hosts(u.Egress, report)
}
