package reconcile

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/publish/effects"
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
	// blips are how many failures in a row are not worth a word, and gitHubFor is for how long
	// it may be GitHub that fails the steps.
	blips     = 3
	gitHubFor = 24 * time.Hour
	// firstPause and lastPause bound the pause after a failed step.
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// lastDelay bounds the pause of a run that waits for the server.
	lastDelay = time.Minute
)

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
	Image     string
	AgentName string
	// CacheBytes bounds what set-up commands made; see host.Caches.
	CacheBytes int64
	Resources  sandbox.Resources
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
	// Concurrency bounds what is at work at once; its zero value bounds nothing.
	Concurrency config.Concurrency
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
	// ByJob: this is a job of a workflow, which hears of nothing but its own event.
	// Package action sets it.
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
	starter    *delivery.Receiver
	authorizer *delivery.Authorizer
	comments   *publish.Commenter
	mirrors    *host.Mirrors
	// owners are the configurations of owners for repositories that have none.
	owners ghapp.Cache[ownerFile, host.ConfigFile]

	places *places

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

// New makes a reconciler. What is asked of a run that has ended begins another by
// deliveries, which also say who may ask and answer them.
func New(cfg Config, deliveries *delivery.Receiver) *Reconciler {
	life, stop := context.WithCancel(context.Background())
	return &Reconciler{
		cfg: cfg, starter: deliveries, authorizer: deliveries.Authorizer, comments: deliveries.Comments,
		mirrors: host.NewMirrors(life, cfg.Git, filepath.Join(cfg.DataDir, "mirrors")),
		drivers: map[run.ID]*driver{}, places: newPlaces(cfg.Concurrency),
		life: life, stop: stop,
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
	if r.cfg.Models != nil {
		if err := r.cfg.Models.Gateway.Meter.Close(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	if r.cfg.Git != nil { // a job that only looks has none
		r.cfg.Git.Close()
	}
	return errors.Join(errs...)
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
	if left := d.pause.Sub(r.cfg.Now()); left > 0 && left <= d.pauseFor &&
		(row.CancelRequestedAt.IsZero() || s.CancelRequested) {
		return left, nil
	}
	if !s.CancelRequested { // also where the step fails: the next one is not put forward again
		s.CancelRequested, s.CancelReason = !row.CancelRequestedAt.IsZero(), row.CancelBy
	}
	if openErr != nil && s.End == "" {
		return r.trouble(ctx, row, d, s, openErr)
	}
	if s, err = r.catchUp(ctx, row, d, s); err != nil {
		if !s.CancelRequested {
			return r.trouble(ctx, row, d, s, err)
		}
		zerolog.Ctx(ctx).Warn().Err(err).Msg("the run is stopped as the store knows it")
	}
	for {
		if !s.CancelRequested {
			// A person may have changed their mind since the last transition.
			if row, err = r.cfg.Store.Run(ctx, row.ID); err != nil {
				return 0, err
			}
			s.CancelRequested, s.CancelReason = !row.CancelRequestedAt.IsZero(), row.CancelBy
		}
		if !s.CancelRequested { // a stop waits for nobody
			if s, err = r.takeIn(ctx, row, d, s); err != nil {
				return r.trouble(ctx, row, d, s, err)
			}
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
				pause = min(pause, publish.ShowEvery)
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

// catchUp looks once, before this process takes the first step of a run, whether its branch
// has gone further than the stored state and effects know: then the data directory is an older
// copy of itself, and the run goes on from the branch.
func (r *Reconciler) catchUp(ctx context.Context, row store.Run, d *driver, s loop.State) (loop.State, error) {
	if d.looked || s.End != "" || s.Head == "" {
		d.looked = true
		return s, nil
	}
	known, err := r.knowsHead(ghapp.WithPurpose(ctx, "catch-up"), row, s)
	if err != nil {
		return s, fmt.Errorf("look at the branch: %w", err)
	}
	d.looked = true
	if known {
		return s, nil
	}
	zerolog.Ctx(ctx).Warn().Str("branch", s.Branch).
		Msg("the branch has gone further than is stored of the run: it goes on from there")
	s = loop.Outdated(s)
	return s, r.save(ctx, row.ID, s)
}

// knowsHead says whether the head of the run's branch is one that the store knows of, or that
// was made by others: a commit of ours is in the effects before it is made. One that a person has
// rebased names us as its author, and GitHub does not vouch for that.
func (r *Reconciler) knowsHead(ctx context.Context, row store.Run, s loop.State) (bool, error) {
	repo := r.repoOf(row)
	ref, err := repo.Branch(ctx, s.Branch)
	if errors.Is(err, ghapp.ErrNotFound) || err == nil && ref.OID == s.Head {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	head, err := repo.Commit(ctx, ref.OID)
	if err != nil {
		return false, err
	}
	made, ok := publish.RecordOf(head.Message)
	if ours, err := repo.Ours(ctx, head.Author); err != nil || !ok || !ours || !head.Verified {
		return true, err
	}
	begun, err := r.cfg.Store.Effects(ctx, made.Run)
	key := effects.Commit(made.Run, made.Iteration, head.TreeOID).String()
	return slices.ContainsFunc(begun, func(e store.Effect) bool { return e.Key == key }), err
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
	return r.saveWith(ctx, id, s, func(*store.Tx) error { return nil })
}

// saveWith stores a state together with what also writes.
func (r *Reconciler) saveWith(ctx context.Context, id run.ID, s loop.State, also func(*store.Tx) error) error {
	b, err := loop.Encode(s)
	if err != nil {
		return err
	}
	defer r.saving(id)()
	ctx = context.WithoutCancel(ctx)
	err = r.cfg.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := also(tx); err != nil {
			return err
		}
		if s.PullRequest != nil {
			// What is said on the pull request has to find the run.
			if err := r.cfg.Store.NotePull(ctx, tx, id, s.PullRequest.Number); err != nil {
				return err
			}
		}
		return r.cfg.Store.SaveStateTx(ctx, tx, id, s.Phase, s.End, b, r.cfg.Now())
	})
	if err != nil {
		return err
	}
	// The processes that the state has seen end give back their places.
	r.places.keep(id, s.Occupies())
	r.wakeNext()
	return nil
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
