package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// RepoPath is where a repository keeps its configuration. It is read from the
// default branch only, so that a pull request cannot change the rules it is
// worked under.
const RepoPath = ".github/ralph.yml"

// OwnerRepo is the repository of an owner whose configuration is for those of
// their others that have none; see OwnerPath.
const OwnerRepo = ".github"

// OwnerPath is where OwnerRepo keeps the configuration that others have at
// path: it is a folder of theirs already.
func OwnerPath(path string) string { return strings.TrimPrefix(path, OwnerRepo+"/") }

// Repo is what a repository says about runs in it. The zero value says
// nothing: every choice is then the server's.
type Repo struct {
	Model string `yaml:"model" is:"model"`
	// Image is the sandbox image its agents and gates run in.
	Image string `yaml:"image" is:"image"`
	// Limits can only tighten the server's: see Tighten.
	Limits run.Limits `yaml:"limits"`
	// Loop are other names of limits.
	Loop Loop `yaml:"loop"`
	// Gates replace the server's and the detected ones, where there are any.
	Gates []Gate `yaml:"gates"`
	// Setup are commands that prepare what its runs need.
	Setup Setup `yaml:"setup"`
	// Quality is what is asked of the work beyond its gates.
	Quality  Quality  `yaml:"quality"`
	Progress Progress `yaml:"progress"`
	Plan     Plan     `yaml:"plan"`
	// Roles are the models and limits of single roles.
	Roles []Role `yaml:"roles"`
	// Review is nil where the file does not say whether all of the work is read
	// once more at the end.
	Review *bool `yaml:"review"`
	// AgentHistory is how many commits deep agents see the branch's history; nil
	// where the file does not say.
	AgentHistory *int `yaml:"agent.history" is:"0..1000"`
	// Protected are patterns of paths that only a person may change, besides those that
	// always are; see publish.Protects.
	Protected []string `yaml:"protected.paths" is:"glob"`
	// Egress are the hosts that may be reached, of those that the server allows;
	// nil means all of those.
	Egress egress.List `yaml:"egress.allow" is:"host"`
	// Base is the branch to work from and to open pull requests against; ""
	// is the default branch.
	Base string `yaml:"base" is:"branch"`
}

// Loop keeps the spelling of the proposal its keys come from, as Quality does.
type Loop struct {
	MaxIterations      int     `yaml:"maxIterations" is:"1..10000"`
	MaxTaskAttempts    int     `yaml:"maxTaskAttempts" is:"1..100"`
	TaskTimeoutMinutes float64 `yaml:"taskTimeoutMinutes" is:"0.01..43200"`
	// Three times as many calls are within what is remembered of a run.
	StagnationThreshold int `yaml:"stagnationThreshold" is:"1..16"`
}

// Setup are commands that are run once on the default branch, and again when
// what the project depends on changes, to fill the caches of the repository's
// runs.
type Setup struct {
	Run []string `yaml:"run" is:"command"`
	// Inputs are files beside the known lock files that Run depends on.
	Inputs  []string      `yaml:"inputs" is:"path"`
	Timeout time.Duration `yaml:"timeout" is:"1s..6h"`
}

// DefaultSetupTimeout bounds the set-up commands together.
const DefaultSetupTimeout = 30 * time.Minute

// Progress says what becomes of progress.md.
type Progress struct {
	// Keep leaves the file on the branch when a run completes; otherwise a
	// closing commit removes it.
	Keep bool `yaml:"keep"`
}

// Plan says what becomes of an issue before it is worked.
type Plan struct {
	// Ask is "auto" (the planner may ask on the issue what it cannot assume),
	// "never", or "" for the default.
	Ask string `yaml:"ask" is:"auto|never"`
	// Approval is "required" (a person approves the plan before it is worked),
	// "none", or "" for the default.
	Approval string `yaml:"approval" is:"required|none"`
}

// ApprovalRequired: a person approves the plan.
const ApprovalRequired = "required"

// Role is the model and the limits of one role; zero fields leave the run's
// model and the agent's own limits.
type Role struct {
	Name      run.Role `yaml:"name" is:"planner|implementer|tester|debugger|reviewer|architect"`
	Model     string   `yaml:"model" is:"model"`
	MaxTurns  int      `yaml:"max_turns" is:"1..10000"`
	DenyTools []string `yaml:"deny_tools" is:"tool"`
}

