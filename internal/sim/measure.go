package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// outcome is what came of one run, measured against the truth.
type outcome struct {
	end run.EndReason
	// notes are the patterns and learnings of progress.md at the end.
	notes string
	// finished: the landed tree is what was wanted. Claimed: the loop said so.
	finished bool
	// tasks and solved count the solvable tasks, and those of them that the
	// landed tree solves. Runs whose budget does not cover the tasks have none.
	tasks, solved int
	// clean: the run has no hopeless task and its budget covers the tasks.
	clean bool
	// calls are all agent calls, iterations those the provider did not refuse.
	calls, iterations int
	// badCommits are commits that break a check which passed at the base and on the
	// commit before.
	badCommits int
	// lost are pieces that held on a landed tree and did not on a later one.
	lost int
	// doubled are effects that happened twice: a call or commit nobody asked for.
	doubled int
	// needed is how many calls the solved tasks take by their nature.
	needed int
	// refused is how often honest work was called failed: attempts that failed though
	// an honest call had got further and said what is left, and tasks that were given
	// up though an honest call had done all of them and said so.
	refused int
	// spent is what the calls cost; over is how much of it was beyond the budget.
	spent, over float64
	// hopeless are the hopeless tasks that gave evidence of being so; late the
	// calls at each of them after that.
	late    []int
	elapsed time.Duration
	// givenUp are the tasks that a run left undone which did not end at a limit.
	givenUp []string
	// faults tells of each fault that a call had.
	faults map[Fault]tally
	// trouble is what the loop itself failed with, "" mostly.
	trouble string
}

func (o outcome) claimed() bool { return o.end.Complete() }

// meter watches a run: every call, and every tree that lands.
type meter struct {
	project *project
	checks  *checker
	pieces  []piece
	held    []bool // on some landed tree
	lost    []bool
	broken  []string // on the last landed tree
	bad     int
	last    files

	calls, iterations int
	spent             float64
	evidence          map[string]*evidence

	faults map[Fault]tally
	hit    map[string]map[Fault]bool // by module

	// turn is the call that ended last.
	turn answer
	// unjust are the calls, by number, whose honest part of the work was called
	// failed; rightly the tasks that an honest call had done and said so.
	unjust  map[int]bool
	rightly map[string]bool
}

// tally is what became of the calls with one fault.
type tally struct {
	// calls had it, and harmful are those of them whose work was committed though
	// it broke a check, or for a task that it had not solved.
	calls, harmful int
	// tasks are the solvable ones at which a call had it, finished those of them
	// that were solved all the same.
	tasks, finished int
}

// evidence is what the calls at one hopeless task have shown.
type evidence struct {
	seen  map[string]int
	given bool // the same outcome was seen twice
	late  int
}

func newMeter(p *project, c *checker) *meter {
	m := &meter{
		project: p, checks: c, pieces: p.pieces(), evidence: map[string]*evidence{}, faults: map[Fault]tally{},
		hit: map[string]map[Fault]bool{}, unjust: map[int]bool{}, rightly: map[string]bool{},
	}
	m.held, m.lost = make([]bool, len(m.pieces)), make([]bool, len(m.pieces))
	m.landed(p.base)
	return m
}

// before is the tree as a call finds it, for comparison.
func (m *meter) before(f files) string { return m.standing(f) + "\n" + digest(code(f)) }

// called notes a call. The evidence that a task is hopeless is given by the call
// after which the same outcome has been seen twice at that task: the same failing
// tests, or no change to the code. Calls that crashed or were refused show nothing,
// nor do those that were to split the task up and change nothing, and neither does
// a change after which no test fails, nor a call that claims a change it has not made.
func (m *meter) called(a answer, before string, after files) {
	m.calls++
	m.spent += a.cost
	m.strikes(a)
	m.turn = a
	if a.honest() && a.claimed && a.solved && len(m.checks.broke(m.project, after)) == 0 {
		m.rightly[a.task] = true
	}
	if a.ending == endedRefused {
		return
	}
	m.iterations++
	mod, ok := m.project.module(a.focus)
	if !ok || mod.trait.solvable() || a.ending == endedCrashed {
		return
	}
	e := m.evidence[a.focus]
	if e == nil {
		e = &evidence{seen: map[string]int{}}
		m.evidence[a.focus] = e
	}
	if e.given {
		e.late++
		return
	}
	if a.planned {
		return
	}
	shows := m.standing(after)
	if m.before(after) == before {
		if a.claimed {
			return
		}
		shows = "no change"
	}
	if shows == "" {
		return
	}
	e.seen[shows]++
	e.given = e.seen[shows] == 2
}

