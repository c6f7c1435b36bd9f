package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/analytics"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/httpd"
	"github.com/org/ralph-action/internal/machine"
	"github.com/org/ralph-action/internal/notify"
	"github.com/org/ralph-action/internal/queue"
	"github.com/org/ralph-action/internal/reconcile"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/docker"
	"github.com/org/ralph-action/internal/sandbox/local"
	"github.com/org/ralph-action/internal/store"
)

// serveCmd is `bot serve`.
type serveCmd struct {
	Config string `default:"ralph.yaml" help:"The server's configuration; see docs/configuration.md (default: ${default})." placeholder:"FILE" type:"path"`
}

// Run serves until a signal.
func (c *serveCmd) Run(ctx bound, io stdio) error {
	cfg, err := config.LoadServer(c.Config, os.LookupEnv, os.ReadFile)
	if err != nil {
		return err
	}
	log := newLogger(cfg.Log, maskedWriter{below(io.err), serverMask(cfg)})
	app, err := newApp(ctx, cfg, log, observers{watch: logRuns(log)})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return errors.Join(&run.UserError{
			Message: "cannot listen on " + cfg.Listen + ": " + err.Error(), Hint: "choose another address with listen", Err: err,
		}, app.close())
	}
	log.Info().Str("listen", l.Addr().String()).Str("webhook", handlers.DefaultPath).Msg("serving")
	return app.serve(ctx, l)
}

// serverMask masks all that is a secret of the server's, and more.
func serverMask(cfg config.Server, more ...string) *redact.Masker {
	known := append(environmentSecrets(os.Environ()), serverSecrets(cfg)...)
	return redact.New(append(known, more...)...)
}

// serverSecrets are the secrets of a server's configuration.
func serverSecrets(cfg config.Server) []string {
	known := []string{
		cfg.Model.APIKey.Reveal(), cfg.Model.AuthToken.Reveal(), cfg.Model.OpenAIKey.Reveal(), cfg.Model.GeminiKey.Reveal(),
		cfg.GitHub.PrivateKey.Reveal(),
	}
	known = append(known, webhookSecrets(cfg)...)
	return append(known, notifySecrets(serverTargets(cfg.Notify))...)
}

// webhookSecrets are those that webhooks may be signed with.
func webhookSecrets(cfg config.Server) []string {
	var secrets []string
	for _, s := range cfg.GitHub.WebhookSecrets {
		secrets = append(secrets, s.Reveal())
	}
	return secrets
}

// credentials are what an agent may know where there is no gateway: the model's, and nothing
// else of the server's.
func credentials(cfg config.Server) map[string]string {
	if cfg.Sandbox.Gated() {
		return nil
	}
	return map[string]string{
		config.EnvAPIKey: cfg.Model.APIKey.Reveal(), config.EnvAuthToken: cfg.Model.AuthToken.Reveal(),
		config.EnvOpenAIKey: cfg.Model.OpenAIKey.Reveal(), config.EnvGeminiKey: cfg.Model.GeminiKey.Reveal(),
	}
}

