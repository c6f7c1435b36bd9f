package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }

func waits(n int, repo, owner, person string) Claim {
	return Claim{Process: fmt.Sprintf("r-%03d", n), Repository: repo, Owner: owner, Person: person, Came: at(n),
		Asked: at(n)}
}

func runs(n int, repo, owner, person string) Claim {
	c := waits(n, repo, owner, person)
	c.Running = true
	return c
}

func TestDecide(t *testing.T) {
	t.Parallel()
	answer := waits(9, "a", "x", "")
	answer.Answer = true
	away := waits(1, "a", "x", "")
	away.Away = true
	for _, tt := range []struct {
		name   string
		limits Limits
		turns  Turns
		claims []Claim
		start  []string
		waits  map[string]Wait
	}{
		{name: "first come first served", limits: Limits{Agents: 1},
			claims: []Claim{waits(3, "a", "x", ""), waits(1, "a", "x", ""), waits(2, "a", "x", "")},
			start:  []string{"r-001"},
			waits: map[string]Wait{"r-002": {1, "1 of 1 agents of this server are at work"},
				"r-003": {2, "1 of 1 agents of this server are at work"}}},
		{name: "what runs counts", limits: Limits{Agents: 1},
			claims: []Claim{runs(1, "b", "y", ""), waits(2, "a", "x", "")},
			waits:  map[string]Wait{"r-002": {1, "1 of 1 agents of this server are at work"}}},
		{name: "more than the limit admit nobody", limits: Limits{Agents: 1},
			claims: []Claim{runs(1, "b", "y", ""), runs(2, "b", "y", ""), waits(3, "a", "x", "")},
			waits:  map[string]Wait{"r-003": {1, "2 of 1 agents of this server are at work"}}},
		{name: "a repository's limit leaves the others' places", limits: Limits{Agents: 3, Repository: 1},
			claims: []Claim{waits(1, "a", "x", ""), waits(2, "a", "x", ""), waits(3, "b", "x", "")},
			start:  []string{"r-001", "r-003"},
			waits:  map[string]Wait{"r-002": {1, "1 of 1 agents of this repository are at work"}}},
		{name: "an owner's limit", limits: Limits{Owner: 1},
			claims: []Claim{waits(1, "a", "x", ""), waits(2, "b", "x", ""), waits(3, "c", "y", "")},
			start:  []string{"r-001", "r-003"},
			waits:  map[string]Wait{"r-002": {1, "1 of 1 agents of this owner are at work"}}},
		{name: "a person's limit holds up nobody else", limits: Limits{Person: 1},
			claims: []Claim{waits(1, "a", "x", "ada"), waits(2, "a", "x", "ada"), waits(3, "a", "x", "bob")},
			start:  []string{"r-001", "r-003"},
			waits:  map[string]Wait{"r-002": {1, "1 of 1 agents of the person who started it are at work"}}},
		{name: "nobody is no person", limits: Limits{Person: 1},
			claims: []Claim{waits(1, "a", "x", ""), waits(2, "a", "x", "")}, start: []string{"r-001", "r-002"}},
		{name: "answers go before new work", limits: Limits{Agents: 1},
			claims: []Claim{waits(1, "a", "x", ""), answer}, start: []string{"r-009"},
			waits: map[string]Wait{"r-001": {1, "1 of 1 agents of this server are at work"}}},
		{name: "repositories share, however many one has", limits: Limits{Agents: 4},
			claims: []Claim{waits(1, "a", "x", ""), waits(2, "a", "x", ""), waits(3, "a", "x", ""), waits(4, "a", "x", ""),
				waits(5, "b", "x", ""), waits(6, "b", "x", "")},
			start: []string{"r-001", "r-005", "r-002", "r-006"},
			waits: map[string]Wait{"r-003": {1, "4 of 4 agents of this server are at work"},
				"r-004": {2, "4 of 4 agents of this server are at work"}}},
		{name: "owners share, however many repositories one has", limits: Limits{Agents: 2},
			claims: []Claim{waits(1, "a", "x", ""), waits(2, "b", "x", ""), waits(3, "c", "y", "")},
			start:  []string{"r-001", "r-003"},
			waits:  map[string]Wait{"r-002": {1, "2 of 2 agents of this server are at work"}}},
		{name: "who had a turn waits for the next", limits: Limits{Agents: 1},
			turns:  Turns{OwnerTurn("x"): at(10)},
			claims: []Claim{waits(1, "a", "x", ""), waits(2, "b", "y", "")}, start: []string{"r-002"},
			waits: map[string]Wait{"r-001": {1, "1 of 1 agents of this server are at work"}}},
		{name: "a newcomer does not go before who has waited", limits: Limits{Agents: 1},
			turns:  Turns{OwnerTurn("x"): at(10)},
			claims: []Claim{waits(1, "a", "x", ""), waits(11, "b", "y", "")}, start: []string{"r-001"},
			waits: map[string]Wait{"r-011": {1, "1 of 1 agents of this server are at work"}}},
		{name: "no place is kept free for who is away", limits: Limits{Agents: 1},
			claims: []Claim{away, waits(2, "a", "x", "")}, start: []string{"r-002"},
			waits: map[string]Wait{"r-001": {1, "1 of 1 agents of this server are at work"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := tt.limits.Decide(tt.claims, tt.turns)
			if tt.waits == nil {
				tt.waits = map[string]Wait{}
			}
			if diff := cmp.Diff(Decision{Start: tt.start, Waits: tt.waits}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// model is a server on a virtual clock whose processes each take some ticks.
type model struct {
	t      *testing.T
	limits Limits
	turns  Turns
	claims []Claim
	left   map[string]int
	now    int
	ended  map[string]int
	most   int
}

func (m *model) tick() {
	m.t.Helper()
	for i := range m.claims {
		c := &m.claims[i]
		if !c.Running {
			continue
		}
		if m.left[c.Process]--; m.left[c.Process] == 0 {
			m.ended[c.Process] = m.now
		}
	}
	m.claims = slices.DeleteFunc(m.claims, func(c Claim) bool { return c.Running && m.left[c.Process] == 0 })
	d := m.limits.Decide(m.claims, m.turns)
	n := newCounts()
	for i := range m.claims {
		c := &m.claims[i]
		if d.Starts(c.Process) {
			c.Running = true
			m.turns[OwnerTurn(c.Owner)], m.turns[RepositoryTurn(c.Repository)] = at(m.now), at(m.now)
		}
		if c.Running {
			n.add(*c)
		}
	}
	m.most = max(m.most, n.all)
	over := func(limit int, have map[string]int) {
		for name, n := range have {
			if limit > 0 && n > limit {
				m.t.Fatalf("at %d %d processes of %s, limit %d", m.now, n, name, limit)
			}
		}
	}
	over(m.limits.Agents, map[string]int{"the server": n.all})
	over(m.limits.Repository, n.repos)
	over(m.limits.Owner, n.owners)
	over(m.limits.Person, n.people)
	for _, c := range m.claims { // nobody waits who could start
		if !c.Running && m.limits.full(n, c) == "" {
			m.t.Fatalf("at %d %s waits, and no limit holds it up", m.now, c.Process)
		}
	}
	m.now++
}

func newModel(t *testing.T, l Limits) *model {
	return &model{t: t, limits: l, turns: Turns{}, left: map[string]int{}, ended: map[string]int{}}
}

func (m *model) ask(c Claim, takes int) {
	c.Came, c.Asked = at(m.now), at(m.now)
	m.claims = append(m.claims, c)
	m.left[c.Process] = takes
}

// TestTwoHundredLabels: 190 in one repository and 10 in another, eight agents.
func TestTwoHundredLabels(t *testing.T) {
	t.Parallel()
	const takes, agents, many, few = 20, 8, 190, 10
	few10 := func(m *model) {
		for n := range few {
			m.ask(waits(1000+n, "few", "y", "bob"), takes)
		}
	}
	last := func(m *model, from, to int) (last int) {
		for n := from; n < to; n++ {
			for {
				if ended, ok := m.ended[waits(n, "", "", "").Process]; ok {
					last = max(last, ended)
					break
				}
				m.tick()
			}
		}
		return last
	}
	alone := newModel(t, Limits{Agents: agents / 2})
	few10(alone)
	best := last(alone, 1000, 1000+few)

	m := newModel(t, Limits{Agents: agents})
	for n := range many {
		m.ask(waits(n, "many", "x", "ada"), takes)
	}
	few10(m)
	if got := last(m, 1000, 1000+few); float64(got) > 1.5*float64(best) {
		t.Errorf("the ten end after %d, alone with half the agents after %d", got, best)
	}
	got := last(m, 0, many)
	if ideal := (many + few) * takes / agents; float64(got) > 1.15*float64(ideal) {
		t.Errorf("all end after %d, work by agents is %d", got, ideal)
	}
	if m.most != agents {
		t.Errorf("at most %d at once, want %d", m.most, agents)
	}
	for n := 1; n < many; n++ { // all take the same time
		a, b := waits(n-1, "", "", "").Process, waits(n, "", "", "").Process
		if m.ended[a] > m.ended[b] {
			t.Errorf("%s ended after %s", a, b)
		}
	}
}

// TestNobodyStarves: whoever comes, however many and however long they take,
// everybody is served within a bounded number of others' starts.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- a test that can be repeated
		l := Limits{Agents: 1 + rng.IntN(6), Repository: rng.IntN(4), Owner: rng.IntN(5), Person: rng.IntN(4)}
		m := newModel(t, l)
		name := func(kind string, n int) string { return fmt.Sprintf("%s%d", kind, rng.IntN(n)) }
		for n := range 300 {
			owner := name("o", 4)
			m.ask(waits(n, owner+name("/r", 3), owner, name("p", 5)), 1+rng.IntN(9))
			for range rng.IntN(5) {
				m.tick()
			}
		}
		for range 300 * 10 {
			m.tick()
		}
		if len(m.ended) != 300 {
			t.Errorf("seed %d, %+v: %d of 300 ended", seed, l, len(m.ended))
		}
	}
}

// TestNewcomersDoNotStarveWhoWaits: owners without end that never had a turn.
func TestNewcomersDoNotStarveWhoWaits(t *testing.T) {
	t.Parallel()
	m := newModel(t, Limits{Agents: 1})
	m.turns[OwnerTurn("x")] = at(0)
	m.ask(waits(0, "a", "x", ""), 1)
	for n := 1; n < 100; n++ {
		m.ask(waits(n, fmt.Sprint("n", n), fmt.Sprint("n", n), ""), 3)
		m.tick()
		if _, ok := m.ended["r-000"]; ok {
			return
		}
	}
	t.Error("it waits for ever")
}