// failed notes that the loop called an attempt at a task failed. The same may be
// said again by a host that died before it had saved that.
func (m *meter) failed(task string) {
	if m.turn.task == task && m.turn.honest() && m.turn.partial && m.turn.better {
		m.unjust[m.calls] = true
	}
}

// strikes notes the fault of a call and the tasks it was at: all of them, where it
// planned or reviewed.
func (m *meter) strikes(a answer) {
	if a.fault == FaultNone {
		return
	}
	t := m.faults[a.fault]
	t.calls++
	m.faults[a.fault] = t
	for _, mod := range m.project.modules {
		if a.focus != "" && mod.name != a.focus {
			continue
		}
		if m.hit[mod.name] == nil {
			m.hit[mod.name] = map[Fault]bool{}
		}
		m.hit[mod.name][a.fault] = true
	}
}

// committed notes a tree that was committed for a task, of which these pieces
// were wanted, out of the work of calls with these faults. Where the same is wanted again, that is
// another task, with evidence of its own.
func (m *meter) committed(f files, faults []Fault, wanted []aim) {
	bad := m.bad
	m.landed(f)
	for _, x := range wanted {
		if e := m.evidence[x.module.name]; e != nil && !e.given {
			clear(e.seen)
		}
	}
	harmful := m.bad > bad || slices.ContainsFunc(wanted, func(x aim) bool { return len(x.unfinished(f)) > 0 })
	for _, fault := range faults {
		if t := m.faults[fault]; harmful {
			t.harmful++
			m.faults[fault] = t
		}
	}
}

// standing names what fails on a tree and did not at the base.
func (m *meter) standing(f files) string {
	if out := vet(f); out != "" {
		return out
	}
	var ids []string
	for _, x := range m.checks.run(f, false, false) {
		if !m.project.knownFailing[x.id] {
			ids = append(ids, x.id)
		}
	}
	return strings.Join(ids, " ")
}

// landed notes a tree that was committed.
func (m *meter) landed(f files) {
	if m.last != nil && maps.Equal(code(m.last), code(f)) {
		m.last = f
		return
	}
	base := m.last == nil
	m.last = f
	for i, p := range m.pieces {
		switch held := p.held(f); {
		case held:
			m.held[i] = true
		case m.held[i]:
			m.lost[i] = true
		}
	}
	if base {
		return
	}
	before := m.broken
	m.broken = m.checks.broke(m.project, f)
	if slices.ContainsFunc(m.broken, func(id string) bool { return !slices.Contains(before, id) }) {
		m.bad++
	}
}

// finish fills in what is known at the end of a run.
func (m *meter) finish(o *outcome, tip files, elapsed time.Duration) {
	o.finished = m.project.done(tip)
	o.elapsed = elapsed
	o.calls, o.iterations, o.badCommits, o.spent = m.calls, m.iterations, m.bad, m.spent
	if b := m.project.budget; b > 0 {
		o.over = max(0, m.spent-b)
	}
	for _, lost := range m.lost {
		if lost {
			o.lost++
		}
	}
	o.refused = len(m.unjust)
	for _, id := range o.givenUp {
		if m.rightly[id] && !m.project.conditions[ConditionSpender] {
			o.refused++
		}
	}
	o.clean = !m.project.conditions[ConditionSpender]
	for _, mod := range m.project.modules {
		switch {
		case !mod.trait.solvable():
			o.clean = false
			if e := m.evidence[mod.name]; e != nil && e.given {
				o.late = append(o.late, e.late)
			}
		case !m.project.conditions[ConditionSpender]:
			o.tasks++
			held := mod.held(tip)
			if held {
				o.solved++
				o.needed += mod.needs()
			}
			for fault := range m.hit[mod.name] {
				t := m.faults[fault]
				t.tasks++
				if held {
					t.finished++
				}
				m.faults[fault] = t
			}
		}
	}
	o.faults = m.faults
}

// code is a tree without the notes of either loop.
func code(f files) files {
	out := maps.Clone(f)
	maps.DeleteFunc(out, func(name, _ string) bool { return name == plainFile || strings.HasPrefix(name, ".ralph/") })
	return out
}

func cloneFiles(f files) files { return maps.Clone(f) }

// names lists the paths of a tree in order.
func names(f files) []string { return slices.Sorted(maps.Keys(f)) }

// digest is the id of a tree.
func digest(f files) string {
	h := sha256.New()
	for _, name := range names(f) {
		fmt.Fprintf(h, "%d %s\x00%d %s\x00", len(name), name, len(f[name]), f[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:10])
}
