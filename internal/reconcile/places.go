package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/admission"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/store"
)

const (
	// placeAway is for how long a place is kept free for a run that does not ask: runs
	// that wait ask every two seconds, but for those that something else keeps.
	placeAway = 30 * time.Second
	// placeSeen is how often it is noted that a run still asks.
	placeSeen = placeAway / 3
	// placePause is the pause between two looks for a place. A place that is freed wakes
	// whoever is next.
	placePause = 2 * time.Second
	// tellAfter is how long a run has waited when people are told.
	tellAfter = time.Minute
	// keepTurns is for how long a turn counts.
	keepTurns = 24 * time.Hour
)

// placing is a Runner that starts nothing before the run has a place.
type placing struct {
	loop.Runner
	r   *Reconciler
	row store.Run
}

// StartAgent implements loop.Runner.
func (p *placing) StartAgent(ctx context.Context, s loop.State, a loop.AgentStart) (loop.Handle, error) {
	if err := p.r.admit(ctx, p.row, s, a.Name); err != nil {
		return "", err
	}
	h, err := p.Runner.StartAgent(ctx, s, a)
	return h, p.r.giveUp(ctx, a.Name, err)
}

// StartGate implements loop.Runner.
func (p *placing) StartGate(ctx context.Context, s loop.State, g loop.GateStart) (loop.Handle, error) {
	if err := p.r.admit(ctx, p.row, s, g.Name); err != nil {
		return "", err
	}
	h, err := p.Runner.StartGate(ctx, s, g)
	return h, p.r.giveUp(ctx, g.Name, err)
}

// giveUp gives a place back where the error of a start says that nothing was started.
func (r *Reconciler) giveUp(ctx context.Context, process string, err error) error {
	if !errors.Is(err, sandbox.ErrNoImage) {
		return err
	}
	return errors.Join(err, r.cfg.Store.InTx(ctx, func(tx *store.Tx) error {
		freed, err := r.cfg.Store.FreePlace(ctx, tx, process)
		if err != nil || !freed {
			return err
		}
		return r.wakeNext(ctx, tx)
	}))
}

// admit gives a run a place for a process, or a *loop.Delay that says what it waits for.
// A place is given back by the state that has seen the process end: it is in the
// database like the state, so that it outlives this process as the other does.
func (r *Reconciler) admit(ctx context.Context, row store.Run, s loop.State, process string) error {
	now := r.cfg.Now()
	own := place(row, s, process, now)
	places, turns, err := r.cfg.Store.Places(ctx)
	if err != nil {
		return err
	}
	// Most who ask wait on, and nothing is written for that.
	was, has := find(places, own)
	if has && !was.GrantedAt.IsZero() {
		return nil
	}
	if r.cfg.Lacks != nil {
		if why := r.cfg.Lacks(); why != "" {
			return &loop.Delay{Why: why}
		}
	}
	d := r.decide(places, turns, own, now)
	wait := d.Waits[process]
	if has && !d.Starts(process) && now.Sub(was.SeenAt) < placeSeen && was.Line == wait.Place && was.Why == wait.Why {
		return queued(wait)
	}
	starts := false
	err = r.cfg.Store.InTx(ctx, func(tx *store.Tx) error {
		places, turns, err := r.cfg.Store.PlacesTx(ctx, tx)
		if err != nil {
			return err
		}
		d := r.decide(places, turns, own, now)
		starts, wait = d.Starts(process), d.Waits[process]
		own.Line, own.Why = wait.Place, wait.Why
		if err := r.cfg.Store.AskPlace(ctx, tx, own); err != nil || !starts {
			return err
		}
		return r.cfg.Store.GrantPlace(ctx, tx, process, now, admission.OwnerTurn(own.Owner),
			admission.RepositoryTurn(own.Repo))
	})
	if err != nil {
		return err
	}
	if !starts {
		return queued(wait)
	}
	return nil
}

