package inline

import (
	"cmp"
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
	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/machine"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/store"
)

// Options are what a person asks `bot run` for.
type Options struct {
	// PlanFile is the plan as the person named it: a file, or what is to be done
	// in words.
	PlanFile string
	// Promise, where it is not "", makes the plan one prompt that is given to every call
	// until an agent promises this and the checks agree.
	Promise string
	// Dir is a directory of the repository to work on.
	Dir  string
	Mode run.Mode
	// Settings are those that the person asks for; what they leave out the repository says.
	Settings loop.Settings
	// DataDir is where runs keep their work trees and state.
	DataDir string
	Git     *gitrepo.Git
	Sandbox sandbox.Sandbox
	Backend agent.Backend
	// Resources bound each start; zero fields are the sandbox's defaults.
	Resources sandbox.Resources
	// CacheBytes bounds what set-up commands made, of all repositories
	// together; 0 means no bound.
	CacheBytes int64
	// Defaults hold where neither a person nor the repository says anything.
	Defaults Defaults
	// Branch is the one to work on in the place of the plan's, "" for none; Here is to stay on
	// the one that is checked out; Push says that it is pushed at the end.
	Branch     string
	Here, Push bool
	Once       bool
	NoCommit   bool
	AllowDirty bool
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
	Now    func() time.Time
	Emit   func(run.Event)
	// Helm is how a person who watches steers the run; nil means that nobody does.
	Helm *Helm
	// OnSave is called before and after each state is stored, saved telling
	// which; nil means it is not. Tests end the process there.
	OnSave func(saved bool)
}

// Defaults are what a person wants of their runs in general.
type Defaults struct {
	Image, Model string
	Limits       run.Limits
}

// maxPlan bounds a plan file.
const maxPlan = 1 << 20

// Run works the plan until the run ends, and returns how it stands then. A
// cancelled ctx cancels the run in order. Errors a person can fix are
// *run.UserError.
func Run(ctx context.Context, o Options) (s loop.State, err error) {
	repo, err := o.Git.OpenLocal(ctx, o.Dir)
	if err != nil {
		return loop.State{}, err
	}
	id := host.NewID(o.Now())
	if tell := o.Emit; tell != nil {
		o.Emit = func(ev run.Event) { tell(ev.Of(id, repo.Top(), o.Now())) }
	}
	j, err := o.job(repo.Top())
	if err != nil {
		return loop.State{}, err
	}
	name, email, err := repo.Identity(ctx)
	if err != nil {
		return loop.State{}, err
	}
	dir := o.stateDir(repo.Top(), j)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return loop.State{}, fmt.Errorf("make %s: %w", dir, err)
	}
	unlock, err := lock(filepath.Join(dir, "lock"), unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return loop.State{}, &run.UserError{Message: "another process is working on this plan", Hint: "wait for it, or stop it"}
	}
	if err != nil {
		return loop.State{}, err
	}
	defer unlock()

	st, err := openStore(ctx, o.DataDir)
	if err != nil {
		return loop.State{}, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	rec := o.record(st, repo.Top(), dir)
	place := o.checkout(repo, j)
	place.author = gitrepo.Person{Name: name, Email: email}
	if rec.chosen, err = o.turn(repo.Top(), place.say); err != nil {
		return loop.State{}, err
	}
	defer rec.chosen()
	if below := subdirectory(repo.Top(), o.Dir); below != "" {
		place.say("agents and checks start at the top of the repository, %s, not in %s", repo.Top(), below)
	}
	s, resumed, err := o.prepare(ctx, place, rec, &j, &id)
	if err != nil {
		return s, err
	}
	if resumed {
		rec.stored = true
		place.say("continuing the interrupted run")
	}
	if err := place.sayWhere(ctx, s, host.TreeDir(filepath.Join(dir, string(s.Run)))); err != nil {
		return s, err
	}
	if err := removeOthers(dir, string(s.Run)); err != nil {
		return s, err
	}
	models, closeModels, err := o.models(st)
	if err != nil {
		return s, err
	}
	defer closeModels()
	conf := o.hostConfig(place, filepath.Join(dir, string(s.Run)))
	conf.Gateway = models
	conf.MergedNotes = func(ctx context.Context) ([]string, error) { return place.mergedNotes(ctx, st, id) }
	h := host.New(conf)
	defer h.Close()
	place.objects = h.Repo
	driver := o.driver(h, place, rec)
	o.Helm.steered(&driver, name)
	if !resumed {
		retries(&driver, rec.last, name)
	}
	s, err = driver.Run(ctx, s)
	ctx = context.WithoutCancel(ctx) // the run itself has ended, and is saved
	if errors.Is(err, store.ErrFull) {
		return s, outOfRoom(o.DataDir, conf.Dir, h.Vacate(ctx), err)
	}
	if err != nil {
		return s, err
	}
	if err := h.Delete(ctx); err != nil {
		place.say("the run's directory could not be removed: %v", err)
	}
	if err := place.pruneRefused(ctx); err != nil {
		place.say("old refused work stays: %v", err)
	}
	return s, nil
}

