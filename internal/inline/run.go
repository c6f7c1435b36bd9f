package inline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/history"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/spend"
	"github.com/org/ralph-action/internal/transcript"
)

// Options are what a person asks `bot run` for.
type Options struct {
	// PlanFile is the plan as the person named it.
	PlanFile string
	// Dir is a directory of the repository to work on.
	Dir  string
	Mode run.Mode
	// Ask says whether a vague plan ends the run with questions; "" leaves it to
	// the repository.
	Ask plan.Ask
	// DataDir is where runs keep their work trees and state.
	DataDir string
	Git     *gitrepo.Git
	Sandbox sandbox.Sandbox
	Backend agent.Backend
	Image   string
	// Devcontainer says whether the image may be that of the checkout's
	// devcontainer.json; Image is then for checkouts without one.
	Devcontainer config.Devcontainer
	// Resources bound each start; zero fields are the sandbox's defaults.
	Resources host.Resources
	// CacheBytes bounds what set-up commands made, of all repositories
	// together; 0 means no bound.
	CacheBytes int64
	Model      string
	Limits     run.Limits
	// Branches names the branch that is made where the default one is checked out.
	Branches   run.BranchTemplate
	Once       bool
	NoCommit   bool
	AllowDirty bool
	Gates      []gate.Gate
	NoDetect   bool
	// Restart gives up a run of the plan that was cut off, and begins anew.
	Restart bool
	// Gateway opens the model proxy over a ledger, and gives how to close it; nil
	// means that the agent uses the credentials its back end declares.
	Gateway func(spend.Ledger) (*host.Gateway, func(), error)
	// Transcripts keeps what agents were told and said; nil keeps nothing.
	Transcripts *transcript.Store
	// Mask holds the secrets of this process: they are masked in commit messages,
	// and work that holds one is refused.
	Mask *redact.Masker
	// Prices are what models cost where the agent does not tell.
	Prices run.Prices
	// Review has all of the work read once more at the end.
	Review bool
	Now    func() time.Time
	Emit   func(run.Event)
	// OnSave is called before and after each state is stored, saved telling
	// which; nil means it is not. Tests end the process there.
	OnSave func(saved bool)
}

// historyFile is where the lessons of a checkout's runs are kept.
const historyFile = ".ralph/history.jsonl"

// Lessons gives what the runs in the checkout around dir have learned, the
// oldest first.
func Lessons(ctx context.Context, git *gitrepo.Git, dir string) ([]history.Lesson, error) {
	repo, err := git.OpenLocal(ctx, dir)
	if err != nil {
		return nil, err
	}
	top, err := os.OpenRoot(repo.Top())
	if err != nil {
		return nil, fmt.Errorf("open the checkout: %w", err)
	}
	defer func() { _ = top.Close() }()
	return history.NewFile(top, historyFile).All()
}

// maxPlan bounds a plan file.
const maxPlan = 1 << 20

