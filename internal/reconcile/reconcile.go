package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/admission"
	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/authorization"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/feedback"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/machine"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/publish/island"
	"github.com/org/ralph-action/internal/pullrequest"
	"github.com/org/ralph-action/internal/queue"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/store"
)

const (
	// poll is the pause between two looks at a process nobody waits for.
	poll = time.Second
	// maxTroubles is how many steps in a row may fail, over troubledFor of ever longer
	// pauses, before the run is given up. A server that starts again forgets the pause: the
	// number alone would be reached within seconds by one that is killed again and again.
	maxTroubles = 12
	troubledFor = 20 * time.Minute
	// gitHubFor is for how long it may be GitHub that fails them, and gitHubBlips how many
	// such failures are not worth a word.
	gitHubFor   = 24 * time.Hour
	gitHubBlips = 3
	// firstPause and lastPause bound the pause after a failed step.
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// lastDelay bounds the pause of a run that waits for the server.
	lastDelay = time.Minute
)

// Starter begins runs. *delivery.Receiver is one.
type Starter interface {
	Begin(ctx context.Context, repo *ghapp.Repo, w delivery.RunRequest,
		also func(tx *store.Tx, id run.ID) error) (outcome string, err error)
}

// Config is what a Reconciler is made of.
type Config struct {
	Store   *store.Store
	Queue   delivery.Waker
	GitHub  *ghapp.App
	Git     *gitrepo.Git
	Sandbox sandbox.Sandbox
	Backend agent.Backend
	// DataDir holds mirrors and the runs' own directories.
	DataDir string
	// Image, AgentName and Resources are the server's choice; a repository may choose
	// another image.
	Image string
	// Devcontainer says whether the image may come from the repository's devcontainer.json.
	Devcontainer bool
	AgentName    string
	// CacheBytes bounds what set-up commands made; see host.Caches.
	CacheBytes int64
	Resources  host.Resources
	// Limits bound every run; a repository can only tighten them.
	Limits func(asked run.Limits) run.Limits
	Gates  []gate.Gate
	// Models is the model endpoint behind the gateway; nil means that agents
	// bring their own credentials (local sandbox only).
	Models *Models
	// Credentials are the agent's where Models is nil; see host.Config.
	Credentials map[string]string
	// Transcripts keeps what agents were told and said, within TranscriptLimits;
	// nil keeps nothing.
	Transcripts      *transcript.Store
	TranscriptLimits transcript.Limits
	// Admission bounds what is at work at once; its zero value bounds nothing.
	Admission admission.Limits
	// Lacks says what this machine lacks for another start; see host.Config.
	Lacks func() string
	// Prices are what models cost where no gateway counts and the agent does not
	// tell.
	Prices run.Prices
	// Mask holds the secrets of this process; nil masks by pattern only.
	Mask *redact.Masker
	// Welcome has the first run in each repository explain what will happen.
	Welcome bool
	// OnOwnerDeath says what becomes of agents and checks when this process
	// dies; "" keeps them, to be found by the next.
	OnOwnerDeath sandbox.OwnerDeath
	// Base is the branch that work begins from, whatever the repository's own
	// configuration says; "" leaves it to that.
	Base string
	// ConfigPath is where a repository's own configuration is, "" for
	// config.RepoPath.
	ConfigPath string
	// NeedsApproval: plans wait for approval, whatever the repository says.
	NeedsApproval bool
	// OpenReady: pull requests are ready for review from the start, and no drafts
	// until the work is complete.
	OpenReady bool
	// ByJob: this is a job of a workflow, which hears of nothing but its own event.
	// Package job sets it.
	ByJob bool
	// Now is the clock.
	Now func() time.Time
	// Quiet is how long nothing more must have been said of the work before it is
	// taken in; 0 is a few seconds.
	Quiet time.Duration
	// Watch hears what happens in runs; nil means nobody does.
	Watch func(run.Event)
	// OnSave is called before and after each state is stored, saved telling
	// which; nil means it is not. Tests end the process there.
	OnSave func(id run.ID, saved bool)
}