// prepare gives the state of the run that was cut off, whose id it sets, or of a new one of that id, and finds
// out where it works. It stores nothing.
func (o Options) prepare(
	ctx context.Context, place *checkout, rec *record, j *job, id *run.ID,
) (s loop.State, resumed bool, err error) {
	if place.owners, err = readOwners(ctx, rec.store, rec.top); err != nil {
		return s, false, err
	}
	if s, resumed, err = rec.load(ctx, j); err != nil {
		return s, false, err
	}
	place.last = rec.last.Run
	if place.files, err = locate(ctx, place.repo, *j); err != nil {
		return s, false, err
	}
	if resumed {
		*id = s.Run
		err = o.resume(ctx, place, &s, rec.last)
		return s, true, err
	}
	s, err = o.begin(ctx, place, *j, *id, rec.last)
	return s, false, err
}

// outOfRoom is the end of a run whose state cannot be stored, as the disk is full. vacated is how
// taking away its work trees in dir went: an agent may have filled the disk, and no later run
// would start.
func outOfRoom(dataDir, dir string, vacated, err error) error {
	advice := "what agents wrote in " + host.TreeDir(dir) + " was removed"
	if vacated != nil {
		advice = "remove " + dir
	}
	return &run.UserError{
		Message: "the disk of " + dataDir + " is full, and the run broke off", Err: errors.Join(err, vacated),
		Hint: advice + "; see that there is room, and start the run again: it goes on, and finished tasks are commits",
	}
}

// driver drives the loop in this process, and waits in it.
func (o Options) driver(h *host.Host, place *checkout, rec *record) loop.Driver {
	return loop.Driver{
		Engine: &loop.Engine{
			Work: h, Runner: h, Beside: h.Lane, Publisher: place, KeepAttempt: place.keepAttempt(h),
			Now: o.Now, Emit: h.Witness(o.Emit),
		},
		Save: func(ctx context.Context, s loop.State) error {
			if o.OnSave != nil {
				o.OnSave(false)
				defer o.OnSave(true)
			}
			return rec.save(ctx, s)
		},
		Await: h.Await,
		Sleep: sleep(o.Now),
		Lacks: func(err error) string {
			if errors.Is(err, sandbox.ErrUnavailable) {
				return "the engine that runs containers does not answer; start it, or stop this run with Ctrl-C"
			}
			return machine.Trouble(err)
		},
	}
}

// subdirectory is the path of dir below the top of its checkout, "" for the top
// itself.
func subdirectory(top, dir string) string {
	rel, inside := below(top, filepath.Join(dir, "."))
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		rel, inside = below(top, real)
	}
	if !inside || rel == "." {
		return ""
	}
	return rel
}

// checkout is the repository as a run of the plan sees it.
func (o Options) checkout(repo *gitrepo.Repo, j job) *checkout {
	return &checkout{
		repo: repo, spec: j.spec, writes: j.writes, named: o.Branch, here: o.Here, pushes: o.Push, now: o.Now,
		agent: o.Backend.About().Name, emit: o.Emit, mask: o.Mask,
	}
}

// record is that of the plan whose runs are kept in dir.
func (o Options) record(st *store.Store, top, dir string) *record {
	return &record{store: st, top: top, dir: dir, restart: o.Restart, now: o.Now}
}

// stateDir is where the work of a plan's runs is kept.
func (o Options) stateDir(top string, j job) string {
	return filepath.Join(localDir(o.DataDir), key(top, j.subject.Key)+"-"+j.subject.Slug)
}

// hostConfig is the host of a run that works in dir.
func (o Options) hostConfig(place *checkout, dir string) host.Config {
	return host.Config{
		Dir: dir, Source: place, Sandbox: o.Sandbox, Backend: o.Backend,
		Image: cmp.Or(o.Settings.Image, o.Defaults.Image), Model: o.Defaults.Model,
		Caches: host.Caches{
			Dir: filepath.Join(o.DataDir, host.CachesDir), Repo: key(place.repo.Top(), ""), MaxBytes: o.CacheBytes,
		},
		OnOwnerDeath: sandbox.KillWithOwner, Resources: o.Resources, Prices: o.Prices, Emit: o.Emit,
		Transcripts: o.Transcripts, Mask: o.Mask, Lacks: func() string { return machine.Look(o.DataDir).Lacks() },
		Limits: func(asked run.Limits) run.Limits {
			return o.Settings.Limits.WithDefaults(asked).WithDefaults(o.Defaults.Limits).WithDefaults(run.DefaultLimits())
		},
	}
}