// newLogger writes what the server does as JSON or for a person to read.
func newLogger(cfg config.Log, w io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(cfg.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	if cfg.Format == "console" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !isTerminal(below(w))}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// logRuns logs what an operator wants to know of each run: that it began, what it has
// landed, and how it ended.
func logRuns(log zerolog.Logger) func(run.Event) {
	return func(ev run.Event) {
		line := log.Info().Str("run", string(ev.Run)).Str("repo", ev.Repo).Str("subject", run.PrintableLine(ev.Subject))
		switch ev.Kind { //nolint:exhaustive // the others are for who watches one run
		case run.EventRunStarted:
			line.Int("tasks", ev.Total).Int("done", ev.Done).Msg("run began")
		case run.EventTaskDone:
			line.Str("task", ev.TaskID).Int("tasks", ev.Total).Int("done", ev.Done).Float64("cost_usd", run.Dollars(ev.CostUSD)).
				Msg("task landed")
		case run.EventRunEnded:
			line.Str("end", string(ev.End)).Str("detail", run.PrintableLine(ev.Text)).Int("iterations", ev.Iterations).
				Float64("cost_usd", run.Dollars(ev.CostUSD)).Str("took", ev.Duration.Round(time.Second).String()).Msg("run ended")
		default:
			line.Discard()
		}
	}
}

// app is the GitHub App as one process serves it.
type app struct {
	store      *store.Store
	analytics  *analytics.Writer
	queue      *queue.Queue
	deliveries *delivery.Receiver
	reconciler *reconcile.Reconciler
	github     *ghapp.App
	notifier   *notify.Notifier
	handler    http.Handler
	metrics    *metrics
	cfg        config.Server
	log        zerolog.Logger
	onWork     func()
	// unlock gives the data directory free for another server.
	unlock func() error
	// metricsAddr is where metrics are served, "" for nowhere.
	metricsAddr string
	// room is what the machine has left.
	room func() machine.Room
}

// observers are told what goes on in the runs of an App; see reconcile.Config.
type observers struct {
	// self is the program that starts agents and checks, "" for this one.
	self   string
	watch  func(run.Event)
	onSave func(id run.ID, saved bool)
	// onWork is told after each job of the queue, and after each look for what was missed.
	onWork func()
	// now is the clock, nil for time.Now, and writeEvery the pause between
	// writes, zero for the one that GitHub asks for.
	now        func() time.Time
	writeEvery time.Duration
	// quiet is how long nothing more must have been said in review, zero for some
	// seconds.
	quiet time.Duration
	// room says what the machine has left, nil for looking at it.
	room func() machine.Room
}

// withDefaults fills in what nothing else is said of.
func (obs observers) withDefaults(cfg config.Server) (_ observers, err error) {
	if obs.now == nil {
		obs.now = time.Now
	}
	if obs.room == nil {
		obs.room = func() machine.Room { return machine.Look(cfg.DataDir) }
	}
	if obs.self == "" {
		if obs.self, err = os.Executable(); err != nil {
			return obs, fmt.Errorf("find this program: %w", err)
		}
	}
	return obs, nil
}

// parts are what every door to GitHub is made of.
type parts struct {
	store     *store.Store
	analytics *analytics.Writer
	github    *ghapp.App
	// deliveries and reconcile lack what tells the doors apart.
	deliveries delivery.Config
	reconcile  reconcile.Config
	room       func() machine.Room
}

func (p *parts) close() error { return p.store.Close() }

// newParts prepares the data directory and wires up what works the runs. more
// are secrets to be masked besides those of the configuration.
func newParts(
	ctx context.Context, cfg config.Server, gitHub ghapp.Config, log zerolog.Logger, obs observers, more ...string,
) (_ *parts, err error) {
	if obs, err = obs.withDefaults(cfg); err != nil {
		return nil, err
	}
	gitHub.WriteEvery = obs.writeEvery
	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	git, err := gitrepo.New("")
	if err != nil {
		return nil, err
	}
	backend, err := lookupAgent(cfg.Agent.Name, cfg.Sandbox.Kind, agentOptions(cfg, obs.self))
	if err != nil {
		return nil, err
	}
	if cfg.Sandbox.Gated() && len(backend.About().Providers)+len(cfg.Egress) > 0 {
		if err := reconcile.CheckDataDir(cfg.DataDir); err != nil {
			return nil, err
		}
	}
	box, err := openSandbox(ctx, cfg.Sandbox.Kind, docker.Options{
		Self: obs.self, Image: cfg.Sandbox.Image, DataDir: cfg.DataDir,
	}, local.Options{
		Isolation: local.Isolation(cfg.Sandbox.LocalIsolation), Show: cfg.Sandbox.Show, Hide: cfg.Private,
	})
	if err != nil {
		return nil, err
	}
	gh, err := ghapp.New(gitHub)
	if err != nil {
		return nil, err
	}

	p := &parts{github: gh, room: obs.room}
	if p.store, err = store.Open(ctx, cfg.Database()); err != nil {
		return nil, unusableStore(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.store.Close())
		}
	}()
	if err := p.store.Check(ctx); err != nil {
		return nil, unusableStore(err)
	}
	models, err := serverModels(cfg, backend, p.store.Spend())
	if err != nil {
		return nil, err
	}
	if models != nil {
		models.Gateway.Meter.Log = func(err error) {
			log.Error().Err(err).Msg("a charge cannot be written: agents with a budget get no answers until it is")
		}
	}
	mask := serverMask(cfg, more...)
	p.analytics, err = analytics.Open(filepath.Join(cfg.DataDir, analyticsFile), mask.Mask, func(err error) {
		log.Warn().Err(err).Msg("what happens in runs is not recorded any more")
	})
	if err != nil {
		return nil, err
	}
	p.deliveries = delivery.Config{
		Store: p.store, GitHub: gh, Decoder: handlers.Decoder{Label: cfg.Label, App: cfg.GitHub.AppID}, People: cfg.People,
		AgentName: cfg.Agent.Name, Model: cfg.Agent.Model, Limits: cfg.Limits.Tighten, Mask: mask, Now: obs.now,
	}
	p.reconcile = reconcile.Config{
		Store: p.store, GitHub: gh, Git: git, Sandbox: box, Backend: backend, DataDir: cfg.DataDir,
		Image: cfg.Sandbox.Image, AgentName: cfg.Agent.Name, Limits: cfg.Limits.Tighten,
		Resources: sandbox.Resources{
			MemoryBytes: cfg.Sandbox.Memory, CPUs: cfg.Sandbox.CPUs, PIDs: cfg.Sandbox.PIDs, DiskBytes: cfg.Sandbox.Disk,
			DiskFiles: cfg.Sandbox.Files,
		},
		CacheBytes: cfg.Sandbox.Caches,
		Gates:      config.Gates(cfg.Gates), Models: models, Credentials: credentials(cfg),
		Prices: cfg.Model.PriceList(), Mask: mask, Now: obs.now, Quiet: obs.quiet,
		Watch: both(p.analytics.Handle, obs.watch), OnSave: obs.onSave,
		Lacks: func() string { return obs.room().Lacks() },
	}
	p.reconcile.Transcripts = transcript.Open(transcriptsDir(cfg.DataDir), mask)
	p.reconcile.TranscriptLimits = transcript.Limits(cfg.Transcripts)
	return p, nil
}

func makeDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &run.UserError{
			Message: "cannot create the data directory: " + err.Error(),
			Hint:    "set data_dir to a directory this user may write to", Err: err,
		}
	}
	return nil
}

// unusableStore says what to do about a database that cannot be opened.
func unusableStore(err error) error {
	switch {
	case errors.Is(err, store.ErrOtherVersion):
		return &run.UserError{
			Message: err.Error(), Err: err,
			Hint: "move that file away to start with a new one: open runs are forgotten, their branches stay",
		}
	case errors.Is(err, store.ErrDamaged):
		return &run.UserError{
			Message: err.Error(), Err: err,
			Hint: "put a copy of data_dir in its place, however old; without one, begin with an empty data_dir: open runs " +
				"are forgotten, their branches stay",
		}
	case errors.Is(err, store.ErrReadOnly):
		return &run.UserError{
			Message: err.Error(), Err: err,
			Hint: "let this user write to data_dir and all files in it, and mount its disk writable",
		}
	case errors.Is(err, store.ErrFull):
		return &run.UserError{Message: err.Error(), Err: err, Hint: "free some space on the disk of the database"}
	default:
		return err
	}
}

// newApp wires the App together and prepares its data directory.
func newApp(ctx context.Context, cfg config.Server, log zerolog.Logger, obs observers) (_ *app, err error) {
	notifier, err := newNotifier(notify.Config{Targets: serverTargets(cfg.Notify), Every: cfg.Notify.Every},
		serverMask(cfg), logFailed(log))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			notifier.Drop()
		}
	}()
	a := &app{notifier: notifier, cfg: cfg, log: log, onWork: obs.onWork}
	if err := makeDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	if a.unlock, err = lockDataDir(ctx, cfg.DataDir, lockWait); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.unlock())
		}
	}()
	obs.watch = both(both(notifier.Handle, func(ev run.Event) { a.metrics.handle(ev) }), obs.watch)
	p, err := newParts(ctx, cfg, appConfig(cfg), log, obs)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	a.store, a.analytics, a.github, a.room = p.store, p.analytics, p.github, p.room
	p.reconcile.Concurrency = concurrency(cfg)
	a.metrics = newMetrics(standingMetrics{
		store: a.store, dataDir: cfg.DataDir, places: p.reconcile.Concurrency.Agents,
		now: p.deliveries.Now,
	})
	a.queue = queue.New(a.store.Due, log)
	if a.handler, err = handlers.New(handlers.Config{
		Secrets: webhookSecrets(cfg), Now: p.deliveries.Now,
		Keep: func(ctx context.Context, d store.Delivery) error { return a.queue.Keep(ctx, a.store, d) },
	}); err != nil {
		return nil, err
	}
	p.deliveries.Queue, p.reconcile.Queue, p.reconcile.Welcome = a.queue, a.queue, cfg.Welcome
	a.deliveries = delivery.New(p.deliveries)
	a.reconciler = reconcile.New(p.reconcile, a.deliveries)
	return a, nil
}

