package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// The beginnings of the environment variables that hold a target's address and
// the secret that its messages are signed with; the target's name in capitals
// follows, and _FILE where the variable names a file.
const (
	EnvNotifyURL    = "RALPH_NOTIFY_URL_"
	EnvNotifySecret = "RALPH_NOTIFY_SECRET_"
)

// Notify says who is told of runs elsewhere than on GitHub.
type Notify struct {
	// Every is after how many iterations progress is told.
	Every   int
	Targets []NotifyTarget
}

// NotifyTarget is somewhere to send messages to.
type NotifyTarget struct {
	Name string
	// URL says where, Secret signs what is sent there; Script is the absolute path
	// of a program in their place.
	URL, Secret Secret
	Script      string
	// Notices are what it is told of; none means everything.
	Notices []run.Notice
	// Repositories are those whose runs it is told of, as owner/name or owner/*;
	// none means all.
	Repositories []string
}

// Serves says whether the target is told of runs in a repository, by its full
// name.
func (t NotifyTarget) Serves(repository string) bool {
	owner, name, _ := strings.Cut(repository, "/")
	return matchesRepository(t.Repositories, owner, name)
}

type notifyFile struct {
	Every   whole              `yaml:"every"`
	Targets []notifyTargetFile `yaml:"targets"`
}

type notifyTargetFile struct {
	Name         string   `yaml:"name"`
	URLFile      string   `yaml:"url_file"`
	SecretFile   string   `yaml:"secret_file"`
	Script       string   `yaml:"script"`
	Events       []string `yaml:"events"`
	Repositories []string `yaml:"repositories"`
}

const (
	defaultNotifyEvery = 5
	maxNotifyEvery     = 1000
	maxNotifyTargets   = 50
)

// No two names give the same variable, nor one with another's suffix.
var targetPattern = strs.Lazy(`^[a-z][a-z0-9]{0,31}$`)

// notify reads all but the secrets. dir is what relative paths are relative to.
func notify(f notifyFile, dir string, report reporter) Notify {
	n := Notify{Every: int(f.Every)}
	if n.Every < 1 || n.Every > maxNotifyEvery {
		report("$.notify.every", "must be between 1 and %d", maxNotifyEvery)
	}
	if len(f.Targets) > maxNotifyTargets {
		report("$.notify.targets", "%d targets; at most %d are allowed", len(f.Targets), maxNotifyTargets)
	}
	for i, t := range f.Targets {
		at := func(key string) string { return fmt.Sprintf("$.notify.targets[%d].%s", i, key) }
		switch {
		case !targetPattern().MatchString(t.Name):
			report(at("name"), "%q is not a name of letters and digits, in lower case", clip(t.Name))
		case slices.ContainsFunc(n.Targets, func(o NotifyTarget) bool { return o.Name == t.Name }):
			report(at("name"), "two targets are named %s", t.Name)
		}
		if t.Script != "" && t.URLFile != "" {
			report(at("script"), "a target needs either an address or a program, not both")
		}
		for j, r := range t.Repositories {
			if !repositoryPattern().MatchString(r) {
				report(fmt.Sprintf("%s[%d]", at("repositories"), j), "%q is neither owner/name nor owner/*", clip(r))
			}
		}
		n.Targets = append(n.Targets, NotifyTarget{
			Name: t.Name, Script: within(dir, t.Script), Notices: notices(t.Events, at("events"), report),
			Repositories: t.Repositories,
		})
	}
	return n
}

// notices reads a list of events; nil stays nil.
func notices(list []string, path string, report reporter) []run.Notice {
	if list == nil {
		return nil
	}
	out := []run.Notice{}
	for i, name := range list {
		if !slices.Contains(run.Notices(), run.Notice(name)) {
			report(fmt.Sprintf("%s[%d]", path, i), "%q is not one of start, progress, finish and needs_human", clip(name))
		}
		out = append(out, run.Notice(name))
	}
	return out
}

// check looks at what came of the secrets.
func (n Notify) check(report reporter) {
	for i, t := range n.Targets {
		path := fmt.Sprintf("$.notify.targets[%d]", i)
		name := strings.ToUpper(t.Name)
		switch {
		case t.URL.Empty() && t.Script == "":
			report(path, "the target %s has neither an address nor a program; set %s%s, or set url_file", clip(t.Name),
				EnvNotifyURL, clip(name))
		case !t.URL.Empty() && t.Script != "":
			report(path, "the target %s has an address, by %s%s, and a program; remove one of them", clip(t.Name), EnvNotifyURL,
				clip(name))
		}
	}
}
