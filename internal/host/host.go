package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// Location is where a run's work begins and where it stands.
type Location struct {
	// Repo holds the objects; it is the host's own, or the user's.
	Repo *gitrepo.Repo
	// Branch is the name of the branch the work goes to.
	Branch string
	// BaseBranch is the branch it is to be merged into, "" where that is not
	// asked.
	BaseBranch string
	// Base is the commit the branch started from, Head its tip; they are equal
	// where nothing was landed yet.
	Base, Head gitrepo.OID
	// Default is the commit that the repository's prompts and settings are read
	// from: the tip of the default branch, or the user's own HEAD.
	Default gitrepo.OID
	// Reviewed: Default is a branch that runs do not write to.
	Reviewed bool
	// Config is the configuration that holds for the run.
	Config ConfigFile
}

// Source finds the branch of a run. It is asked again whenever the work tree
// is laid out, and must then tell the branch's present tip.
type Source interface {
	// Repo gives the object store of a run that was located before, without
	// asking anybody.
	Repo(ctx context.Context) (*gitrepo.Repo, error)
	Locate(ctx context.Context, s loop.State) (Location, error)
}

// Config is what a host is made of.
type Config struct {
	// Dir is the run's own directory, made if missing; nobody else writes to it.
	Dir     string
	Source  Source
	Sandbox sandbox.Sandbox
	Backend agent.Backend
	// Image is the container image; local ignores it.
	Image string
	// Model is for runs where neither they nor the repository name one.
	Model string
	// OnOwnerDeath says what becomes of agents and checks when this process
	// dies.
	OnOwnerDeath sandbox.OwnerDeath
	// Caches keep what set-up commands made.
	Caches Caches
	// Resources bound each start; zero fields are the sandbox's defaults.
	Resources sandbox.Resources
	// Gateway is that of this run; nil means that there is no way out, and that the
	// agent uses the credentials its back end declares.
	Gateway *Gateway
	// Credentials are values for variables that the back end declares, where they are not
	// in this process's environment (they came from a file).
	Credentials map[string]string
	// Prices are what models cost where there is no gateway, and the agent tells
	// what it used and not what that cost.
	Prices run.Prices
	// Gates are for repositories that name none of their own.
	Gates []gate.Gate
	// Limits combines what the repository asks for with what the door allows.
	Limits func(asked run.Limits) run.Limits
	// Mask knows the secrets that must not be published; nil knows forms only.
	Mask *redact.Masker
	// Transcripts keeps what agents were told and said; nil keeps nothing.
	Transcripts *transcript.Store
	// Lacks says what this machine lacks for another start, in words for people, ""
	// for nothing. nil never lacks anything.
	Lacks func() string
	// MergedNotes gives what earlier, merged work noted ([progress.Doc.Notes]) besides the files
	// of the default branch, the newest first; nil gives nothing.
	MergedNotes func(ctx context.Context) ([]string, error)
	// Emit tells what the agent does while it works; nil tells nobody.
	Emit func(run.Event)
}

// Gateway is where the agent finds the model, and the way out.
type Gateway struct {
	// Dir is the host directory of the socket; "" where the gateway is on loopback, at
	// BaseURL, for agents that have the machine's network.
	Dir, BaseURL string
	// Watch knows what the providers refused.
	Watch *gateway.Watch
	// Unmetered: it passes requests on and counts nothing; the agent tells what it used.
	Unmetered bool
	// NoModels: there are none behind it, only the way out.
	NoModels bool
	// Egress are the hosts that sandboxes may reach; a repository narrows it. None
	// means that there is no way out. ProxyToken is what a start presents for it.
	Egress     egress.List
	ProxyToken func(start string) string
	// Token is what the agent of a start presents there.
	Token func(start string) string
	// Meter counts what starts use, and says what they may.
	Meter *spend.Meter
	// Scopes are what a start is charged to besides its run and its task; nil
	// means nothing.
	Scopes func() []spend.Scope
}

// Host is one run's work tree and processes.
type Host struct {
	cfg Config

	mu   sync.Mutex
	repo *gitrepo.Repo
	tree *gitrepo.Worktree
	// lives are the parsers of agents that are watched while they work.
	lives map[loop.Handle]*liveAgent
	// of is the host of the run, where this is that of a lane, which is a work tree beside that of
	// the run; lanes are those.
	of    *Host
	lanes map[int]*Host
}

