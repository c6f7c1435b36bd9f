package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/store"
)

const (
	// placePause is the pause between two looks for a place. A place that becomes free wakes
	// whoever is next.
	placePause = 2 * time.Second
	// placeAway is for how long the line waits for a run that does not ask: GitHub or the
	// machine may keep it.
	placeAway = 30 * time.Second
)

// places are who has an agent or a check at work, and who waits to start one, oldest run
// first. They are in memory: at the start they are filled from the stored states, which say
// what is at work.
type places struct {
	limits config.Concurrency

	mu    sync.Mutex
	taken map[string]claim // by process
	line  map[string]claim
}

// claim is a process that a run has at work, or wants to start.
type claim struct {
	run           run.ID
	process, repo string
	// came is when the run was made, seen when it last asked.
	came, seen time.Time
}

func newPlaces(limits config.Concurrency) *places {
	return &places{limits: limits, taken: map[string]claim{}, line: map[string]claim{}}
}

// take gives the process a place, whatever the limits say: it is at work.
func (p *places) take(c claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken[c.process] = c
}

// ask gives the process a place if it is its turn. Otherwise why is the limit that holds it
// up, in words for people, and n where it stands among those of its repository, from 1.
func (p *places) ask(c claim) (why string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.taken[c.process]; ok {
		return "", 0
	}
	p.line[c.process] = c
	if slices.ContainsFunc(p.next(c.seen), func(next claim) bool { return next.process == c.process }) {
		delete(p.line, c.process)
		p.taken[c.process] = c
		return "", 0
	}
	for _, other := range p.line {
		if other.repo == c.repo && compareClaims(other, c) <= 0 {
			n++
		}
	}
	all, here := p.count()
	if limit := p.limits.Repository; limit > 0 && here[c.repo] >= limit {
		return fmt.Sprintf("%d of %d agents of this repository are at work", here[c.repo], limit), n
	}
	if all < p.limits.Agents {
		return "an older run is next", n
	}
	return fmt.Sprintf("%d of %d agents of this server are at work", all, p.limits.Agents), n
}

// keep leaves a run the places of these processes alone.
func (p *places) keep(id run.ID, processes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range []map[string]claim{p.taken, p.line} {
		for process, c := range of {
			if c.run == id && !slices.Contains(processes, process) {
				delete(of, process)
			}
		}
	}
}

// free gives back the place of a process that was not started.
func (p *places) free(process string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, process)
}

// leave takes a process out of the line until it asks again.
func (p *places) leave(process string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.line, process)
}

// starters are the runs that would be given a place now.
func (p *places) starters(now time.Time) (ids []run.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.next(now) {
		ids = append(ids, c.run)
	}
	return ids
}

// next are those of the line that may start now. p.mu is held.
func (p *places) next(now time.Time) (out []claim) {
	all, here := p.count()
	full := func(limit, n int) bool { return limit > 0 && n >= limit }
	line := make([]claim, 0, len(p.line))
	for _, c := range p.line {
		line = append(line, c)
	}
	slices.SortFunc(line, compareClaims)
	for _, c := range line {
		if full(p.limits.Agents, all) {
			break
		}
		if full(p.limits.Repository, here[c.repo]) || now.Sub(c.seen) > placeAway {
			continue
		}
		all++
		here[c.repo]++
		out = append(out, c)
	}
	return out
}

// count is how many places are taken, on the server and by repository. p.mu is held.
func (p *places) count() (all int, here map[string]int) {
	here = map[string]int{}
	for _, c := range p.taken {
		here[c.repo]++
	}
	return len(p.taken), here
}

// compareClaims puts the oldest run first.
func compareClaims(a, b claim) int {
	return cmp.Or(a.came.Compare(b.came), cmp.Compare(a.run, b.run), cmp.Compare(a.process, b.process))
}

// FillPlaces gives a place to each process that the stored states know to be at work. It is
// called once, before the first run is ticked.
func (r *Reconciler) FillPlaces(ctx context.Context) error {
	rows, err := r.cfg.Store.ActiveRuns(ctx)
	if err != nil {
		return fmt.Errorf("find what is at work: %w", err)
	}
	for _, row := range rows {
		s, err := loop.Decode(row.State)
		if err != nil {
			continue // a state that cannot be read is told of when the run is ticked
		}
		for _, process := range s.Started() {
			r.places.take(claim{run: row.ID, process: process, repo: row.RepoNode, came: row.CreatedAt})
		}
	}
	return nil
}

// wakeNext wakes the runs of those who may start now.
func (r *Reconciler) wakeNext() {
	for _, id := range r.places.starters(r.cfg.Now()) {
		r.cfg.Queue.Wake(nil, id)
	}
}

// placing is a Runner that starts nothing before the run has a place.
type placing struct {
	loop.Runner
	r   *Reconciler
	row store.Run
}

// StartAgent implements loop.Runner.
func (p *placing) StartAgent(ctx context.Context, s loop.State, a loop.AgentStart) (loop.Handle, error) {
	return p.start(a.Name, func() (loop.Handle, error) { return p.Runner.StartAgent(ctx, s, a) })
}

// StartGate implements loop.Runner.
func (p *placing) StartGate(ctx context.Context, s loop.State, g loop.GateStart) (loop.Handle, error) {
	return p.start(g.Name, func() (loop.Handle, error) { return p.Runner.StartGate(ctx, s, g) })
}

// start starts a process once it has a place; until then it gives a *loop.Delay that says
// what it waits for. The place is given back with the state that has seen the process end, or
// where the error says that nothing was started.
func (p *placing) start(process string, start func() (loop.Handle, error)) (loop.Handle, error) {
	if lacks := p.r.cfg.Lacks; lacks != nil {
		if why := lacks(); why != "" {
			p.r.places.leave(process) // who would be called, and could not start, would be called again at once
			return "", &loop.Delay{Why: why}
		}
	}
	why, n := p.r.places.ask(claim{
		run: p.row.ID, process: process, repo: p.row.RepoNode, came: p.row.CreatedAt, seen: p.r.cfg.Now(),
	})
	if why != "" {
		return "", &loop.Delay{
			Why: fmt.Sprintf("%s; number %d in this repository's line", why, n), For: placePause, Queued: true,
		}
	}
	h, err := start()
	if errors.Is(err, sandbox.ErrNoImage) {
		p.r.places.free(process)
		p.r.wakeNext()
	}
	return h, err
}