func queued(w admission.Wait) error {
	return &loop.Delay{
		Why: fmt.Sprintf("%s; number %d in this repository's line", w.Why, w.Place), For: placePause, Queued: true,
	}
}

// place is that of a run's process.
func place(row store.Run, s loop.State, process string, now time.Time) store.Place {
	return store.Place{
		Run: row.ID, Process: process, Repo: row.RepoNode, Owner: row.RepoOwner, Person: s.Subject.RequestedBy,
		Answer: s.Earlier.Runs > 0, CameAt: row.CreatedAt, AskedAt: now, SeenAt: now,
	}
}

func find(places []store.Place, own store.Place) (store.Place, bool) {
	for _, p := range places {
		if p.Run == own.Run && p.Process == own.Process {
			return p, true
		}
	}
	return store.Place{}, false
}

// decide says who may start now. own is who asks.
func (r *Reconciler) decide(places []store.Place, turns admission.Turns, own store.Place,
	now time.Time) admission.Decision {
	claims := make([]admission.Claim, 0, len(places)+1)
	asked := own.AskedAt
	for _, p := range places {
		if p.Process == own.Process {
			asked = p.AskedAt
			continue
		}
		claims = append(claims, claim(p, now))
	}
	if own.Process != "" {
		own.AskedAt = asked
		claims = append(claims, claim(own, now))
	}
	return r.cfg.Admission.Decide(claims, turns)
}

func claim(p store.Place, now time.Time) admission.Claim {
	return admission.Claim{
		Process: p.Process, Repository: p.Repo, Owner: p.Owner, Person: p.Person, Answer: p.Answer,
		Came: p.CameAt, Asked: p.AskedAt, Running: !p.GrantedAt.IsZero(), Away: now.Sub(p.SeenAt) > placeAway,
	}
}

// freePlaces gives back the places of a run's processes that have ended, as its state
// says, and wakes whoever is next.
func (r *Reconciler) freePlaces(ctx context.Context, tx *store.Tx, id run.ID, s loop.State) error {
	processes, err := r.cfg.Store.PlacesOf(ctx, tx, id)
	if err != nil {
		return err
	}
	at, any := s.Occupies(), false
	for _, process := range processes {
		if slices.Contains(at, process) {
			continue
		}
		freed, err := r.cfg.Store.FreePlace(ctx, tx, process)
		if err != nil {
			return err
		}
		any = any || freed
	}
	if !any {
		return nil
	}
	return r.wakeNext(ctx, tx)
}

// wakeNext wakes the runs of those who may start now.
func (r *Reconciler) wakeNext(ctx context.Context, tx *store.Tx) error {
	places, turns, err := r.cfg.Store.PlacesTx(ctx, tx)
	if err != nil {
		return err
	}
	d := r.decide(places, turns, store.Place{}, r.cfg.Now())
	for _, p := range places {
		if !d.Starts(p.Process) {
			continue
		}
		r.cfg.Queue.Wake(tx, p.Run)
	}
	return nil
}