// Models is the model endpoint, what may be spent there, and the way out beside it.
type Models struct {
	// Gateway is that of every run, but for its key.
	Gateway gateway.Config
	// Key makes the tokens that a run's agents present; it must be the same in
	// every process, because agents outlive processes.
	Key func(id run.ID) []byte
	// IssueUSD and DayUSD are what all runs of an issue and the runs of a
	// repository on a day may cost; 0 means that there is no limit.
	IssueUSD, DayUSD float64
}

// Scopes are what the starts of a run are charged to besides the run itself.
func (m *Models) Scopes(row store.Run, now time.Time) []spend.Scope {
	return []spend.Scope{
		spend.IssueScope(row.IssueNode, spend.Dollars(m.IssueUSD)),
		spend.DayScope(row.RepoNode, now.UTC().Format(time.DateOnly), spend.Dollars(m.DayUSD)),
	}
}

// caps says, in words for people, what keeps a run from spending so much more: the
// budgets that it shares with others and that do not hold it.
func (m *Models) caps(ctx context.Context, l spend.Ledger, row store.Run, now time.Time,
	more float64) (says []string, err error) {
	forms := []string{
		"All runs of this issue share a budget of $%.2f (`budgets.issue_usd`); $%.2f is left.",
		"All runs in this repository share a daily budget of $%.2f (`budgets.repository_day_usd`); $%.2f is left today.",
	}
	for i, scope := range m.Scopes(row, now) {
		if scope.Limit <= 0 {
			continue
		}
		spent, err := l.Spent(ctx, scope.Key)
		if err != nil {
			return nil, err
		}
		if left := max(scope.Limit-spent, 0); left < spend.Dollars(more) {
			says = append(says, fmt.Sprintf(forms[i], scope.Limit.Dollars(), left.Dollars()))
		}
	}
	return says, nil
}

// Reconciler ticks runs. It is safe for concurrent use.
type Reconciler struct {
	cfg        Config
	starter    Starter
	authorizer *authorization.Authorizer
	comments   *publish.Commenter
	feedback   *feedback.Reader
	mirrors    *host.Mirrors
	// owners are the configurations of owners for repositories that have none.
	owners ghapp.Cache[ownerFile, host.ConfigFile]

	// telling is held by whoever tells people that a run waits.
	telling sync.Mutex

	// claimed are the runs that somebody works on, by run.ID.
	claimed sync.Map

	mu      sync.Mutex
	drivers map[run.ID]*driver
	// waiters counts goroutines that watch processes.
	waiters sync.WaitGroup
	stop    context.CancelFunc
	life    context.Context //nolint:containedctx // the life of the goroutines that watch processes, which no call owns
}

// driver is what this process has at hand for one run. It can be made anew at
// any time.
type driver struct {
	host *host.Host
	// gateway is nil without a model endpoint, or while another process serves
	// on the run's socket: what is served there is the same.
	gateway *gateway.Server
	engine  *loop.Engine
	watched map[loop.Handle]bool
	// repo is what the repository was called when this was made.
	repo string

	pauses
}

// pauses are when a run goes on. They hold whoever has driven it meanwhile.
type pauses struct {
	// pause is when to try again after a step that failed, and pauseFor how long that was
	// when it was decided: more is left only where the clock was put back since.
	pause    time.Time
	pauseFor time.Duration
	// returns is how often GitHub had come back when it was GitHub that failed the
	// step, -1 where it was not: the pause ends with its return.
	returns int64
	// failing is since when it is GitHub that fails its steps, zero where it does not.
	failing time.Time
}

// New makes a reconciler. What is asked of a run that has ended begins another by
// deliveries, which also say who may ask and answer them.
func New(cfg Config, deliveries *delivery.Receiver) *Reconciler {
	life, stop := context.WithCancel(context.Background())
	return &Reconciler{
		cfg: cfg, starter: deliveries, authorizer: deliveries.Authorizer, comments: deliveries.Comments,
		feedback: &feedback.Reader{
			Store: cfg.Store, GitHub: cfg.GitHub, Authorizer: deliveries.Authorizer, Comments: deliveries.Comments,
			Mask: cfg.Mask, Now: cfg.Now, Quiet: cfg.Quiet,
		},
		mirrors: host.NewMirrors(life, cfg.Git, filepath.Join(cfg.DataDir, "mirrors")),
		drivers: map[run.ID]*driver{},
		life:    life, stop: stop,
	}
}

