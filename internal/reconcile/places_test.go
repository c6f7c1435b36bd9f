package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// asks is a claim of the run that came as number n.
func asks(n int, repo string) claim {
	id := fmt.Sprintf("r-%03d", n)
	return claim{run: run.ID(id), process: id + "-1", repo: repo, came: noon.Add(time.Duration(n) * time.Second), seen: noon}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	p := newPlaces(config.Concurrency{Agents: 2, Repository: 1})
	at := func(c claim, wantWhy string, wantN int) {
		t.Helper()
		if why, n := p.ask(c); why != wantWhy || n != wantN {
			t.Errorf("%s: %q, number %d, want %q, number %d", c.process, why, n, wantWhy, wantN)
		}
	}
	const repository, server = "1 of 1 agents of this repository are at work", "2 of 2 agents of this server are at work"
	p.take(asks(9, "a")) // it was at work when the server started
	at(asks(2, "a"), repository, 1)
	at(asks(1, "a"), repository, 1)
	at(asks(2, "a"), repository, 2)
	at(asks(3, "b"), "", 0) // which another repository's line does not hold up
	at(asks(3, "b"), "", 0) // a start that is repeated
	at(asks(4, "c"), server, 1)
	p.keep("r-009", []string{"r-009-1"})
	if ids := p.starters(noon); len(ids) != 0 {
		t.Errorf("%v may start with all places taken", ids)
	}
	p.keep("r-009", nil)
	if ids := p.starters(noon); len(ids) != 1 || ids[0] != "r-001" {
		t.Errorf("%v may start, want the oldest", ids)
	}
	at(asks(4, "c"), "an older run is next", 1)
	if ids := p.starters(noon.Add(time.Minute)); len(ids) != 0 {
		t.Errorf("the line waits for %v, who ask no more", ids)
	}
	late := asks(4, "c")
	late.seen = noon.Add(time.Minute)
	at(late, "", 0)
	p.free(late.process) // no image: it was not started
	at(asks(1, "a"), "", 0)
}

// TestWhoCannotStartLeavesTheLine: a run that the machine has no room for is not called, until it asks again.
func TestWhoCannotStartLeavesTheLine(t *testing.T) {
	t.Parallel()
	lacks := ""
	r := &Reconciler{places: newPlaces(config.Concurrency{Agents: 1})}
	r.cfg.Lacks, r.cfg.Now = func() string { return lacks }, func() time.Time { return noon }
	p := &placing{r: r, row: store.Run{ID: "r-001", RepoNode: "a"}}
	start := func() error {
		_, err := p.start("r-001-1", func() (loop.Handle, error) { return "h", nil })
		return err
	}
	r.places.take(asks(9, "b"))
	for _, lacks = range []string{"", "the disk is full"} {
		if _, ok := errors.AsType[*loop.Delay](start()); !ok {
			t.Fatalf("started, and lacks %q", lacks)
		}
	}
	r.places.keep("r-009", nil)
	if ids := r.places.starters(noon); len(ids) != 0 {
		t.Errorf("%v are called", ids)
	}
	lacks = ""
	if err := start(); err != nil {
		t.Error(err)
	}
}

// TestTwoHundredLabels: 190 in one repository and then 10 in another, eight agents.
func TestTwoHundredLabels(t *testing.T) {
	t.Parallel()
	const many, few, agents, each = 190, 10, 8, 6
	p := newPlaces(config.Concurrency{Agents: agents, Repository: each})
	line := map[run.ID]claim{}
	for n := range many + few {
		c := asks(n, "many")
		if n >= many {
			c.repo = "few"
		}
		line[c.run] = c
	}
	for n := range agents { // of runs before them, which keep all from starting
		p.take(asks(n-agents, fmt.Sprint(n)))
	}
	for id, c := range line { // in any order
		if why, _ := p.ask(c); why == "" {
			t.Fatalf("%s started beyond the limit", id)
		}
	}
	for n := range agents {
		p.keep(asks(n-agents, "").run, nil)
	}
	var atWork []claim
	var order []run.ID // of those of the first repository
	starts, lastOfFew := 0, 0
	for len(line) > 0 {
		next := p.starters(noon)
		if len(next)+len(atWork) == 0 {
			t.Fatalf("%d wait for ever", len(line))
		}
		for _, id := range next {
			c := line[id]
			if why, n := p.ask(c); why != "" {
				t.Fatalf("%s was called, and waits: %s, number %d", id, why, n)
			}
			delete(line, id)
			atWork = append(atWork, c)
			if starts++; c.repo == "few" {
				lastOfFew = starts
			} else {
				order = append(order, id)
			}
		}
		if len(atWork) > agents {
			t.Fatalf("%d at work, want at most %d", len(atWork), agents)
		}
		p.keep(atWork[0].run, nil) // the oldest ends
		atWork = atWork[1:]
	}
	if !slices.IsSorted(order) {
		t.Errorf("started in the order %v", order)
	}
	// Two of eight places are theirs.
	if most := each + 4*few; lastOfFew > most {
		t.Errorf("the last of the few was start number %d, %d at most", lastOfFew, most)
	}
}
