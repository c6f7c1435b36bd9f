package publish

import (
	"fmt"
	"slices"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// CommitOf is what a landing asks for. Every door makes its commit message of it, so that
// the same work reads the same everywhere.
func CommitOf(l loop.Landing, agent string) Commit {
	s := l.State
	by := s.AskedBy(l.Task.ID)
	c := Commit{
		Run: s.Run, Iteration: l.Iteration, TaskID: l.Task.ID, TaskTitle: l.Task.Title, Subject: l.Task.Subject,
		Base: s.Head, BaseTree: s.HeadTree, Tree: l.Tree, Own: l.Own, Protected: s.Protected, Model: l.Model, Agent: agent,
		CostUSD:     l.CostUSD,
		RequestedBy: by.Login, RequestedByID: by.ID,
		Approved: s.Approved, ApprovedBy: s.ApprovedBy,
		Covered: s.Covered, Planned: l.Planned, Recorded: l.Recorded,
		Closing: l.Closing,
	}
	if p := s.Proposal; p != nil && l.Task.ID != "" { // it changes no code
		switch {
		case p.Already:
			c.Subject = fmt.Sprintf("chore: %s was already done: %s", l.Task.ID, l.Task.Title)
		case p.Host:
			c.Subject = "chore: " + l.Task.Title
		}
	}
	return c
}

// Earlier sums up what runs have left on a branch, as the messages of its commits,
// newest first, tell. Commits of others are left out.
func Earlier(commits []gitrepo.CommitInfo) loop.Earlier {
	var sum loop.Earlier
	runs := map[run.ID]bool{}
	for _, c := range slices.Backward(commits) {
		told, ok := RecordOf(c.Subject + "\n\n" + c.Body)
		if !ok {
			continue
		}
		runs[told.Run] = true
		sum.Iterations = max(sum.Iterations, told.Iteration)
		sum.CostUSD += told.CostUSD
		if !told.Closing {
			sum.Commits = append(sum.Commits, loop.Landed{
				OID: string(c.OID), Tree: string(c.Tree), Subject: c.Subject, TaskID: told.TaskID,
			})
		}
	}
	sum.Runs = len(runs)
	return sum
}