// Close ends what this process holds for its runs: watchers, fetches and
// gateways, waiting for them no longer than ctx. Agents and checks run on, to
// be found by the next process. A model's answer that was cut off is no error: the
// agent asks the next process again.
func (r *Reconciler) Close(ctx context.Context) error {
	r.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.waiters.Wait()
		r.mirrors.Wait()
	}()
	var errs []error
	select {
	case <-ended:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("wait for watchers and fetches: %w", context.Cause(ctx)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, d := range r.drivers {
		if err := d.close(ctx); err != nil && !errors.Is(err, ctx.Err()) {
			errs = append(errs, err)
		}
		delete(r.drivers, id)
	}
	return errors.Join(errs...)
}

func (d *driver) close(ctx context.Context) error {
	d.host.Close()
	if d.gateway == nil {
		return nil
	}
	return d.gateway.Close(ctx)
}

// Advance ticks one run; it is queue.Handlers.Advance.
func (r *Reconciler) Advance(ctx context.Context, id run.ID) (time.Duration, error) {
	if !r.claim(id) {
		return 0, queue.ErrBusy
	}
	defer r.claimed.Delete(id)
	row, err := r.cfg.Store.Run(ctx, id)
	if err != nil {
		return 0, err
	}
	if row.Phase.Terminal() {
		wait, err := r.takeUp(ctx, row)
		return wait, errors.Join(r.drop(ctx, id), err)
	}
	d, openErr := r.driver(row)
	return r.tick(ctx, row, d, openErr)
}

// claim takes a run to work on it; false says that somebody does already. Whoever has it
// deletes it from r.claimed.
func (r *Reconciler) claim(id run.ID) bool {
	_, taken := r.claimed.LoadOrStore(id, true)
	return !taken
}

// tick takes as many transitions as it can, saving each. openErr is what the
// driver lacks; telling people of the end does without it.
func (r *Reconciler) tick(ctx context.Context, row store.Run, d *driver,
	openErr error) (time.Duration, error) {
	s, err := loop.Decode(row.State)
	if err != nil {
		return 0, err
	}
	// What a person asked for meanwhile is not put off.
	back := d.returns >= 0 && uint64(d.returns) != r.cfg.GitHub.Returns()
	if left := d.pause.Sub(r.cfg.Now()); left > 0 && left <= d.pauseFor && !back &&
		(row.CancelRequestedAt.IsZero() || s.CancelRequested) {
		return left, nil
	}
	if openErr != nil && s.End == "" {
		return r.trouble(ctx, row, d, s, openErr)
	}
	for {
		if !s.CancelRequested {
			// A person may have changed their mind since the last transition.
			if row, err = r.cfg.Store.Run(ctx, row.ID); err != nil {
				return 0, err
			}
			s.CancelRequested, s.CancelReason = !row.CancelRequestedAt.IsZero(), row.CancelBy
		}
		if s, err = r.takeIn(ctx, row, d, s); err != nil {
			return r.trouble(ctx, row, d, s, err)
		}
		next, n, err := d.engine.Step(ctx, s)
		switch {
		case errors.Is(err, host.ErrFetching) && s.End == "" && r.overdue(s):
			next, n = d.engine.Fail(s, "the repository could not be fetched in the time that the run has"),
				loop.Next{Kind: loop.Continue}
		case errors.Is(err, host.ErrFetching):
			return poll, nil
		case err != nil:
			return r.trouble(ctx, row, d, s, err)
		}
		next.Troubles, d.failing = 0, time.Time{}
		if err := r.save(ctx, row.ID, next); err != nil {
			return 0, err
		}
		s = next
		switch n.Kind {
		case loop.Continue:
		case loop.Wait:
			for _, h := range n.Handles {
				r.watch(ctx, row.ID, d, h)
			}
			return poll, r.refresh(ctx, row, d, s)
		case loop.Sleep:
			pause := max(n.Until.Sub(r.cfg.Now()), time.Millisecond)
			if s.Stale() {
				pause = min(pause, pullrequest.ShowEvery)
			}
			if s, err = r.tellDelay(ctx, row, s); err != nil {
				return 0, err
			}
			return pause, r.refresh(ctx, row, d, s)
		case loop.Done:
			r.retire(ctx, row.ID, d)
			if row, err = r.cfg.Store.Run(ctx, row.ID); err != nil {
				return 0, err
			}
			return r.takeUp(ctx, row)
		}
	}
}

// refresh shows what has landed where showing it was put off. The run goes on
// without it: it is tried again at the next tick.
func (r *Reconciler) refresh(ctx context.Context, row store.Run, d *driver, s loop.State) error {
	if !s.Stale() {
		return nil
	}
	shown, err := d.engine.Refresh(ctx, s)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("the pull request was not brought up to date")
		return nil
	}
	if shown.PullRequest == s.PullRequest { // put off once more
		return nil
	}
	return r.save(ctx, row.ID, shown)
}

