package reconcile

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/effects"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/queue"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/store"
)

const (
	// leaseTTL is how long a run is ours without another word. It only matters
	// when this process hangs; one that dies is noticed at once.
	leaseTTL = 2 * time.Minute
	// poll is the pause between two looks at a process nobody waits for.
	poll = time.Second
	// maxTroubles is how many steps in a row may fail, over about twenty
	// minutes of ever longer pauses, before the run is given up.
	maxTroubles = 12
	// firstPause and lastPause bound the pause after a failed step.
	firstPause = time.Second
	lastPause  = 5 * time.Minute
)

// Signaler inserts the jobs that make a run be ticked. *queue.Queue is one.
type Signaler interface {
	EnqueueAdvance(ctx context.Context, tx *sql.Tx, id run.ID) error
	Wake(ctx context.Context, tx *sql.Tx, id run.ID) error
}

// Config is what a Reconciler is made of.
type Config struct {
	Store  *store.Store
	Queue  Signaler
	GitHub *ghapp.App
	Git    *gitrepo.Git
	// Owner names this process in leases.
	Owner   string
	Decoder handlers.Decoder
	Sandbox sandbox.Sandbox
	Backend agent.Backend
	// DataDir holds mirrors and the runs' own directories.
	DataDir string
	// Image, AgentName, Model and Resources are the server's choice; a
	// repository may choose another model and image.
	Image     string
	AgentName string
	Model     string
	Resources host.Resources
	// Limits bound every run; a repository can only tighten them.
	Limits func(asked run.Limits) run.Limits
	Gates  []gate.Gate
	// Models is the model endpoint behind the gateway; nil means that agents
	// bring their own credentials (local sandbox only).
	Models *Models
	// Credentials are the agent's where Models is nil; see host.Config.
	Credentials map[string]string
	// Mask holds the secrets of this process; nil masks by pattern only.
	Mask *redact.Masker
	// Now is the clock.
	Now func() time.Time
	// Watch hears what happens in runs; nil means nobody does.
	Watch func(run.Event)
	// OnSave is called before and after each state is stored, saved telling
	// which; nil means it is not. Tests end the process there.
	OnSave func(id run.ID, saved bool)
}

// Models is the model endpoint and how a run's own token for it is made.
type Models struct {
	Endpoint gateway.Config
	// Token makes the token a run's agents present; it must be the same in
	// every process, because agents outlive processes.
	Token func(id run.ID) string
}

// Reconciler works deliveries and ticks runs. It is safe for concurrent use.
type Reconciler struct {
	cfg     Config
	effects effects.Runner
	mirrors *mirrors

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
	host    *host.Host
	gateway *gateway.Server
	engine  *loop.Engine
	watched map[loop.Handle]bool
}

// New makes a reconciler.
func New(cfg Config) *Reconciler {
	life, stop := context.WithCancel(context.Background())
	return &Reconciler{
		cfg:     cfg,
		effects: effects.Runner{Store: cfg.Store, Now: cfg.Now},
		mirrors: newMirrors(cfg.Git, filepath.Join(cfg.DataDir, "mirrors")),
		drivers: map[run.ID]*driver{},
		life:    life, stop: stop,
	}
}

// Close ends what this process holds for its runs: watchers and gateways.
// Agents and checks run on, to be found by the next process.
func (r *Reconciler) Close(ctx context.Context) error {
	r.stop()
	r.waiters.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for id, d := range r.drivers {
		errs = append(errs, d.close(ctx))
		delete(r.drivers, id)
	}
	r.mirrors.wait()
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
	lease, err := r.cfg.Store.ClaimRun(ctx, id, r.cfg.Owner, leaseTTL, r.cfg.Now())
	if errors.Is(err, store.ErrLeaseTaken) {
		return 0, queue.ErrBusy
	}
	if err != nil {
		return 0, err
	}
	defer func() {
		// The lease may be lost already; then it is not ours to give back.
		_ = r.cfg.Store.ReleaseRun(context.WithoutCancel(ctx), id, lease)
	}()
	row, err := r.cfg.Store.Run(ctx, id)
	if err != nil {
		return 0, err
	}
	if row.Phase.Terminal() {
		return 0, nil
	}
	d, err := r.driver(row) //nolint:contextcheck // what it opens outlives the tick
	if err != nil {
		return 0, err
	}
	return r.tick(ctx, row, lease, d)
}

// tick takes as many transitions as it can, saving each.
func (r *Reconciler) tick(ctx context.Context, row store.Run, lease store.Lease, d *driver) (time.Duration, error) {
	s, err := loop.Decode(row.State)
	if err != nil {
		return 0, err
	}
	renewed := r.cfg.Now()
	for {
		if !s.CancelRequested {
			// A person may have changed their mind since the last transition.
			if row, err = r.cfg.Store.Run(ctx, row.ID); err != nil {
				return 0, err
			}
			s.CancelRequested, s.CancelReason = !row.CancelRequestedAt.IsZero(), row.CancelBy
		}
		next, n, err := d.engine.Step(ctx, s)
		if errors.Is(err, errFetching) {
			return poll, nil
		}
		if err != nil {
			return r.trouble(ctx, row, lease, d, s, err)
		}
		next.Troubles = 0
		if err := r.save(ctx, row.ID, lease, next); err != nil {
			return 0, err
		}
		s = next
		if now := r.cfg.Now(); now.Sub(renewed) > leaseTTL/4 {
			if err := r.cfg.Store.RenewLease(ctx, row.ID, lease, leaseTTL, now); err != nil {
				return 0, err
			}
			renewed = now
		}
		switch n.Kind {
		case loop.Continue:
		case loop.Wait:
			r.watch(ctx, row.ID, d, n.Handle)
			return poll, nil
		case loop.Sleep:
			return max(n.Until.Sub(r.cfg.Now()), time.Millisecond), nil
		case loop.Done:
			r.retire(ctx, row.ID, d)
			return 0, nil
		}
	}
}