var (
	_ loop.Work   = (*Host)(nil)
	_ loop.Runner = (*Host)(nil)
)

// New makes a host. It does no input or output yet.
func New(cfg Config) *Host {
	return &Host{cfg: cfg, lives: map[loop.Handle]*liveAgent{}}
}

// tell tells people, if anybody listens.
func (h *Host) tell(kind run.EventKind, text string) {
	if h.cfg.Emit != nil {
		h.cfg.Emit(run.Event{Kind: kind, Text: text})
	}
}

// TreeDir is where the agents of a run work whose own directory is dir.
func TreeDir(dir string) string { return filepath.Join(dir, "work", "tree") }

// The layout of a run's directory.
func (h *Host) treeDir() string       { return TreeDir(h.cfg.Dir) }
func (h *Host) indexFile() string     { return filepath.Join(h.cfg.Dir, "index") }
func (h *Host) checkDir() string      { return filepath.Join(h.cfg.Dir, "check") }
func (h *Host) checkIndex() string    { return filepath.Join(h.cfg.Dir, "check-index") }
func (h *Host) forkDir() string       { return filepath.Join(h.main().cfg.Dir, "run.git") }
func (h *Host) starts() string        { return filepath.Join(h.cfg.Dir, "starts") }
func (h *Host) lanesDir() string      { return filepath.Join(h.cfg.Dir, "lanes") }
func (h *Host) start(n string) string { return filepath.Join(h.starts(), n) }

// Open implements loop.Work.
func (h *Host) Open(ctx context.Context, s loop.State) (loop.Opened, error) {
	if err := h.room(); err != nil {
		return loop.Opened{}, err
	}
	if s.Outdated { // its directory is another one from here on
		if err := h.EndAll(ctx); err != nil {
			return loop.Opened{}, err
		}
	}
	at, err := h.cfg.Source.Locate(ctx, s)
	if err != nil {
		return loop.Opened{}, err
	}
	if err := os.MkdirAll(h.starts(), 0o700); err != nil {
		return loop.Opened{}, fmt.Errorf("make the run's directory: %w", err)
	}
	if at.Repo, err = at.Repo.Fork(h.forkDir()); err != nil {
		return loop.Opened{}, err
	}
	var trees openedTrees
	for to, commit := range map[*gitrepo.OID]gitrepo.OID{&trees.base: at.Base, &trees.head: at.Head, &trees.def: at.Default} {
		if *to, err = at.Repo.TreeOf(ctx, commit); err != nil {
			return loop.Opened{}, err
		}
	}
	var earlier []gitrepo.CommitInfo
	if at.Head != at.Base {
		if earlier, err = at.Repo.Log(ctx, at.Base, at.Head); err != nil {
			return loop.Opened{}, err
		}
	}
	templates, err := templates(ctx, at)
	if err != nil {
		return loop.Opened{}, err
	}
	settings, repo, err := h.settings(at)
	if err != nil {
		return loop.Opened{}, err
	}
	settings.MergedNotes = h.mergedNotes(ctx, at)
	if err := h.noteTree(ctx, at.Repo, trees, repo); err != nil {
		return loop.Opened{}, err
	}
	key, due, err := h.setup(ctx, at, trees.def, cmp.Or(s.Image, settings.Image), repo.Setup)
	if err != nil {
		return loop.Opened{}, err
	}
	findings, err := absent(ctx, at.Repo, trees.head)
	if err != nil {
		return loop.Opened{}, err
	}
	if b := h.cfg.Backend.About(); b.HoldsCredential {
		findings = append(findings, gate.Finding{
			Rule: "agent_credential",
			Text: b.Name + " uses its own key: only time and iterations limited its cost, no budget did",
		})
	}
	var last *progress.Doc
	if s.Outdated {
		if last, err = LastProgress(ctx, at.Repo, earlier, s.Subject); err != nil {
			return loop.Opened{}, err
		}
	}
	if !at.Reviewed { // runs write to that branch
		trees.def = ""
	}
	return loop.Opened{
		LastProgress: last, Findings: findings, Settings: settings, Templates: templates, Earlier: publish.Earlier(earlier),
		Branch: at.Branch, BaseBranch: at.BaseBranch, Base: string(at.Base), BaseTree: string(trees.base),
		DefaultTree: string(trees.def), Head: string(at.Head), HeadTree: string(trees.head),
		Setup: due, SetupKey: key,
	}, nil
}