// adopt gives a place to each process that the stored states know of and the places do
// not: a version before this one has started it.
func (r *Reconciler) adopt(ctx context.Context) error {
	rows, err := r.cfg.Store.ActiveRuns(ctx)
	if err != nil {
		return fmt.Errorf("find what is at work: %w", err)
	}
	now := r.cfg.Now()
	return r.cfg.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := r.cfg.Store.PrunePlaces(ctx, tx, now.Add(-keepTurns)); err != nil {
			return err
		}
		for _, row := range rows {
			s, err := loop.Decode(row.State)
			if err != nil {
				continue // a state that cannot be read is told of when the run is ticked
			}
			for _, process := range s.Started() {
				if err := r.cfg.Store.AskPlace(ctx, tx, place(row, s, process, now)); err != nil {
					return err
				}
				if err := r.cfg.Store.GrantPlace(ctx, tx, process, now); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// tellDelay tells people, once for each kind of wait, why nothing happens. One does so
// at a time: GitHub takes a comment a second, and a hundred runs may wait.
func (r *Reconciler) tellDelay(ctx context.Context, row store.Run,
	s loop.State) (loop.State, error) {
	d := s.Delayed
	if d == nil || d.Told || r.cfg.Now().Sub(d.Since) < tellAfter || !r.telling.TryLock() {
		return s, nil
	}
	defer r.telling.Unlock()
	occasion := "delayed:" + string(row.ID)
	if d.Queued {
		occasion = "queued:" + string(row.ID)
	}
	repo := r.cfg.GitHub.Repo(row.Installation, row.RepoOwner, row.RepoName)
	number := row.IssueNumber
	if row.PullNumber > 0 {
		number = row.PullNumber
	}
	if err := r.comments.Comment(ctx, repo, number, occasion, publish.WaitingText(d.Why, d.Queued)); err != nil {
		// The run waits all the same, and tries again at its next tick.
		zerolog.Ctx(ctx).Warn().Err(err).Msg("people were not told why a run waits")
		return s, nil
	}
	told := *d
	told.Told = true
	s.Delayed = &told
	return s, r.save(ctx, row.ID, s)
}

// ActiveRun is how an active run stands with regard to its place.
type ActiveRun struct {
	Run         run.ID
	Repo        string
	IssueNumber int
	Phase       run.Phase
	// Running: an agent or a check of it is at work, or about to start.
	Running bool
	// Place is where it stands in its repository's line, 0 where it does not wait there.
	Place int
	// Waits is what it waits for, "" for nothing, and Since when it began to.
	Waits string
	Since time.Time
}

// Admission is what runs and waits on the whole server.
type Admission struct {
	// Running are places that are taken, Limit how many there are (0 for any number), and
	// Waiting runs that wait for one.
	Running, Limit, Waiting int
	// Runs are all active runs, oldest first.
	Runs []ActiveRun
}

// InLine is how many runs wait for a place, or for what the machine lacks.
func (a Admission) InLine() (n int) {
	for _, s := range a.Runs {
		if s.Waits != "" {
			n++
		}
	}
	return n
}

// ReadAdmission gives the active runs of st, how each stands, and what of limit is in use. It
// needs no Reconciler, so that another process can ask.
func ReadAdmission(ctx context.Context, st *store.Store, limit int) (Admission, error) {
	rows, err := st.ActiveRuns(ctx)
	if err != nil {
		return Admission{}, err
	}
	places, _, err := st.Places(ctx)
	if err != nil {
		return Admission{}, err
	}
	a := Admission{Limit: limit}
	byRun := map[run.ID]store.Place{}
	for _, p := range places {
		if !p.GrantedAt.IsZero() {
			a.Running++
		}
		if was, ok := byRun[p.Run]; !ok || was.GrantedAt.IsZero() { // one at work says more
			byRun[p.Run] = p
		}
	}
	for _, row := range rows {
		x := ActiveRun{Run: row.ID, Repo: row.RepoOwner + "/" + row.RepoName, IssueNumber: row.IssueNumber, Phase: row.Phase}
		p, ok := byRun[row.ID]
		switch {
		case ok && !p.GrantedAt.IsZero():
			x.Running = true
		case ok:
			x.Place, x.Waits, x.Since = p.Line, p.Why, p.AskedAt
			a.Waiting++
		}
		if s, err := loop.Decode(row.State); err == nil && s.Delayed != nil {
			x.Waits, x.Since = s.Delayed.Why, s.Delayed.Since
		}
		a.Runs = append(a.Runs, x)
	}
	return a, nil
}

// crew is that of a host whose lanes start nothing either before they have a place.
type crew struct {
	*host.Host
	placing *placing
}

// Lane implements loop.Crew.
func (c *crew) Lane(n int) (loop.WorkTree, loop.Runner) {
	tree, runner := c.Host.Lane(n)
	return tree, &placing{Runner: runner, r: c.placing.r, row: c.placing.row}
}