// Run works the plan until the run ends, and returns how it stands then. A
// cancelled ctx cancels the run in order. Errors a person can mend are
// *run.UserError.
func Run(ctx context.Context, o Options) (loop.State, error) {
	repo, err := o.Git.OpenLocal(ctx, o.Dir)
	if err != nil {
		return loop.State{}, err
	}
	if tell := o.Emit; tell != nil {
		o.Emit = func(ev run.Event) {
			ev.Repo = repo.Top()
			tell(ev)
		}
	}
	p, err := readPlan(o.PlanFile)
	if err != nil {
		return loop.State{}, err
	}
	name, email, err := repo.Identity(ctx)
	if err != nil {
		return loop.State{}, err
	}
	slug := plan.Slug(strings.TrimSuffix(filepath.Base(o.PlanFile), filepath.Ext(o.PlanFile)))
	subject := subjectKey(repo.Top(), o.Dir, o.PlanFile)
	dir := filepath.Join(o.DataDir, "local", key(repo.Top(), subject)+"-"+slug)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return loop.State{}, fmt.Errorf("make %s: %w", dir, err)
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return loop.State{}, err
	}
	defer unlock()

	file, s, resumed, err := load(dir, p)
	if err != nil {
		return loop.State{}, err
	}
	defer file.close()
	place := &checkout{repo: repo, branches: o.Branches, author: gitrepo.Person{Name: name, Email: email}, now: o.Now, agent: o.Backend.Name(), emit: o.Emit, mask: o.Mask}
	if resumed && !o.Restart {
		if err := o.resume(&s); err != nil {
			return s, err
		}
		place.say("going on with the run that was cut off")
	} else {
		if !o.AllowDirty {
			if err := refuseDirty(ctx, repo); err != nil {
				return loop.State{}, err
			}
		}
		s = loop.NewState(loop.Request{
			Run:     host.NewID(o.Now()),
			Subject: loop.Subject{Key: subject, Slug: slug, Name: p.Title, PlanFile: o.PlanFile},
			Plan:    p, Mode: o.Mode, Ask: o.Ask, Once: o.Once, NoCommit: o.NoCommit, KeepProgress: true, Attended: true, Review: &o.Review,
			Limits: o.Limits, Gates: o.Gates, NoDetect: o.NoDetect, Image: o.image(), Agent: o.Backend.Name(), Model: o.Model,
		}, o.Now())
	}
	if err := removeOthers(dir, string(s.Run)); err != nil {
		return s, err
	}
	runDir := filepath.Join(dir, string(s.Run))
	models, closeModels, err := o.models(runDir)
	if err != nil {
		return s, err
	}
	defer closeModels()
	h := host.New(host.Config{
		Dir: runDir, Pool: filepath.Join(o.DataDir, "trees", key(repo.Top(), "")), Source: place, Sandbox: o.Sandbox, Backend: o.Backend, Image: o.Image, Devcontainer: o.Devcontainer,
		Caches:       host.Caches{Dir: filepath.Join(o.DataDir, host.CachesDir), Repo: key(repo.Top(), ""), MaxBytes: o.CacheBytes},
		OnOwnerDeath: sandbox.KillWithOwner, Resources: o.Resources, Gateway: models, Prices: o.Prices, Emit: o.Emit,
		Transcripts: o.Transcripts, Mask: o.Mask,
		Limits: func(asked run.Limits) run.Limits {
			return o.Limits.WithDefaults(asked).WithDefaults(run.DefaultLimits())
		},
	})
	defer h.Close()
	top, err := os.OpenRoot(repo.Top())
	if err != nil {
		return s, fmt.Errorf("open the checkout: %w", err)
	}
	defer func() { _ = top.Close() }()
	driver := loop.Driver{
		Engine: &loop.Engine{Workspace: h, Runner: h, Publisher: place, Memory: history.NewFile(top, historyFile), Now: o.Now, Emit: h.Witness(o.Emit)},
		Save: func(_ context.Context, s loop.State) error {
			if o.OnSave != nil {
				o.OnSave(false)
				defer o.OnSave(true)
			}
			b, err := loop.Encode(s)
			if err != nil {
				return err
			}
			return file.save(b)
		},
		Await: h.Await,
		Sleep: sleep(o.Now),
	}
	s, err = driver.Run(ctx, s)
	if err != nil {
		return s, err
	}
	if err := h.Delete(); err != nil { // the run itself has ended, and is saved
		place.say("the run's directory could not be removed: %v", err)
	}
	return s, nil
}

// image is the one that is used whatever the checkout says, "" for none.
func (o Options) image() string {
	if o.Devcontainer != "" && o.Devcontainer != config.DevcontainerOff {
		return ""
	}
	return o.Image
}

// models opens the model proxy of the run in dir, which keeps the book of what
// the run costs.
func (o Options) models(dir string) (*host.Gateway, func(), error) {
	if o.Gateway == nil {
		return nil, func() {}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the run's directory: %w", err)
	}
	ledger, err := spend.OpenFile(filepath.Join(dir, "spend.jsonl"))
	if err != nil {
		return nil, nil, err
	}
	models, closeModels, err := o.Gateway(ledger)
	if err != nil {
		return nil, nil, errors.Join(err, ledger.Close())
	}
	return models, func() {
		closeModels()
		_ = ledger.Close() // all of it is written
	}, nil
}

// resume applies to a run that was cut off what may change on the way, and
// refuses what may not: a person who asks for something else should get it, or
// be told.
func (o Options) resume(s *loop.State) error {
	var other []string
	differs := func(what string, yes bool) {
		if yes {
			other = append(other, what)
		}
	}
	differs("mode", o.Mode != s.Mode)
	differs("--no-commit", o.NoCommit && !s.NoCommit)
	differs("--no-gates", o.NoDetect != s.NoDetect)
	differs("--agent", o.Backend.Name() != s.Agent)
	differs("--image", o.image() != "" && o.image() != s.Image)
	asked := make([]gate.Gate, len(o.Gates))
	for i, g := range o.Gates {
		asked[i] = g.WithDefaults()
	}
	differs("--gate", len(asked) > 0 && !slices.Equal(asked, s.Gates))
	if len(other) > 0 {
		return &run.UserError{
			Message: "a run of this plan was cut off, and it was begun with another " + strings.Join(other, ", "),
			Hint:    "go on with the options it had, or give it up with --restart",
		}
	}
	s.Limits, s.Once, s.Ask = o.Limits.WithDefaults(s.Limits), o.Once, o.Ask
	if o.Model != "" {
		s.Model = o.Model
	}
	return nil
}