func (r *Reconciler) overdue(s loop.State) bool {
	return s.Limits.RunTimeout > 0 && !r.cfg.Now().Before(s.Deadline(r.cfg.Now()))
}

func (r *Reconciler) save(ctx context.Context, id run.ID, s loop.State) error {
	b, err := loop.Encode(s)
	if err != nil {
		return err
	}
	defer r.saving(id)()
	ctx = context.WithoutCancel(ctx)
	return r.cfg.Store.InTx(ctx, func(tx *store.Tx) error {
		if s.PullRequest != nil {
			// What is said on the pull request has to find the run.
			if err := r.cfg.Store.NotePull(ctx, tx, id, s.PullRequest.Number); err != nil {
				return err
			}
		}
		if err := r.cfg.Store.SaveStateTx(ctx, tx, id, s.Phase, s.End, b, r.cfg.Now()); err != nil {
			return err
		}
		return r.freePlaces(ctx, tx, id, s)
	})
}

// saving tells that a state is about to be stored; the function that it gives
// tells that it was.
func (r *Reconciler) saving(id run.ID) func() {
	if r.cfg.OnSave == nil {
		return func() {}
	}
	r.cfg.OnSave(id, false)
	return func() { r.cfg.OnSave(id, true) }
}

// trouble answers a step that failed: a pause that grows, or the time GitHub
// asks for, which counts as no trouble; nor does the time that it is away, or fails. What
// only a person can fix, and what fails too often, ends the run with its reason.
// One that was cut off for taking too long counts like any other; one that was
// cut off because this process stops does not.
func (r *Reconciler) trouble(ctx context.Context, row store.Run, d *driver, s loop.State,
	err error) (time.Duration, error) {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if ctx.Err() != nil && !late {
		return 0, err
	}
	log := zerolog.Ctx(ctx)
	class, after := ghapp.Classify(err)
	if class == ghapp.RateLimited {
		d.returns = -1
		log.Info().Dur("retry_after", after).Err(err).Msg("writes to GitHub wait")
		return r.pause(d, max(after, poll)), nil
	}
	if why := r.delay(err); why != "" && s.End == "" && !late {
		if s.Delayed == nil {
			log.Warn().Err(err).Str("waits_for", why).Msg("the run waits; no attempt is used")
		}
		s = d.engine.Delay(s, why, false)
		if err := r.save(ctx, row.ID, s); err != nil {
			return 0, err
		}
		if s, err = r.tellDelay(ctx, row, s); err != nil {
			return 0, err
		}
		waited := r.cfg.Now().Sub(s.Delayed.Since)
		return r.pause(d, min(max(waited/4, firstPause), lastDelay)), nil
	}
	giveUp := false
	if gitHubs := ghapp.Failed(err) && !late; gitHubs {
		giveUp = r.gitHubFails(d, &s)
	} else {
		if s.Troubles == 0 {
			s.TroubledSince = r.cfg.Now()
		}
		s.Troubles++
		d.failing = time.Time{}
		giveUp = s.Troubles >= maxTroubles && r.cfg.Now().Sub(s.TroubledSince) >= troubledFor
	}
	userErr, byPerson := errors.AsType[*run.UserError](err)
	byPerson = byPerson && !late
	switch {
	case s.End != "" && giveUp:
		// Telling people on GitHub is what fails: what is left are those who watch.
		log.Error().Err(err).Msg("run ended without being able to say so")
		s.Phase = run.PhaseFailed
		if err := r.save(ctx, row.ID, s); err != nil {
			return 0, err
		}
		d.engine.TellEnd(s)
		r.retire(ctx, row.ID, d)
		return 0, nil
	case s.End == "" && byPerson:
		s = d.engine.Fail(s, userErr.Error())
		s.Troubles = 0
		if unusable, ok := errors.AsType[*host.UnusableError](err); ok {
			s.EndCause = "config:" + unusable.Content
		}
	case s.End == "" && giveUp:
		s = d.engine.Fail(s, err.Error())
		s.Troubles = 0
	}
	log.Warn().Err(err).Int("in_a_row", s.Troubles).Msg("step failed")
	if err := r.save(ctx, row.ID, s); err != nil {
		return 0, err
	}
	if s.End == "" {
		var err error
		if s, err = r.tellDelay(ctx, row, s); err != nil {
			return 0, err
		}
	}
	d.returns = -1
	if class == ghapp.Transient {
		d.returns = int64(r.cfg.GitHub.Returns()) //nolint:gosec // G115: it counts outages
	}
	return r.pause(d, min(firstPause<<min(s.Troubles, 20), lastPause)), nil
}

