package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/queue"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/store"
)

// clock is a clock that is moved by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// world is a run whose work tree and publisher answer as a test wants.
type world struct {
	loop.Work
	loop.Publisher
	t     *testing.T
	clock clock
	r     *Reconciler
	id    run.ID
	open  func(context.Context) error
	show  error
	shown []loop.State
	ends  []run.Event // of runs, as whoever watches is told
	opens int
}

func (w *world) Open(ctx context.Context, _ loop.State) (loop.Opened, error) {
	w.opens++
	return loop.Opened{}, w.open(ctx)
}

func (w *world) Show(_ context.Context, s loop.State) (*loop.PullRequest, error) {
	w.shown = append(w.shown, s)
	return nil, w.show
}

// idle is a sandbox that nothing is started in.
type idle struct{ sandbox.Sandbox }

func (idle) About() sandbox.About { return sandbox.About{Name: "idle"} }

func newWorld(t *testing.T, open func(context.Context) error) *world {
	t.Helper()
	w := &world{t: t, open: open, id: "r-1", clock: clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	dir := shortDir(t)
	st, err := store.Open(context.WithoutCancel(t.Context()), filepath.Join(dir, "ralph.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	w.r = New(Config{Git: &gitrepo.Git{}, Store: st, DataDir: dir, Now: w.clock.now, Sandbox: idle{}},
		delivery.New(delivery.Config{Store: st, Now: w.clock.now}))
	s := loop.NewState(loop.Request{Run: w.id}, w.clock.now())
	state, err := loop.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.InTx(t.Context(), func(tx *store.Tx) error {
		return st.CreateRun(t.Context(), tx, store.Run{ID: w.id, RepoNode: "R", IssueNumber: 1, Phase: s.Phase,
			State: state, CreatedAt: w.clock.now()})
	}); err != nil {
		t.Fatal(err)
	}
	w.drive()
	return w
}

// drive puts the world in the place of what the run would be driven by.
func (w *world) drive() {
	w.r.drivers[w.id] = &driver{
		host:    host.New(host.Config{Dir: filepath.Join(w.r.cfg.DataDir, "runs", string(w.id))}),
		watched: map[loop.Handle]bool{},
		repo:    "/",
		engine:  &loop.Engine{Work: w, Publisher: w, Now: w.clock.now, Emit: w.hear},
	}
}

func (w *world) hear(ev run.Event) {
	if ev.Kind == run.EventRunEnded {
		w.ends = append(w.ends, ev)
	}
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rec") //nolint:usetesting // t.TempDir has the test's name in it, which is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// advance ticks the run once and lets the pause pass that it wants.
func (w *world) advance(ctx context.Context) loop.State {
	w.t.Helper()
	pause, err := w.r.Advance(ctx, w.id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.clock.pass(pause)
	return w.state()
}

func (w *world) state() loop.State {
	w.t.Helper()
	row, err := w.r.cfg.Store.Run(context.WithoutCancel(w.t.Context()), w.id)
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := loop.Decode(row.State)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// cancel has a person stop the run.
func (w *world) cancel() {
	w.t.Helper()
	if err := w.r.cfg.Store.InTx(w.t.Context(), func(tx *store.Tx) error {
		return w.r.cfg.Store.RequestCancel(w.t.Context(), tx, w.id, "ada", w.clock.now())
	}); err != nil {
		w.t.Fatal(err)
	}
}

// stayQuiet has the run take people for told: this world has no GitHub.
func (w *world) stayQuiet() {
	w.t.Helper()
	w.r.telling.TryLock()
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	broken := &run.UserError{Message: "the file is wrong", Hint: "mend it"}
	t.Run("an engine that is away is waited for", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(context.Context) error { return fmt.Errorf("start: %w", sandbox.ErrUnavailable) })
		began := w.clock.now()
		for n := range 600 { // some hours
			w.stayQuiet()
			if s := w.advance(t.Context()); s.End != "" || s.Troubles != 0 || s.Delayed == nil || s.Delayed.Why == "" {
				t.Fatalf("after %d failures: ended %q, %d troubles, %+v", n+1, s.End, s.Troubles, s.Delayed)
			}
		}
		if took := w.clock.now().Sub(began); took < 9*time.Hour {
			t.Errorf("only %v went by", took)
		}
		// Another failure counts like any.
		w.open = func(context.Context) error { return errors.New("it broke") }
		if s := w.advance(t.Context()); s.Troubles != 1 {
			t.Errorf("%d troubles", s.Troubles)
		}
	})
	t.Run("GitHub that fails is waited for, and a call that it never takes is given up", func(t *testing.T) {
		t.Parallel()
		gitHubs := &ghapp.Error{Op: "read branch", Status: 502, Class: ghapp.Transient}
		w := newWorld(t, func(context.Context) error { return fmt.Errorf("open: %w", gitHubs) })
		began := w.clock.now()
		for n := 0; w.clock.now().Sub(began) < gitHubFor-lastPause; n++ {
			w.stayQuiet()
			s := w.advance(t.Context())
			if s.End != "" || n >= blips && (s.Delayed == nil || !strings.Contains(s.Delayed.Why, "GitHub")) {
				t.Fatalf("after %d failures: ended %q, %+v", n+1, s.End, s.Delayed)
			}
		}
		// What else fails in between is at its beginning.
		w.open = func(context.Context) error { return errors.New("it broke") }
		if s := w.advance(t.Context()); s.End != "" {
			t.Fatalf("ended %q: %s", s.End, s.EndDetail)
		}
		w.open = func(context.Context) error { return gitHubs }
		began = w.clock.now()
		for w.state().End == "" {
			if took := w.clock.now().Sub(began); took > gitHubFor+lastPause {
				t.Fatalf("not given up after %v", took)
			}
			w.advance(t.Context())
		}
		if took := w.clock.now().Sub(began); took < gitHubFor {
			t.Errorf("given up after %v", took)
		}
	})
	t.Run("what fails again and again is told, and given up", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(context.Context) error { return errors.New("start agent: it broke") })
		var said, last time.Time // when the run is said to end, and when its last step failed
		for n := 1; w.state().End == ""; n++ {
			w.stayQuiet()
			last = w.clock.now()
			s := w.advance(t.Context())
			if s.End == "" && n >= blips {
				if s.Delayed == nil || !strings.Contains(s.Delayed.Why, "start agent: it broke") {
					t.Fatalf("after %d failures: %+v", n, s.Delayed)
				}
				said = s.Delayed.GivesUp
				if all, err := ReadStanding(t.Context(), w.r.cfg.Store); err != nil || all.Waiting != 0 {
					t.Fatalf("%d runs in line, %v", all.Waiting, err)
				}
			}
			if n > 2*maxTroubles {
				t.Fatal("not given up")
			}
		}
		if s := w.state(); s.End != run.EndFailed || !strings.Contains(s.EndDetail, "it broke") {
			t.Errorf("ended %q: %s", s.End, s.EndDetail)
		}
		if !said.Equal(last) {
			t.Errorf("said to end at %v, ended at %v", said, last)
		}
		text := publish.WaitingText(loop.Delayed{Why: "it broke", GivesUp: said})
		if !strings.Contains(text, "it broke. I try again until about 03:27 UTC on 2 January, then the run ends.") {
			t.Error(text)
		}
	})
	t.Run("no tick comes early, but for who cancels", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(context.Context) error { return sandbox.ErrUnavailable })
		for range 2 { // the second is too early
			if pause, err := w.r.Advance(t.Context(), w.id); err != nil || pause != time.Second {
				t.Fatalf("pause %v, %v", pause, err)
			}
		}
		if w.opens != 1 {
			t.Fatalf("%d attempts, want 1", w.opens)
		}
		w.cancel()
		if s := w.advance(t.Context()); s.End != run.EndCancelled {
			t.Errorf("ended %q", s.End)
		}
	})
	t.Run("what a person must mend ends the run and is told", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(context.Context) error { return broken })
		if s := w.advance(t.Context()); s.End != run.EndFailed || s.EndDetail != "the file is wrong: mend it" {
			t.Errorf("ended %q: %s", s.End, s.EndDetail)
		}
		if s := w.advance(t.Context()); !s.Phase.Terminal() || len(w.shown) != 1 || w.shown[0].EndDetail == "" {
			t.Errorf("phase %s, shown %d times", s.Phase, len(w.shown))
		}
	})
	for _, telling := range []struct {
		name  string
		fails error
		tries int
	}{
		{"telling is not given up at once", &run.UserError{Message: "cannot be told"}, maxTroubles},
		{
			"a refusal to be told is no outage",
			fmt.Errorf("show: %w", &ghapp.Error{Op: "comment", Status: 403, Class: ghapp.Forbidden, Message: "locked"}), publish.MaxRefusals,
		},
	} {
		t.Run(telling.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(context.Context) error { return broken })
			w.show = telling.fails
			for range telling.tries { // the first finds what is broken
				if s := w.advance(t.Context()); s.Phase.Terminal() {
					t.Fatalf("given up after %d attempts to tell", len(w.shown))
				}
			}
			if s := w.advance(t.Context()); s.Phase != run.PhaseFailed || len(w.shown) != telling.tries {
				t.Errorf("phase %s after %d attempts to tell", s.Phase, len(w.shown))
			}
			// Who is told elsewhere than on GitHub hears of it.
			if len(w.ends) != 1 || w.ends[0].End != run.EndFailed || w.ends[0].Text != "the file is wrong: mend it" {
				t.Errorf("told %+v", w.ends)
			}
		})
	}
	t.Run("an end is told once GitHub is back, however long that takes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(context.Context) error { return broken })
		w.show = &ghapp.Error{Op: "comment", Status: 502, Class: ghapp.Transient}
		began := w.clock.now()
		for w.clock.now().Sub(began) < 3*gitHubFor {
			if s := w.advance(t.Context()); s.Phase.Terminal() {
				t.Fatalf("given up after %v", w.clock.now().Sub(began))
			}
		}
		w.show = nil
		if s := w.advance(t.Context()); !s.Phase.Terminal() || s.End != run.EndFailed {
			t.Errorf("phase %s, ended %q", s.Phase, s.End)
		}
	})
	t.Run("a server that starts again and again gives up no sooner", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(context.Context) error { return errors.New("the network is away") })
		for range 3 * maxTroubles {
			if _, err := w.r.Advance(t.Context(), w.id); err != nil {
				t.Fatal(err)
			}
			if s := w.state(); s.End != "" {
				t.Fatalf("ended %q after %d troubles: %s", s.End, s.Troubles, s.EndDetail)
			}
			w.drive() // with the process goes what it knew
			w.clock.pass(time.Second)
		}
		w.clock.pass(troubledFor)
		if s := w.advance(t.Context()); s.End != run.EndFailed {
			t.Errorf("ended %q", s.End)
		}
	})
	t.Run("a step that is cut off counts", func(t *testing.T) {
		t.Parallel()
		cut := &deadline{Context: t.Context(), over: make(chan struct{})}
		w := newWorld(t, func(ctx context.Context) error {
			close(cut.over)
			<-ctx.Done()
			return ctx.Err()
		})
		if s := w.advance(cut); s.End != "" || s.Troubles != 1 {
			t.Errorf("ended %q, %d troubles", s.End, s.Troubles)
		}
	})
	t.Run("a process that stops is no trouble", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld(t, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if _, err := w.r.Advance(ctx, w.id); !errors.Is(err, context.Canceled) || w.state().Troubles != 0 {
			t.Errorf("%v, %d troubles", err, w.state().Troubles)
		}
	})
	t.Run("a fetch that takes longer than the run", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(context.Context) error { return fmt.Errorf("fetch: %w", host.ErrFetching) })
		if s := w.advance(t.Context()); s.End != "" || s.Troubles != 0 {
			t.Fatalf("ended %q, %d troubles", s.End, s.Troubles)
		}
		w.clock.pass(run.DefaultLimits().RunTimeout)
		if s := w.advance(t.Context()); s.End != run.EndFailed || !s.Phase.Terminal() ||
			!strings.Contains(s.EndDetail, "fetched") {
			t.Errorf("ended %q: %s", s.End, s.EndDetail)
		}
	})
}