// begin is the state of a new run of that id. last is how the plan's last run ended.
func (o Options) begin(ctx context.Context, place *checkout, j job, id run.ID, last loop.State) (loop.State, error) {
	if err := place.sayConfig(ctx); err != nil {
		return loop.State{}, err
	}
	dirty, err := place.repo.Dirty(ctx)
	if err != nil {
		return loop.State{}, err
	}
	noCommit := o.NoCommit || j.plan.NoCommit
	if noCommit && len(dirty) > 0 && last.NoCommit && len(last.Commits) > 0 {
		_, head, err := place.repo.Head(ctx)
		if err != nil {
			return loop.State{}, err
		}
		if string(head) == last.Head {
			return loop.State{}, &run.UserError{
				Message: "the work of this plan's last run is not committed, and the next task builds on it",
				Hint:    "commit it (git commit -a), or put it away (git stash), and run the same command again",
			}
		}
	}
	if !o.AllowDirty {
		if err := refuseDirty(dirty); err != nil {
			return loop.State{}, err
		}
	}
	if !noCommit {
		if err := place.choose(ctx, j.subject, j.plan, last); err != nil {
			return loop.State{}, err
		}
		j.subject.Slug = place.place.slug
	}
	carried := ""
	if !o.Restart {
		var err error
		if carried, err = place.lastProgress(ctx, j); err != nil {
			return loop.State{}, err
		}
	}
	j.subject.HostFiles = place.files.paths()
	j.subject.TaskFile, j.subject.TaskNotes = place.files.plan.committed(), place.files.notes.committed()
	settings := o.Settings
	settings.KeepProgress = j.writes != ""
	return loop.NewState(loop.Request{
		Run: id, Subject: j.subject,
		Plan: j.plan, Mode: o.Mode, Once: o.Once, NoCommit: o.NoCommit, NoDetect: o.NoDetect,
		Attended: true, Agent: o.Backend.About().Name, Promise: o.Promise, Carried: carried,
		Settings: settings,
	}, o.Now()), nil
}

// models opens the model proxy, which keeps the book of what the run costs.
func (o Options) models(st *store.Store) (*host.Gateway, func(), error) {
	if o.Gateway == nil {
		return nil, func() {}, nil
	}
	return o.Gateway(st.Spend())
}

// resume applies to a run that was cut off what may change on the way, and
// refuses what may not: a person who asks for something else should get it, or
// be told.
func (o Options) resume(ctx context.Context, place *checkout, s *loop.State, last loop.State) error {
	here := true
	if o.Here && s.Branch != "" {
		var err error
		if here, err = place.repo.CheckedOut(s.Branch); err != nil {
			return err
		}
	}
	asked := make([]gate.Gate, len(o.Settings.Gates))
	for i, g := range o.Settings.Gates {
		asked[i] = g.WithDefaults()
	}
	var other []string
	differs := func(what string, yes bool) {
		if yes {
			other = append(other, what)
		}
	}
	differs("mode", o.Mode != s.Mode && (o.Mode != run.ModeBuild || s.Mode == run.ModePlan || !hasTasks(s)))
	differs("branch", !here)
	differs("--branch", o.Branch != "" && s.Branch != "" && o.Branch != s.Branch)
	differs("--no-commit", o.NoCommit && !s.NoCommit)
	differs("--no-gates", o.NoDetect != s.NoDetect)
	differs("--agent", o.Backend.About().Name != s.Agent)
	differs("--completion-promise", o.Promise != s.Promise)
	differs("--image", o.Settings.Image != "" && o.Settings.Image != s.Image)
	differs("--gate", len(asked) > 0 && !slices.Equal(asked, s.Gates))
	if len(other) > 0 {
		return &run.UserError{
			Message: "a run of this plan was interrupted, and it was started with another " + strings.Join(other, ", "),
			Hint:    "continue with its original options, or discard it with --restart",
		}
	}
	s.StopAfterCall, s.StopReason = "", "" // who starts it again wants it to go on
	s.Limits, s.Once, s.Ask = o.Settings.Limits.WithDefaults(s.Limits), o.Once, o.Settings.Ask
	s.Model = cmp.Or(o.Settings.Model, s.Model)
	if s.Branch == "" && !s.NoCommit {
		return place.choose(ctx, s.Subject, s.Plan, last)
	}
	if !committed(*s) {
		return nil
	}
	_, err := place.repo.Resolve(ctx, "refs/heads/"+s.Branch)
	return deleted(*s, err)
}