// Quality is what is asked of work. What a file leaves out is strict where that costs
// honest work nothing, and off where it would.
type Quality struct {
	MinPassRate               float64  `yaml:"tests.minPassRate" is:"0.01..1"`
	RequireNewTestsForNewCode bool     `yaml:"tests.requireNewTestsForNewCode"`
	AllowChangedExpectations  bool     `yaml:"tests.allowChangedExpectations"`
	BlockOnCritical           *bool    `yaml:"security.blockOnCritical"`
	BlockOnHigh               *bool    `yaml:"security.blockOnHigh"`
	TreatWarningsAsErrors     bool     `yaml:"clippy.treatWarningsAsErrors"`
	AllowedLints              []string `yaml:"clippy.allowedLints" is:"lint"`
}

// Gates is the same in the terms of the loop.
func (q Quality) Gates() gate.Quality {
	return gate.Quality{
		MinPassRate: q.MinPassRate, RequireNewTests: q.RequireNewTestsForNewCode, AllowChangedTests: q.AllowChangedExpectations,
		AllowCritical: q.BlockOnCritical != nil && !*q.BlockOnCritical, AllowHigh: q.BlockOnHigh != nil && !*q.BlockOnHigh,
		ClippyStrict: q.TreatWarningsAsErrors, ClippyAllowed: strings.Join(q.AllowedLints, " "),
	}
}

const (
	maxGates    = 20
	maxGateName = 80
	maxGateRun  = 4096
)

// Gate is a check as a file asks for it: a command that must exit 0 for a task,
// or the run, to count as done.
type Gate struct {
	// Name is what people see; "" is the command itself.
	Name string `yaml:"name" is:"name"`
	// Run is given to a shell in the root of the work tree.
	Run  string    `yaml:"run" is:"command"`
	Kind gate.Kind `yaml:"kind" is:"test|lint|typecheck|build|secret|check"`
	// Blocking is false for gates that are only reported; the others hold a task back until
	// they pass.
	Blocking *bool         `yaml:"blocking"`
	When     gate.When     `yaml:"when" is:"task|final"`
	Timeout  time.Duration `yaml:"timeout" is:"1s..6h"`
}

// Gates are those of a file in the terms of the loop.
func Gates(gates []Gate) []gate.Gate {
	var out []gate.Gate
	for _, g := range gates {
		out = append(out, gate.Gate{
			Name: g.name(), Kind: g.Kind, Command: strings.TrimSpace(g.Run), When: g.When, Timeout: g.Timeout,
			Advisory: g.Blocking != nil && !*g.Blocking,
		}.WithDefaults())
	}
	return out
}

func (g Gate) name() string {
	if name := strings.TrimSpace(g.Name); name != "" {
		return name
	}
	return clipTo(strs.OneLine(g.Run), maxGateName)
}

// ParseRepo reads the contents of a repository's RepoPath. Where there are
// problems the Repo is the zero value: a file that is half right is not
// half used.
func ParseRepo(source []byte) (Repo, []Problem) {
	var r Repo
	problems := decode(source, "", &r, func(d *document) {
		if len(r.Setup.Run) == 0 && (len(r.Setup.Inputs) > 0 || r.Setup.Timeout != 0) {
			d.report("setup", "there is nothing to run; add run: [command]")
		}
		d.checkGates(r.Gates)
		distinct(d, "roles", "name", r.Roles, func(role Role) string { return string(role.Name) })
	})
	if len(problems) > 0 {
		return Repo{}, problems
	}
	r.Limits = r.Limits.WithDefaults(run.Limits{
		MaxIterations: r.Loop.MaxIterations, TaskAttempts: r.Loop.MaxTaskAttempts, Stagnation: r.Loop.StagnationThreshold,
		TaskTime: time.Duration(r.Loop.TaskTimeoutMinutes * float64(time.Minute)),
	})
	if len(r.Setup.Run) > 0 && r.Setup.Timeout == 0 {
		r.Setup.Timeout = DefaultSetupTimeout
	}
	return r, nil
}

func (d *document) checkGates(gates []Gate) {
	if len(gates) > maxGates {
		d.report("gates", "%d gates; at most %d are allowed", len(gates), maxGates)
	}
	for i, g := range gates {
		if g.Run == "" {
			d.report(fmt.Sprintf("gates[%d].run", i), "a gate needs a command, like: run: go test ./...")
			return
		}
	}
	distinct(d, "gates", "name", gates, Gate.name)
}

// distinct reports the entries of a list that lack a name (the value of key), or are
// called as one before them.
func distinct[T any](d *document, path, key string, list []T, name func(T) string) {
	seen := map[string]bool{}
	for i, entry := range list {
		at, n := fmt.Sprintf("%s[%d].%s", path, i, key), name(entry)
		switch {
		case n == "":
			d.report(at, "is missing")
		case seen[n]:
			d.report(at, "two entries are for %q; keep one of them", clip(n))
		}
		seen[n] = true
	}
}