// gitHubFails notes that it is GitHub that fails the run's steps. That is no reason to give
// up, not even together with other failures, unless it does nothing else for a day: then it
// is what the run asks for. After the first few the run says what it waits for, and uses
// none of its time.
func (r *Reconciler) gitHubFails(d *driver, s *loop.State) (giveUp bool) {
	now := r.cfg.Now()
	if d.failing.IsZero() {
		d.failing = now
	}
	s.TroubledSince = now
	if s.Troubles++; s.Troubles >= gitHubBlips && s.End == "" {
		*s = d.engine.Delay(*s, "GitHub fails calls or does not answer", false)
	}
	return s.Troubles >= maxTroubles && now.Sub(d.failing) >= gitHubFor
}

// delay says what the server lacks where that is why a step failed, "" where it is not:
// the run then waits for as long as it takes, and nobody is blamed.
func (r *Reconciler) delay(err error) string {
	if delay, ok := errors.AsType[*loop.Delay](err); ok {
		return delay.Why
	}
	if errors.Is(err, sandbox.ErrUnavailable) {
		return "the engine that runs containers does not answer"
	}
	if why := machine.Trouble(err); why != "" {
		return why
	}
	if r.cfg.Lacks == nil {
		return ""
	}
	return r.cfg.Lacks()
}

// pause keeps the run from being stepped for a while; the queue sleeps less.
func (r *Reconciler) pause(d *driver, pause time.Duration) time.Duration {
	d.pause, d.pauseFor = r.cfg.Now().Add(pause), pause
	return pause
}

// watch wakes the run as soon as the process has ended, so that nothing waits
// for the next poll. Losing the watcher costs a second.
func (r *Reconciler) watch(ctx context.Context, id run.ID, d *driver, h loop.Handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.watched[h] || r.life.Err() != nil {
		return
	}
	d.watched[h] = true
	log := zerolog.Ctx(ctx)
	r.waiters.Go(func() {
		if err := d.host.Await(r.life, h); err != nil {
			if r.life.Err() == nil {
				log.Warn().Err(err).Msg("watching a process failed; it is polled")
			}
			return
		}
		r.cfg.Queue.Wake(nil, id)
	})
}

// gatewayDir is where a run's gateway listens. A unix socket's path must stay
// below 108 bytes, so it is not in the run's own directory.
func gatewayDir(dataDir string, id run.ID) string {
	return filepath.Join(dataDir, "gw", shortName(id))
}