// hasTasks says whether the run has got as far as tasks; from there on, building
// is all that is left.
func hasTasks(s *loop.State) bool { return len(tasksOf(*s)) > 0 }

// tasksOf are the tasks of a run; none where there is no plan yet.
func tasksOf(s loop.State) []run.Task {
	doc, err := progress.Parse([]byte(s.Progress))
	if err != nil {
		return nil
	}
	return doc.Tasks()
}

// removeOthers takes away the directories of runs that were given up.
func removeOthers(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.Name() == keep || !e.IsDir() {
			continue
		}
		if err := fstree.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove an old run: %w", err)
		}
	}
	return nil
}

// readPlan reads a plan file, and what keeps its notes beside it or, as some
// systems have it, in the working directory dir. named is what the person called
// the file; companion is the path of what keeps its notes, "" where it has none.
func readPlan(file, named, dir string) (_ plan.Plan, companion string, _ error) {
	src, err := readText(file, named)
	if errors.Is(err, fs.ErrNotExist) {
		return plan.Plan{}, "", errNoPlan(named)
	}
	if err != nil {
		return plan.Plan{}, "", err
	}
	var notes []byte
	if name := plan.Companion(filepath.Base(file), src); name != "" {
		companion = filepath.Join(filepath.Dir(file), name)
		for _, at := range []string{filepath.Dir(file), dir} {
			notes, err = readText(filepath.Join(at, name), name)
			if err == nil {
				companion = filepath.Join(at, name)
			}
			if err == nil || !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
		if errors.Is(err, fs.ErrNotExist) && plan.KeepsTasks(name) {
			companion = "" // nobody has begun one, and the run does not
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return plan.Plan{}, "", err
		}
	}
	p, err := plan.FromFile(filepath.Base(file), src, notes)
	if errors.Is(err, plan.ErrEmpty) {
		return plan.Plan{}, "", &run.UserError{
			Message: named + " is empty", Hint: "describe what to do, or list tasks as `- [ ] …`", Err: err,
		}
	}
	return p, companion, err
}

// readText reads a plan file, or what lies beside one; named is what people call
// it.
func readText(name, named string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	switch {
	case info.IsDir():
		return nil, errFolder(name, named)
	case !info.Mode().IsRegular():
		return nil, &run.UserError{Message: named + " is not a regular file", Hint: "name a Markdown file"}
	case info.Size() > maxPlan:
		return nil, &run.UserError{
			Message: named + " is larger than 1 MiB", Hint: "split it into several plans, and run one after the other",
		}
	}
	src, err := os.ReadFile(name) //nolint:gosec // G304: the file a person named on the command line
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	return src, nil
}

// errFolder says what to name instead of a folder: the first file in it that can be a
// plan, if there is one.
func errFolder(dir, named string) error {
	file := filepath.Join(named, "PLAN.md")
	hint := "write what to do into a file, and name that: " + file
	for _, pattern := range []string{"*.md", "prd.json"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(found) > 0 {
			hint = "name a file in it: " + filepath.Join(named, filepath.Base(found[0]))
			break
		}
	}
	return &run.UserError{Message: named + " is a folder, not a plan", Hint: hint}
}

func refuseDirty(dirty []string) error {
	if len(dirty) == 0 {
		return nil
	}
	shown := dirty[:min(len(dirty), 5)]
	more := ""
	if len(dirty) > len(shown) {
		more = fmt.Sprintf(" and %d more", len(dirty)-len(shown))
	}
	return &run.UserError{
		Message: "tracked files have uncommitted changes: " + strings.Join(shown, ", ") + more,
		Hint:    "commit or stash them, or use --allow-dirty to ignore them",
	}
}

// key tells apart repositories, by where they are, and what is worked in them.
func key(toplevel, subject string) string {
	sum := sha256.Sum256([]byte(toplevel + "\x00" + subject))
	return hex.EncodeToString(sum[:6])
}

// turn waits until no other run in the checkout is choosing where it works. Until it is
// stored what this one has chosen, or done is called, others wait.
func (o Options) turn(top string, say func(format string, args ...any)) (done func(), err error) {
	file := filepath.Join(localDir(o.DataDir), key(top, "")+".lock")
	done, err = lock(file, unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		say("another run in this repository is about to begin; this one waits for that")
		done, err = lock(file, 0)
	}
	return done, err
}

// lock keeps others from locking the file until unlock, which may be called twice. With
// unix.LOCK_NB as how it does not wait for them: unix.EWOULDBLOCK.
func lock(file string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // G304: a file of our own data directory
	if err != nil {
		return nil, fmt.Errorf("lock the run: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
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