// appConfig is how the App speaks to GitHub.
func appConfig(cfg config.Server) ghapp.Config {
	return ghapp.Config{
		APIURL: cfg.GitHub.APIURL, GraphQLURL: cfg.GitHub.GraphQLURL, WebURL: cfg.GitHub.WebURL,
		Kin:   cfg.GitHub.PullRequestsOf,
		AppID: cfg.GitHub.AppID, PrivateKey: []byte(cfg.GitHub.PrivateKey.Reveal()), UserAgent: "ralph-bot",
	}
}

// concurrency is how many agents and checks are at work at once.
func concurrency(cfg config.Server) config.Concurrency {
	c := cfg.Concurrency
	if c.Agents == 0 {
		c.Agents = machine.Agents(cfg.Sandbox.Memory, cfg.Sandbox.CPUs)
	}
	return c
}

// serverModels is what is behind the gateway, nil where there is none: the agent
// then brings its own credentials, and has a network.
func serverModels(cfg config.Server, backend agent.Backend, ledger spend.Ledger) (*reconcile.Models, error) {
	if !cfg.Sandbox.Gated() {
		return nil, nil //nolint:nilnil // no gateway is an answer
	}
	upstreams, err := upstreamsOf(backend, upstreamFrom(cfg.Model))
	if err != nil || len(upstreams)+len(cfg.Egress) == 0 {
		return nil, err
	}
	secret, err := runTokenKey(filepath.Join(cfg.DataDir, "run-token.key"))
	if err != nil {
		return nil, err
	}
	return &reconcile.Models{
		Gateway: gateway.Config{
			Upstreams: upstreams, Models: cfg.Model.Allowed, Egress: cfg.Egress,
			Meter:    spend.NewMeter(ledger, cfg.Model.PriceList()),
			InFlight: gateway.NewInFlight(), Watch: newWatch(),
		},
		Key: func(id run.ID) []byte {
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(id))
			return mac.Sum(nil)
		},
		IssueUSD: cfg.Budgets.IssueUSD, DayUSD: cfg.Budgets.RepositoryDayUSD,
	}, nil
}

// agentOptions are what the server's configuration says of its agent.
func agentOptions(cfg config.Server, self string) agent.Options {
	return agent.Options{
		ScriptFile: cfg.Agent.ScriptFile, Self: self, Path: cfg.Agent.Path, Command: cfg.Agent.Command,
		Env: func(name string) string {
			if name == "OPENAI_BASE_URL" {
				return cfg.Model.OpenAIBaseURL
			}
			return os.Getenv(name)
		},
	}
}

// runTokenKey is the key that run tokens are made with. It is kept, because an
// agent that outlives this process goes on with the token it has.
func runTokenKey(file string) ([]byte, error) {
	return kept(file, func(key []byte) bool { return len(key) == sha256.Size }, func() []byte {
		key := make([]byte, sha256.Size)
		_, _ = rand.Read(key) // never fails, see crypto/rand
		return key
	})
}

// kept is what a file of the data directory holds, or from now on holds where there is none
// or it is not valid.
func kept(file string, valid func([]byte) bool, fresh func() []byte) ([]byte, error) {
	b, err := os.ReadFile(file) //nolint:gosec // G304: a file of our own data directory
	if err == nil && valid(b) {
		return b, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", filepath.Base(file), err)
	}
	b = fresh()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return nil, fmt.Errorf("keep %s: %w", filepath.Base(file), err)
	}
	return b, nil
}

// begin cleans up after earlier runs, and has the queue work.
func (a *app) begin(ctx context.Context) error {
	if err := a.reconciler.FillPlaces(ctx); err != nil {
		return err
	}
	if err := a.reconciler.Sweep(ctx); err != nil {
		a.log.Warn().Err(err).Msg("cleaning up after earlier runs failed")
	}
	spoken, err := a.store.SpokenTo(ctx)
	if err != nil {
		return err
	}
	for _, id := range spoken {
		a.queue.Wake(nil, id)
	}
	a.queue.Start(ctx, a.work())
	return nil
}