// CheckDataDir says with a *run.UserError that the path of a data directory is
// too long for the gateways' sockets below it.
func CheckDataDir(dir string) error { return gateway.CheckDir(gatewayDir(dir, "")) }

// driver gives what is needed to step the run. One is given also with an error,
// which says that the gateway could not be opened.
func (r *Reconciler) driver(row store.Run) (*driver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.drivers[row.ID]
	switch {
	case !ok:
		d = r.newDriver(row)
	case d.repo != row.RepoOwner+"/"+row.RepoName: // it was renamed
		d.host.Close()
		old := d
		d = r.newDriver(row)
		d.gateway, d.pauses = old.gateway, old.pauses
	}
	r.drivers[row.ID] = d
	if r.cfg.Models == nil || d.gateway != nil {
		return d, nil
	}
	cfg := r.cfg.Models.Gateway
	cfg.Key = r.cfg.Models.Key(row.ID)
	handler, err := gateway.NewHandler(cfg)
	if err != nil {
		return d, fmt.Errorf("make the gateway of run %s: %w", row.ID, err)
	}
	server, err := gateway.Listen(gatewayDir(r.cfg.DataDir, row.ID), handler)
	if err != nil && !errors.Is(err, gateway.ErrInUse) {
		err = fmt.Errorf("open the gateway of run %s: %w", row.ID, err)
		if _, byPerson := errors.AsType[*run.UserError](err); byPerson {
			return d, err
		}
		return d, &loop.Delay{Why: "the way to the models cannot be opened", Err: err}
	}
	d.gateway = server
	return d, nil
}

// newDriver makes a driver that lacks its gateway.
func (r *Reconciler) newDriver(row store.Run) *driver {
	repo := r.cfg.GitHub.Repo(row.Installation, row.RepoOwner, row.RepoName)
	var watch func(run.Event)
	if r.cfg.Watch != nil {
		watch = func(ev run.Event) {
			ev = ev.Of(row.ID, row.RepoOwner+"/"+row.RepoName, r.cfg.Now())
			ev.URL = fmt.Sprintf("%s/issues/%d", repo.HTMLURL(), row.IssueNumber)
			r.cfg.Watch(ev)
		}
	}
	hostCfg := host.Config{
		Dir:     filepath.Join(r.cfg.DataDir, "runs", string(row.ID)),
		Source:  r.Source(repo, row.RepoNode),
		Sandbox: r.cfg.Sandbox, Backend: r.cfg.Backend, Image: r.cfg.Image, Devcontainer: r.cfg.Devcontainer,
		Caches: host.Caches{Dir: filepath.Join(r.cfg.DataDir, host.CachesDir), Repo: shortName(row.RepoNode),
			MaxBytes: r.cfg.CacheBytes},
		OnOwnerDeath: cmp.Or(r.cfg.OnOwnerDeath, sandbox.KeepWithoutOwner), Gates: r.cfg.Gates,
		NeedsApproval: r.cfg.NeedsApproval, Resources: r.cfg.Resources, Credentials: r.cfg.Credentials,
		Prices: r.cfg.Prices, Limits: r.cfg.Limits, Emit: watch, Lacks: r.cfg.Lacks,
	}
	hostCfg.Transcripts, hostCfg.Mask = r.cfg.Transcripts, r.cfg.Mask
	hostCfg.MergedNotes = func(ctx context.Context) ([]string, error) { return pullrequest.MergedNotes(ctx, repo) }
	if m := r.cfg.Models; m != nil {
		key := m.Key(row.ID)
		hostCfg.Gateway = &host.Gateway{
			Dir:   gateway.SocketDir(gatewayDir(r.cfg.DataDir, row.ID)),
			Token: func(start string) string { return gateway.Token(key, start) },
			Meter: m.Gateway.Meter, Watch: m.Gateway.Watch, Scopes: func() []spend.Scope { return m.Scopes(row, r.cfg.Now()) },
			NoModels: len(m.Gateway.Upstreams) == 0, Egress: m.Gateway.Egress,
			ProxyToken: func(start string) string { return gateway.ProxyToken(key, start) },
		}
	}
	var first func(ctx context.Context) (bool, error)
	if r.cfg.Welcome {
		first = func(ctx context.Context) (bool, error) { return r.cfg.Store.FirstRun(ctx, row.RepoNode, row.ID) }
	}
	h := host.New(hostCfg)
	runner := &placing{Runner: h, r: r, row: row}
	return &driver{
		host: h, watched: map[loop.Handle]bool{}, repo: row.RepoOwner + "/" + row.RepoName,
		engine: &loop.Engine{
			WorkTree: h, Trees: h, Runner: runner, Crew: &crew{Host: h, placing: runner},
			Publisher: &pullrequest.Publisher{
				Repo: repo, Issue: row.IssueNumber, Agent: r.cfg.AgentName, Mask: r.cfg.Mask,
				Label: r.comments.Label, Sandbox: r.describeSandbox(), Objects: h.Repo, Effects: r.comments.Effects,
				Now:       r.cfg.Now,
				OpenReady: r.cfg.OpenReady, ByJob: r.cfg.ByJob, LastWords: r.lastWords(row.ID), First: first,
				Before: func(ctx context.Context) (run.ID, error) {
					earlier, err := r.cfg.Store.RunBefore(ctx, row.RepoNode, row.IssueNumber, row.ID)
					if errors.Is(err, store.ErrNotFound) {
						return "", nil
					}
					return earlier.ID, err
				},
				Permission: func(ctx context.Context, login string) (ghapp.Permission, error) {
					return r.authorizer.Permission(ctx, repo, row.RepoNode, login)
				},
			},
			Now: r.cfg.Now, Emit: h.Witness(watch),
		},
	}
}