// subjectKey tells plans of a repository apart: by where they are in it, or by
// their name where they are outside.
func subjectKey(top, dir, file string) string {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	rel, err := filepath.Rel(top, file)
	if err != nil || !filepath.IsLocal(rel) {
		rel = filepath.Base(file)
	}
	return "plan:" + filepath.ToSlash(rel)
}

// removeOthers takes away the directories of runs that were given up.
func removeOthers(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == keep {
			continue
		}
		if err := gitrepo.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove an old run: %w", err)
		}
	}
	return nil
}

func readPlan(name string) (plan.Plan, error) {
	src, err := readText(name)
	if errors.Is(err, fs.ErrNotExist) {
		return plan.Plan{}, &run.UserError{Message: fmt.Sprintf("there is no plan %s", name), Hint: "write what is to be done into a Markdown file and name it"}
	}
	if err != nil {
		return plan.Plan{}, err
	}
	var notes []byte
	if companion := plan.Companion(filepath.Base(name), src); companion != "" {
		notes, err = readText(filepath.Join(filepath.Dir(name), companion))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return plan.Plan{}, err
		}
	}
	p, err := plan.FromFile(filepath.Base(name), src, notes)
	if errors.Is(err, plan.ErrEmpty) {
		return plan.Plan{}, &run.UserError{Message: name + " is empty", Hint: "describe what is to be done, or list tasks as `- [ ] …`", Err: err}
	}
	return p, err
}

// readText reads a plan file, or what lies beside one.
func readText(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxPlan {
		return nil, &run.UserError{Message: name + " is not a file of at most 1 MiB", Hint: "name a Markdown file"}
	}
	src, err := os.ReadFile(name) //nolint:gosec // G304: the file a person named on the command line
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	return src, nil
}

func refuseDirty(ctx context.Context, repo *gitrepo.Repo) error {
	dirty, err := repo.Dirty(ctx)
	if err != nil {
		return err
	}
	if len(dirty) == 0 {
		return nil
	}
	shown := dirty[:min(len(dirty), 5)]
	more := ""
	if len(dirty) > len(shown) {
		more = fmt.Sprintf(" and %d more", len(dirty)-len(shown))
	}
	return &run.UserError{
		Message: "tracked files have changes that are not committed: " + strings.Join(shown, ", ") + more,
		Hint:    "commit or stash them, or use --allow-dirty to leave them out of the run",
	}
}

// key tells apart repositories, by where they are, and what is worked in them.
func key(toplevel, subject string) string {
	sum := sha256.Sum256([]byte(toplevel + "\x00" + subject))
	return hex.EncodeToString(sum[:6])
}

// load finds a run of the same plan that was cut off; one that ended is over.
func load(dir string, p plan.Plan) (file *stateFile, s loop.State, resumed bool, err error) {
	file, b, err := openState(dir)
	if err == nil && b != nil {
		if s, err = loop.Decode(b); err != nil {
			file.close()
		}
	}
	if errors.Is(err, errBrokenState) || err != nil && file != nil {
		return nil, loop.State{}, false, &run.UserError{
			Message: "the state of the last run cannot be read: " + err.Error(),
			Hint:    "remove " + dir + " to begin anew", Err: err,
		}
	}
	if err != nil {
		return nil, loop.State{}, false, err
	}
	if b == nil || s.Phase.Terminal() || s.Plan.SHA256 != p.SHA256 {
		return file, loop.State{}, false, nil
	}
	return file, s, true, nil
}

// lock keeps a second run of the same plan out until unlock.
func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // G304: a file of our own data directory
	if err != nil {
		return nil, fmt.Errorf("lock the run: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &run.UserError{Message: "this plan is being worked by another process", Hint: "wait for it, or stop it"}
		}
		return nil, fmt.Errorf("lock the run: %w", err)
	}
	return func() { _ = f.Close() }, nil
}

func sleep(now func() time.Time) func(context.Context, time.Time) error {
	return func(ctx context.Context, until time.Time) error {
		timer := time.NewTimer(until.Sub(now()))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