// Close does not wait longer than it may.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	hold := make(chan struct{})
	w.r.waiters.Go(func() { <-hold })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.r.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(hold)
	w.r.waiters.Wait()
}

// A run's driver is made once, and its gateway's socket goes with the run.
func TestGatewayGoesWithTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	clear(w.r.drivers)
	ctx, st := t.Context(), w.r.cfg.Store
	cfg := w.r.cfg
	app, err := ghapp.New(ghapp.Config{
		APIURL: "https://api.github.com/", AppID: 1, UserAgent: "test", PrivateKey: ghsimtest.Key(), // which is never asked
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.GitHub = app
	cfg.Models = &Models{
		Gateway: gateway.Config{
			Upstreams: []gateway.Upstream{{Provider: run.ProviderAnthropic,
				BaseURL: &url.URL{Scheme: "https", Host: "model.example"}, APIKey: "k"}},
			Meter: spend.NewMeter(st.Spend(), run.ListPrices()),
		},
		Key: func(run.ID) []byte { return []byte("k") },
	}
	r := New(cfg, delivery.New(delivery.Config{Store: st, Now: cfg.Now}))
	driver := func() *driver {
		t.Helper()
		row, err := st.Run(ctx, w.id)
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.driver(row)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := driver()
	if again := driver(); again != first || first.gateway == nil {
		t.Errorf("made anew: %v, gateway %v", again != first, first.gateway)
	}
	state, err := loop.Encode(w.state())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.SaveState(ctx, w.id, run.PhaseDone, run.EndPlanned, state, w.clock.now()); err != nil {
		t.Fatal(err)
	}
	if pause, err := r.Advance(ctx, w.id); err != nil || pause != 0 || len(r.drivers) != 0 {
		t.Errorf("pause %v, %v, %d drivers", pause, err, len(r.drivers))
	}
	if _, err := os.Lstat(first.gateway.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket of a run that has ended is there: %v", err)
	}
}

// A comment that names a time holds for one wait: the next one has its own.
func TestEachTimeIsTold(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := &loop.Engine{Now: func() time.Time { return now }, Emit: func(run.Event) {}}
	wait := func(s loop.State, d loop.Delayed) (loop.State, string) {
		now = now.Add(time.Minute)
		s = e.Delay(s, d)
		return s, occasion("r-1", *s.Delayed)
	}
	for name, tt := range map[string]struct {
		wait  loop.Delayed
		again bool
	}{
		"failing": {loop.Delayed{GivesUp: now.Add(time.Hour)}, true},
		"waiting": {loop.Delayed{}, false},
		"in line": {loop.Delayed{Queued: true}, false},
	} {
		s, first := wait(loop.State{}, tt.wait)
		if _, same := wait(s, tt.wait); same != first {
			t.Errorf("%s: %q within one wait, and %q", name, first, same)
		}
		if _, next := wait(loop.State{}, tt.wait); (next != first) != tt.again {
			t.Errorf("%s: %q, and for the next wait %q", name, first, next)
		}
	}
}

// full is a ledger that cannot be written for a time.
type full struct {
	spend.Ledger
	err error
}

func (f *full) Charge(ctx context.Context, start string, c spend.Charge) error {
	if f.err != nil {
		return f.err
	}
	return f.Ledger.Charge(ctx, start, c)
}

// A charge that could not be written is, at the latest, when the server stops.
func TestCloseChargesWhatIsOwed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ledger := &full{Ledger: w.r.cfg.Store.Spend(), err: errors.New("the disk is full")}
	m := spend.NewMeter(ledger, run.ListPrices())
	w.r.cfg.Models = &Models{Gateway: gateway.Config{Meter: m}}
	start := spend.Start{Name: "r-1-1", Scopes: []spend.Scope{spend.RunScope(w.id, 1000)}}
	if err := m.Begin(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	a, _, err := m.Admit(t.Context(), start, spend.Request{Model: "claude-sonnet-4-5", Input: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.SettleCut(t.Context(), spend.Tokens{}); !errors.Is(err, ledger.err) {
		t.Fatal(err)
	}
	ledger.err = nil
	if err := w.r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := m.Report(t.Context(), start.Name); err != nil || r.Usage().InputTokens != 7 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A gateway that cannot be opened is told on the issue.
func TestNoGateway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.r.cfg.Models = &Models{
		Gateway: gateway.Config{
			Upstreams: []gateway.Upstream{{Provider: run.ProviderAnthropic,
				BaseURL: &url.URL{Scheme: "ftp", Host: "x"}}},
			Meter: spend.NewMeter(w.r.cfg.Store.Spend(), run.ListPrices()),
		},
		Key: func(run.ID) []byte { return []byte("k") },
	}
	if s := w.advance(t.Context()); s.End != run.EndFailed || !strings.Contains(s.EndDetail, "model endpoint") {
		t.Errorf("ended %q: %s", s.End, s.EndDetail)
	}
	if s := w.advance(t.Context()); !s.Phase.Terminal() || len(w.shown) != 1 {
		t.Errorf("phase %s, told %d times", s.Phase, len(w.shown))
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, dir := range []string{"runs/r-1/work", "runs/r-dead/work", "gw/" + shortName(w.id) + "/gw",
		"gw/000000000000/gw"} {
		if err := os.MkdirAll(filepath.Join(w.r.cfg.DataDir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.r.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, kind := range []string{"runs", "gw"} {
		entries, err := os.ReadDir(filepath.Join(w.r.cfg.DataDir, kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, kind+"/"+e.Name())
		}
	}
	if want := []string{"runs/r-1", "gw/" + shortName(w.id)}; !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}

// TestOneTickAtATime: who has a run ticked beside another tick is told to come back.
func TestOneTickAtATime(t *testing.T) {
	t.Parallel()
	var w *world
	w = newWorld(t, func(ctx context.Context) error {
		if w.opens == 1 {
			if _, err := w.r.Advance(ctx, w.id); !errors.Is(err, queue.ErrBusy) {
				t.Errorf("a second tick beside the first: %v", err)
			}
		}
		return errors.New("disk full")
	})
	w.advance(t.Context())
	if w.advance(t.Context()); w.opens != 2 {
		t.Errorf("opened %d times, want once in each tick", w.opens)
	}
}

// deadline is a context whose time is over when the test says so.
type deadline struct {
	context.Context //nolint:containedctx // it is one
	over            chan struct{}
}

func (d *deadline) Done() <-chan struct{} { return d.over }

func (d *deadline) Err() error {
	select {
	case <-d.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