// openedTrees are the trees of a location.
type openedTrees struct{ base, head, def gitrepo.OID }

// settings reads the repository's configuration. What is wrong with it is for a
// person to fix, with line and column.
func (h *Host) settings(at Location) (loop.Settings, config.Repo, error) {
	repo, err := at.Config.Parse()
	if err != nil {
		return loop.Settings{}, config.Repo{}, err
	}
	set := loop.Settings{
		Limits: h.cfg.Limits(repo.Limits), Image: repo.Image, Model: cmp.Or(repo.Model, h.cfg.Model),
		Ask: plan.Ask(repo.Plan.Ask), NeedsApproval: repo.Plan.Approval == config.ApprovalRequired,
		KeepProgress: repo.Progress.Keep, Quality: repo.Quality.Gates(), Egress: repo.Egress,
	}
	set.Review = loop.ReviewAlways
	if repo.Review != nil && !*repo.Review {
		set.Review = loop.ReviewNever
	}
	set.Protected = repo.Protected
	for _, role := range repo.Roles {
		if set.Roles == nil {
			set.Roles = map[run.Role]loop.RoleSettings{}
		}
		set.Roles[role.Name] = loop.RoleSettings{Model: role.Model, MaxTurns: role.MaxTurns, DenyTools: role.DenyTools}
	}
	if set.Gates = config.Gates(repo.Gates); len(set.Gates) == 0 {
		set.Gates = h.cfg.Gates
	}
	return set, repo, nil
}

// templates are the repository's own prompts.
func templates(ctx context.Context, at Location) (prompt.Templates, error) {
	var t prompt.Templates
	for _, template := range prompt.Names() {
		name := prompt.FileName(template)
		src, err := at.Repo.ReadFile(ctx, at.Default, name, prompt.MaxTemplate)
		if errors.Is(err, gitrepo.ErrNotFound) {
			continue
		}
		if errors.Is(err, gitrepo.ErrTooLarge) {
			return nil, &run.UserError{
				Message: fmt.Sprintf("%s is not valid: it holds more than %d KiB", name, prompt.MaxTemplate>>10),
				Hint:    "fix it on the default branch", Err: err,
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if t, err = t.Override(template, src); err != nil {
			return nil, &run.UserError{Message: err.Error(), Hint: "fix it on the default branch", Err: err}
		}
	}
	return t, nil
}

// Close forgets what is held in memory. Processes are not touched.
func (h *Host) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.lives)
	for _, lane := range h.lanes {
		lane.Close()
	}
}

// EndAll ends what the run has at work on this machine, also in its lanes, whether its state
// knows of it or not.
func (h *Host) EndAll(ctx context.Context) error {
	starts, err := namesIn(h.starts())
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range starts {
		errs = append(errs, h.Abandon(ctx, name))
	}
	lanes, err := namesIn(h.lanesDir())
	errs = append(errs, err)
	for _, name := range lanes {
		if n, err := strconv.Atoi(name); err == nil {
			errs = append(errs, h.lane(n).EndAll(ctx))
		}
	}
	return errors.Join(errs...)
}

// Vacate ends what the run has at work and takes away its work trees and what agents cached, where
// that may be what fills the disk. A run that goes on lays its trees out again.
func (h *Host) Vacate(ctx context.Context) error {
	empty := func() error {
		lanes, err := namesIn(h.lanesDir())
		errs := []error{err, fstree.RemoveAll(h.treeDir()), h.dropCaches(cacheAgent)}
		for _, name := range lanes {
			errs = append(errs, fstree.RemoveAll(TreeDir(filepath.Join(h.lanesDir(), name))))
		}
		return errors.Join(errs...)
	}
	_ = empty() // the end of a process needs some room; what it writes until then goes after it
	return errors.Join(h.EndAll(ctx), empty())
}

// namesIn are the names in one of the run's directories, none where it was never made.
func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for what the run has at work: %w", err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Delete removes everything the run left on disk, but for the caches that the default
// branch filled. Only for runs that have ended and whose processes were removed.
func (h *Host) Delete(ctx context.Context) error {
	return errors.Join(h.keepBase(ctx), fstree.RemoveAll(h.cfg.Dir))
}