func (r *Reconciler) save(ctx context.Context, id run.ID, lease store.Lease, s loop.State) error {
	b, err := loop.Encode(s)
	if err != nil {
		return err
	}
	if r.cfg.OnSave != nil {
		r.cfg.OnSave(id, false)
		defer r.cfg.OnSave(id, true)
	}
	return r.cfg.Store.SaveState(context.WithoutCancel(ctx), id, lease, s.Phase, s.End, b, r.cfg.Now())
}

// trouble answers a step that failed: a pause that grows, or the time GitHub
// asks for. What only a person can mend, and what fails too often, ends the
// run with its reason.
func (r *Reconciler) trouble(ctx context.Context, row store.Run, lease store.Lease, d *driver, s loop.State, err error) (time.Duration, error) {
	if ctx.Err() != nil || errors.Is(err, run.ErrLeaseLost) {
		return 0, err
	}
	log := zerolog.Ctx(ctx)
	class, after := ghapp.Classify(err)
	if class == ghapp.RateLimited {
		log.Info().Dur("retry_after", after).Msg("GitHub asks to slow down")
		return max(after, poll), nil
	}
	s.Troubles++
	userErr, byPerson := errors.AsType[*run.UserError](err)
	if byPerson || s.Troubles >= maxTroubles {
		detail := err.Error()
		if byPerson {
			detail = userErr.Error()
		}
		if s.End != "" {
			// Telling people is what fails: there is nobody left to tell.
			log.Error().Err(err).Msg("run ended without being able to say so")
			s.Phase = run.PhaseFailed
			if err := r.save(ctx, row.ID, lease, s); err != nil {
				return 0, err
			}
			r.retire(ctx, row.ID, d)
			return 0, nil
		}
		s = d.engine.Fail(s, detail)
		s.Troubles = 0
	}
	log.Warn().Err(err).Int("in_a_row", s.Troubles).Msg("step failed")
	if err := r.save(ctx, row.ID, lease, s); err != nil {
		return 0, err
	}
	return min(firstPause<<min(s.Troubles, 20), lastPause), nil
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
		err := r.cfg.Store.InTx(r.life, func(tx *sql.Tx) error { return r.cfg.Queue.Wake(r.life, tx, id) })
		if err != nil && r.life.Err() == nil {
			log.Warn().Err(err).Msg("waking a run failed; it is polled")
		}
	})
}

// driver gives what is needed to step the run.
func (r *Reconciler) driver(row store.Run) (*driver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d, ok := r.drivers[row.ID]; ok {
		return d, nil
	}
	repo := r.cfg.GitHub.Repo(row.Installation, row.RepoOwner, row.RepoName)
	source := &mirrorSource{mirrors: r.mirrors, repo: repo, node: row.RepoNode, cloneURL: repo.HTMLURL() + ".git"}
	d := &driver{watched: map[loop.Handle]bool{}}
	dir := filepath.Join(r.cfg.DataDir, "runs", string(row.ID))
	hostCfg := host.Config{
		Dir: dir, Pool: filepath.Join(r.cfg.DataDir, "trees", shortName(row.RepoNode)), Source: source, Sandbox: r.cfg.Sandbox, Backend: r.cfg.Backend, Image: r.cfg.Image,
		OnOwnerDeath: sandbox.KeepWithoutOwner, Gates: r.cfg.Gates, Resources: r.cfg.Resources, Credentials: r.cfg.Credentials, Limits: r.cfg.Limits, Emit: r.cfg.Watch,
	}
	if r.cfg.Models != nil {
		token := r.cfg.Models.Token(row.ID)
		endpoint := r.cfg.Models.Endpoint
		endpoint.RunToken = token
		handler, err := gateway.NewHandler(endpoint)
		if err != nil {
			return nil, fmt.Errorf("make the gateway of run %s: %w", row.ID, err)
		}
		// A unix socket's path must stay below 108 bytes, so it is not in dir.
		socketDir := filepath.Join(r.cfg.DataDir, "gw", shortName(row.ID))
		if d.gateway, err = gateway.Listen(socketDir, handler); err != nil {
			return nil, fmt.Errorf("open the gateway of run %s: %w", row.ID, err)
		}
		hostCfg.Gateway = &host.Gateway{Dir: d.gateway.Dir(), Token: token}
	}
	d.host = host.New(hostCfg)
	d.engine = &loop.Engine{
		Workspace: d.host, Runner: d.host,
		Publisher: &publisher{
			now: r.cfg.Now, repo: repo, host: d.host, effects: r.effects, issue: row.IssueNumber,
			agent: r.cfg.AgentName, mask: r.cfg.Mask,
		},
		Now: r.cfg.Now, Emit: r.cfg.Watch,
	}
	r.drivers[row.ID] = d
	return d, nil
}

func shortName[T ~string](id T) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:6])
}

// retire lets go of a run that has ended. Its directory is removed: what is
// worth keeping is on the branch and in the store.
func (r *Reconciler) retire(ctx context.Context, id run.ID, d *driver) {
	r.mu.Lock()
	delete(r.drivers, id)
	r.mu.Unlock()
	err := d.close(context.WithoutCancel(ctx))
	if derr := d.host.Delete(); derr != nil {
		err = errors.Join(err, fmt.Errorf("remove the directory of run %s: %w", id, derr))
	}
	if err != nil {
		// The run itself has ended and is saved; ticking it again mends nothing.
		zerolog.Ctx(ctx).Warn().Err(err).Msg("cleaning up after a run failed")
	}
}