// serve works until ctx ends, then stops in order: no new webhooks, no new
// ticks, gateways closed. Agents run on and are found again by the next start.
func (a *app) serve(ctx context.Context, l net.Listener) error {
	if err := a.begin(a.log.WithContext(context.WithoutCancel(ctx))); err != nil {
		return errors.Join(err, l.Close(), a.close())
	}
	endMetrics, err := a.serveMetrics(ctx)
	if err != nil {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		return errors.Join(err, l.Close(), a.queue.Stop(grace), a.reconciler.Close(grace), a.close())
	}
	mux := http.NewServeMux()
	mux.Handle(handlers.DefaultPath, a.metrics.webhook(a.handler))
	a.health(mux)
	server := httpd.New(mux)
	server.ReadTimeout, server.WriteTimeout = time.Minute, time.Minute
	server.BaseContext = func(net.Listener) context.Context { return a.log.WithContext(context.WithoutCancel(ctx)) }
	server.ErrorLog = slog.NewLogLogger(zerolog.NewSlogHandler(a.log), slog.LevelWarn)
	served := make(chan error, 1)
	go func() { served <- server.Serve(httpd.Limit(l, maxConns)) }()
	catchingUp := a.keepCatchingUp(ctx)
	select {
	case err = <-served:
	case <-ctx.Done():
		a.log.Info().Msg("stopping")
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = server.Shutdown(grace)
	}
	catchingUp()
	grace, cancel := context.WithTimeout(a.log.WithContext(context.WithoutCancel(ctx)), 20*time.Second)
	defer cancel()
	err = errors.Join(err, endMetrics(grace), a.queue.Stop(grace), a.reconciler.Close(grace))
	closeNotifier(ctx, a.notifier, stopGrace)
	return errors.Join(err, a.close())
}

// work is what the queue's jobs do.
func (a *app) work() queue.Handlers {
	done := func(kind string, begun time.Time) {
		a.metrics.worked(kind, begun)
		if a.onWork != nil {
			a.onWork()
		}
	}
	return queue.Handlers{
		Delivery: func(ctx context.Context, guid string) error {
			defer done(jobDelivery, time.Now())
			return a.deliver(ctx, guid)
		},
		Advance: func(ctx context.Context, id run.ID) (time.Duration, error) {
			defer done(jobTick, time.Now())
			return a.reconciler.Advance(ctx, id)
		},
	}
}

// deliver works a delivery; one that GitHub lets no further now comes back.
func (a *app) deliver(ctx context.Context, guid string) error {
	err := a.deliveries.Work(ctx, guid)
	if class, after := ghapp.Classify(err); class == ghapp.RateLimited {
		return &queue.LaterError{After: after, Err: err}
	}
	return err
}

// maxConns bounds the connections to webhooks and health, of which GitHub has a few at a
// time.
const maxConns = 512

// catchUpEvery is the pause between two looks for what was missed.
const catchUpEvery = 10 * time.Minute

// tidyEvery is the pause between two looks for what nobody needs any more.
const tidyEvery = time.Hour

// keepCatchingUp makes up, now and from time to time, for what was missed. What it
// returns ends that, and waits for it.
func (a *app) keepCatchingUp(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(a.log.WithContext(context.WithoutCancel(ctx)))
	var work sync.WaitGroup
	work.Go(func() {
		tick, tidying := time.NewTicker(catchUpEvery), time.NewTicker(tidyEvery)
		defer tick.Stop()
		defer tidying.Stop()
		look := func() {
			if err := a.deliveries.Redeliver(ctx); err != nil && ctx.Err() == nil {
				a.log.Warn().Err(err).Msg("making up for what was missed failed; it is tried again")
			}
		}
		tidy := func() {
			if err := a.tidy(ctx); err != nil && ctx.Err() == nil {
				a.log.Warn().Err(err).Msg("removing what is old failed; it is tried again")
			}
		}
		tidy()
		look()
		for {
			if a.onWork != nil {
				a.onWork()
			}
			select {
			case <-tick.C:
				look()
			case <-tidying.C:
				tidy()
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}

// tidy removes what nobody needs any more, and logs what that was.
func (a *app) tidy(ctx context.Context) error {
	pruned, err := a.store.Prune(ctx, a.deliveries.Now())
	removed, cerr := a.reconciler.CollectGarbage(ctx)
	tell := func(kind string, count, bytes int64) {
		if count > 0 {
			a.log.Info().Str("kind", kind).Int64("count", count).Int64("bytes", bytes).Msg("removed what is old")
		}
	}
	tell("bodies of webhooks", pruned.Bodies, 0)
	tell("webhooks", pruned.Deliveries, 0)
	tell("runs", pruned.Runs, 0)
	for _, g := range removed {
		tell(g.Kind, int64(g.Count), g.Bytes)
	}
	return errors.Join(err, cerr)
}

func (a *app) close() error {
	a.notifier.Drop()
	return errors.Join(a.store.Close(), a.unlock())
}

// both tells two of each event; the second may be nil.
func both(a, b func(run.Event)) func(run.Event) {
	return func(ev run.Event) {
		a(ev)
		if b != nil {
			b(ev)
		}
	}
}
