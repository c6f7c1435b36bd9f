package config

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

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
	Model string
	// Image is the sandbox image its agents and gates run in.
	Image string
	// Limits can only tighten the server's: see Tighten.
	Limits run.Limits
	// Gates replace the server's and the detected ones, where there are any.
	Gates []Gate
	// Setup are commands that prepare what its runs need.
	Setup Setup
	// Quality is what is asked of the work beyond its gates.
	Quality  gate.Quality
	Progress Progress
	Plan     Plan
	// Roles are the models and limits of single roles.
	Roles map[run.Role]Role
	// Review is nil where the file does not say whether all of the work is read
	// once more at the end.
	Review *bool
	// AgentHistory is how many commits deep agents see the branch's history; nil
	// where the file does not say.
	AgentHistory *int
	// Protected are patterns of paths that only a person may change, besides those that
	// always are; see publish.Protects.
	Protected []string
	// Egress are the hosts that may be reached, of those that the server allows;
	// nil means all of those.
	Egress egress.List
	// Base is the branch to work from and to open pull requests against; ""
	// is the default branch.
	Base string
}

// Setup are commands that are run once on the default branch, and again when
// what the project depends on changes, to fill the caches of the repository's
// runs.
type Setup struct {
	Run []string
	// Inputs are files beside the known lock files that Run depends on.
	Inputs  []string
	Timeout time.Duration
}

// Progress says what becomes of progress.md.
type Progress struct {
	// Keep leaves the file on the branch when a run completes; otherwise a
	// closing commit removes it.
	Keep bool
}

// Plan says what becomes of an issue before it is worked.
type Plan struct {
	// Ask is "auto" (the planner may ask on the issue what it cannot assume),
	// "never", or "" for the default.
	Ask string
	// Approval is "required" (a person approves the plan before it is worked),
	// "none", or "" for the default.
	Approval string
}

// The values of plan.approval.
const (
	ApprovalRequired = "required"
	approvalNone     = "none"
)

type repoFile struct {
	Model    string      `yaml:"model"`
	Image    string      `yaml:"image"`
	Limits   limitsFile  `yaml:"limits"`
	Gates    []gateFile  `yaml:"gates"`
	Setup    setupFile   `yaml:"setup"`
	Quality  qualityFile `yaml:"quality"`
	Loop     loopFile    `yaml:"loop"`
	Roles    []roleFile  `yaml:"roles"`
	Review   *bool       `yaml:"review"`
	Progress struct {
		Keep bool `yaml:"keep"`
	} `yaml:"progress"`
	Agent struct {
		History *whole `yaml:"history"`
	} `yaml:"agent"`
	Egress struct {
		Allow *[]string `yaml:"allow"`
	} `yaml:"egress"`
	Plan struct {
		Ask      string `yaml:"ask"`
		Approval string `yaml:"approval"`
	} `yaml:"plan"`
	Protected struct {
		Paths []string `yaml:"paths"`
	} `yaml:"protected"`
	Base string `yaml:"base"`
}

// maxAgentHistory bounds what is copied for each agent.
const maxAgentHistory = 1000

// maxProtected bounds the patterns of protected paths.
const maxProtected = 100

var (
	// The first character keeps a value that becomes an argument from being
	// read as a flag.
	headerPattern = strs.Lazy(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)
	imagePattern  = strs.Lazy(`^[a-z0-9][A-Za-z0-9._:/@-]{0,254}$`)
)

// ParseRepo reads the contents of a repository's RepoPath. Where there are
// problems the Repo is the zero value: a file that is half right is not
// half used.
func ParseRepo(source []byte) (Repo, []Problem) {
	var f repoFile
	doc, problems := decode(source, &f)
	if len(problems) > 0 {
		return Repo{}, problems
	}
	report := func(path, format string, args ...any) {
		problems = append(problems, doc.problem(path, fmt.Sprintf(format, args...)))
	}
	if f.Model != "" && !run.IsModelName(f.Model) {
		report("$.model", "%q does not look like the name of a model", clip(f.Model))
	}
	if f.Image != "" && !IsImage(f.Image) {
		report("$.image", "%q does not look like the reference of an image", clip(f.Image))
	}
	if f.Base != "" && !branchName(f.Base) {
		report("$.base", "%q is not the name of a branch", clip(f.Base))
	}
	if f.Plan.Ask != "" && f.Plan.Ask != "auto" && f.Plan.Ask != "never" {
		report("$.plan.ask", "%q is neither auto nor never", clip(f.Plan.Ask))
	}
	if f.Plan.Approval != "" && f.Plan.Approval != ApprovalRequired && f.Plan.Approval != approvalNone {
		report("$.plan.approval", "%q is neither %s nor %s", clip(f.Plan.Approval), ApprovalRequired, approvalNone)
	}
	if len(f.Protected.Paths) > maxProtected {
		report("$.protected.paths", "%d patterns; at most %d are allowed", len(f.Protected.Paths), maxProtected)
	}
	for i, p := range f.Protected.Paths {
		if _, err := path.Match(p, ""); err != nil || p == "" || strings.HasPrefix(p, "/") || len(p) > 255 {
			report(fmt.Sprintf("$.protected.paths[%d]", i), "%q is not a pattern of paths within the repository", clip(p))
		}
	}
	r := Repo{
		Protected: f.Protected.Paths,

		Model:    f.Model,
		Image:    f.Image,
		Limits:   limits(f.Limits, report),
		Gates:    gates(f.Gates, report),
		Setup:    setup(f.Setup, report),
		Quality:  quality(f.Quality, report),
		Progress: Progress{Keep: f.Progress.Keep},
		Plan:     Plan{Ask: f.Plan.Ask, Approval: f.Plan.Approval},
		Base:     f.Base,
		Roles:    roles(f.Roles, report),
		Review:   f.Review,
	}
	if v := f.Agent.History; v != nil {
		if *v < 0 || *v > maxAgentHistory {
			report("$.agent.history", "must be between 0 and %d", maxAgentHistory)
		}
		r.AgentHistory = new(int(*v))
	}
	if f.Egress.Allow != nil {
		r.Egress = append(egress.List{}, hosts(*f.Egress.Allow, report)...)
	}
	loopLimits(f.Loop, &r.Limits, report)
	if len(problems) > 0 {
		slices.SortStableFunc(problems, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return Repo{}, problems
	}
	return r, nil
}

// maxHosts bounds a list of hosts; the name of each is compared for each
// connection.
const maxHosts = 200

// hosts checks a list of hosts that may be reached.
func hosts(list []string, report reporter) egress.List {
	if len(list) > maxHosts {
		report("$.egress.allow", "may hold at most %d entries", maxHosts)
	}
	for i, entry := range list {
		if err := egress.Check(entry); err != nil {
			report(fmt.Sprintf("$.egress.allow[%d]", i), "%s", clipTo(err.Error(), 200))
		}
	}
	return list
}

// branchName follows git-check-ref-format(1), and refuses a leading hyphen as
// git branch does.
func branchName(s string) bool {
	if len(s) > 244 || s == "@" || strings.HasPrefix(s, "-") || strings.HasSuffix(s, ".") ||
		strings.Contains(s, "..") || strings.Contains(s, "@{") {
		return false
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r == unicode.ReplacementChar || unicode.IsControl(r) || unicode.IsSpace(r) ||
			strings.ContainsRune(`~^:?*[\`, r)
	})
}

// IsImage says whether s looks like the reference of an image.
func IsImage(s string) bool { return imagePattern().MatchString(s) }
