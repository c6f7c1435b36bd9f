package admission

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Limits are how many agents and checks may run at once; 0 means that there is no
// limit.
type Limits struct {
	// Agents is for the whole server, the others for one repository, for all of an
	// owner's, and for all runs that one person has started.
	Agents, Repository, Owner, Person int
}

// Claim is a process that runs, or one that a run wants to start.
type Claim struct {
	// Process is its name, which no other has.
	Process string
	// Repository and Owner are names that stay the same for as long as the claim does.
	// Person started the run, "" for nobody.
	Repository, Owner, Person string
	// Answer: the run takes up what a person answered to an earlier one.
	Answer bool
	// Came is when the run was made: who came first goes first.
	Came time.Time
	// Asked is when the process was first asked for.
	Asked time.Time
	// Running: it has its place.
	Running bool
	// Away: it does not ask at the moment, and no place is kept free for it.
	Away bool
}

// Turns is when an owner or a repository last had a turn.
type Turns map[string]time.Time

// OwnerTurn and RepositoryTurn are the keys of Turns.
func OwnerTurn(owner string) string { return "owner:" + owner }

// RepositoryTurn is OwnerTurn for a repository.
func RepositoryTurn(repo string) string { return "repository:" + repo }

// Wait is how a claim waits.
type Wait struct {
	// Place is where it stands among those of its repository that wait, from 1.
	Place int
	// Why is the limit that holds it up, in words for people.
	Why string
}

// Decision is who may start now, in that order, and how the others wait.
type Decision struct {
	Start []string
	Waits map[string]Wait
}

// Starts says whether the process is among those that may start.
func (d Decision) Starts(process string) bool { return slices.Contains(d.Start, process) }

// counts is what runs, by what the limits are for.
type counts struct {
	all                   int
	repos, owners, people map[string]int
}

func newCounts() counts {
	return counts{repos: map[string]int{}, owners: map[string]int{}, people: map[string]int{}}
}

func (n *counts) add(c Claim) {
	n.all++
	n.repos[c.Repository]++
	n.owners[c.Owner]++
	if c.Person != "" {
		n.people[c.Person]++
	}
}

// full is the limit that leaves no room for the claim, "" where there is room.
func (l Limits) full(n counts, c Claim) string {
	over := func(limit, have int) bool { return limit > 0 && have >= limit }
	switch {
	case c.Person != "" && over(l.Person, n.people[c.Person]):
		return fmt.Sprintf("%d of %d agents of the person who started it are at work", n.people[c.Person], l.Person)
	case over(l.Repository, n.repos[c.Repository]):
		return fmt.Sprintf("%d of %d agents of this repository are at work", n.repos[c.Repository], l.Repository)
	case over(l.Owner, n.owners[c.Owner]):
		return fmt.Sprintf("%d of %d agents of this owner are at work", n.owners[c.Owner], l.Owner)
	case over(l.Agents, n.all):
		return fmt.Sprintf("%d of %d agents of this server are at work", n.all, l.Agents)
	}
	return ""
}

// Decide says who may start now. claims may come in any order, and holds each process
// once; turns is left alone.
func (l Limits) Decide(claims []Claim, turns Turns) Decision {
	n := newCounts()
	var waiting []Claim
	for _, c := range claims {
		if c.Running {
			n.add(c)
		} else {
			waiting = append(waiting, c)
		}
	}
	slices.SortFunc(waiting, before)
	d := Decision{Waits: map[string]Wait{}}
	had := Turns{}
	for {
		i := l.next(n, waiting, func(key string) time.Time { return later(turns[key], had[key]) })
		if i < 0 {
			break
		}
		c := waiting[i]
		// Later than all that wait, so that the next is somebody else.
		turn := latest(waiting).Add(time.Duration(len(d.Start)+1) * time.Microsecond)
		had[OwnerTurn(c.Owner)], had[RepositoryTurn(c.Repository)] = turn, turn
		n.add(c)
		d.Start = append(d.Start, c.Process)
		waiting = slices.Delete(waiting, i, i+1)
	}
	lines := map[string]int{}
	for _, c := range waiting {
		lines[c.Repository]++
		d.Waits[c.Process] = Wait{Place: lines[c.Repository], Why: l.full(n, c)}
	}
	return d
}

// before is the order within a repository.
func before(a, b Claim) int {
	rank := func(c Claim) int {
		if c.Answer {
			return 0
		}
		return 1
	}
	return cmp.Or(rank(a)-rank(b), a.Came.Compare(b.Came), cmp.Compare(a.Process, b.Process))
}

// next is the index of who goes next, -1 for nobody.
func (l Limits) next(n counts, waiting []Claim, turn func(key string) time.Time) int {
	// Whoever had no turn yet stands where it began to wait: were that before all
	// others, newcomers without end could keep one that had a turn waiting for ever.
	type standing struct {
		running int
		since   time.Time
	}
	owners, repos := map[string]standing{}, map[string]standing{}
	stand := func(all map[string]standing, name, key string, running int, c Claim) {
		since := later(turn(key), c.Asked)
		if s, ok := all[name]; ok {
			since = earlier(s.since, since)
		}
		all[name] = standing{running: running, since: since}
	}
	var free []int
	for i, c := range waiting {
		if c.Away || l.full(n, c) != "" {
			continue
		}
		free = append(free, i)
		stand(owners, c.Owner, OwnerTurn(c.Owner), n.owners[c.Owner], c)
		stand(repos, c.Repository, RepositoryTurn(c.Repository), n.repos[c.Repository], c)
	}
	if len(free) == 0 {
		return -1
	}
	compare := func(a, b standing) int { return cmp.Or(a.running-b.running, a.since.Compare(b.since)) }
	return slices.MinFunc(free, func(i, j int) int {
		a, b := waiting[i], waiting[j]
		return cmp.Or(
			compare(owners[a.Owner], owners[b.Owner]), cmp.Compare(a.Owner, b.Owner),
			compare(repos[a.Repository], repos[b.Repository]), cmp.Compare(a.Repository, b.Repository),
			before(a, b))
	})
}

func latest(claims []Claim) (t time.Time) {
	for _, c := range claims {
		t = later(t, c.Asked)
	}
	return t
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