// describeSandbox says to people how far the sandbox confines, "" where that is always
// the same.
func (r *Reconciler) describeSandbox() string {
	if r.cfg.Sandbox.About().Confinement == nil {
		return ""
	}
	return sandbox.Describe(r.cfg.Sandbox)
}

// Source is where the branches of a repository are found; node is its identity.
func (r *Reconciler) Source(repo *ghapp.Repo, node string) *host.MirrorSource {
	return &host.MirrorSource{
		Mirrors: r.mirrors, Name: repo.FullName(), Node: node,
		Remote: gitrepo.Remote{URL: repo.HTMLURL() + ".git", Auth: repo.GitAuth,
			Through: func(call func() error) error {
				return r.cfg.GitHub.Through(call, func(err error) bool { return errors.Is(err, gitrepo.ErrUnavailable) })
			}},
		Base: r.cfg.Base, ConfigPath: r.cfg.ConfigPath,
		Fallback: func(ctx context.Context) (host.ConfigFile, error) {
			return r.ownerConfig(ctx, repo.Sibling(config.OwnerRepo),
				config.OwnerPath(cmp.Or(r.cfg.ConfigPath, config.RepoPath)))
		},
	}
}

func shortName[T ~string](id T) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:6])
}

// drop lets go of what this process holds for a run that has ended, if
// anything. What is on disk is left to whoever ended it.
func (r *Reconciler) drop(ctx context.Context, id run.ID) error {
	r.mu.Lock()
	d, ok := r.drivers[id]
	delete(r.drivers, id)
	r.mu.Unlock()
	if !ok {
		return nil
	}
	return d.close(context.WithoutCancel(ctx))
}

// retire lets go of a run that has ended. Its directory is removed: what is
// worth keeping is on the branch and in the store.
func (r *Reconciler) retire(ctx context.Context, id run.ID, d *driver) {
	r.mu.Lock()
	delete(r.drivers, id)
	r.mu.Unlock()
	err := d.close(context.WithoutCancel(ctx))
	if derr := errors.Join(d.host.Delete(context.WithoutCancel(ctx)),
		gitrepo.RemoveAll(gatewayDir(r.cfg.DataDir, id))); derr != nil {
		err = errors.Join(err, fmt.Errorf("remove the directories of run %s: %w", id, derr))
	}
	err = errors.Join(err, r.prune(context.WithoutCancel(ctx)))
	if err != nil {
		// The run itself has ended and is saved; ticking it again fixes nothing.
		zerolog.Ctx(ctx).Warn().Err(err).Msg("cleaning up after a run failed")
	}
}

// lastLines is how much of an agent's words a check run shows.
const lastLines = 60

// maxWords bounds them, in bytes; GitHub takes 65,535.
const maxWords = 16 << 10

// lastWords gives the end of what the run's last agent did, as Markdown.
func (r *Reconciler) lastWords(id run.ID) func() (string, error) {
	if r.cfg.Transcripts == nil {
		return nil
	}
	return func() (string, error) {
		tail, err := r.cfg.Transcripts.Tail(id, func(name string, emit func(agent.Activity)) agent.Parser {
			if name != r.cfg.AgentName {
				return nil
			}
			return r.cfg.Backend.NewParser(emit)
		}, lastLines)
		if errors.Is(err, fs.ErrNotExist) || err == nil && tail == "" {
			return "", nil
		}
		if err != nil { // the run does not wait for it
			return "The agents' output cannot be read at the moment. For all of it, run this on the server: `ralph-bot transcript " +
				string(id) + "`.", nil //nolint:nilerr // it is told
		}
		return "The end of the last agent's output. For all of it, run this on the server: `ralph-bot transcript " + string(id) +
			"`.\n\n" + island.Block(r.cfg.Mask.Mask, tail, maxWords), nil
	}
}

// prune removes transcripts that are older, or more, than is kept.
func (r *Reconciler) prune(ctx context.Context) error {
	if r.cfg.Transcripts == nil {
		return nil
	}
	active, err := r.isActive(ctx)
	if err != nil {
		return fmt.Errorf("prune transcripts: %w", err)
	}
	return r.cfg.Transcripts.Prune(r.cfg.TranscriptLimits, r.cfg.Now(), active)
}

// isActive tells the runs that have not ended by now.
func (r *Reconciler) isActive(ctx context.Context) (func(run.ID) bool, error) {
	rows, err := r.cfg.Store.ActiveRuns(ctx)
	if err != nil {
		return nil, err
	}
	return func(id run.ID) bool {
		return slices.ContainsFunc(rows, func(row store.Run) bool { return row.ID == id })
	}, nil
}

// Sweep removes what runs left on disk that have ended, or that the store does
// not know: a process that died between the two did not come to it.
func (r *Reconciler) Sweep(ctx context.Context) error {
	if err := r.adopt(ctx); err != nil {
		return err
	}
	left, err := r.leftovers(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range left {
		if filepath.Base(filepath.Dir(dir)) == "runs" {
			errs = append(errs, r.evict(ctx, run.ID(filepath.Base(dir))))
			continue
		}
		if err := gitrepo.RemoveAll(dir); err != nil {
			errs = append(errs, fmt.Errorf("remove what a run left: %w", err))
		}
	}
	if reap := r.cfg.Sandbox.About().Reap; reap != nil {
		if _, err := reap(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, r.prune(ctx))...)
}

// leftovers are the directories of runs that have ended, or that the store does not know.
func (r *Reconciler) leftovers(ctx context.Context) ([]string, error) {
	// The directories first: one that is there now belongs to a run that was
	// stored before.
	left := map[string]string{}
	for _, kind := range []string{"runs", "gw"} {
		entries, err := os.ReadDir(filepath.Join(r.cfg.DataDir, kind))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("look for what runs left: %w", err)
		}
		for _, e := range entries {
			left[filepath.Join(kind, e.Name())] = filepath.Join(r.cfg.DataDir, kind, e.Name())
		}
	}
	keep := func(id run.ID) {
		delete(left, filepath.Join("runs", string(id)))
		delete(left, filepath.Join("gw", shortName(id)))
	}
	active, err := r.cfg.Store.ActiveRuns(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for what runs left: %w", err)
	}
	for _, row := range active {
		keep(row.ID)
	}
	// Then those that are at work here: whoever ends a run tidies up after it when its row
	// says already that it has ended.
	r.claimed.Range(func(id, _ any) bool {
		if id, ok := id.(run.ID); ok {
			keep(id)
		}
		return true
	})
	return slices.Sorted(maps.Values(left)), nil
}
