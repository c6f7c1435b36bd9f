package host

import (
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/publish"
)

// Commit is a landing in the terms of package publish. Every door makes its
// commit message of it, so that the same work reads the same everywhere.
func Commit(l loop.Landing, agent string) publish.Commit {
	s := l.State
	by, credited := s.Credits[l.Task.ID]
	if !credited {
		by = loop.Person{Login: s.Subject.RequestedBy, ID: s.Subject.RequestedByID}
	}
	if l.Applied {
		agent = ""
	}
	c := publish.Commit{
		Run: s.Run, Iteration: l.Iteration, TaskID: l.Task.ID, TaskTitle: l.Task.Title,
		Base: s.Head, BaseTree: s.HeadTree, Tree: l.Tree, Own: l.Own, Protection: s.Protected, Model: l.Model, Agent: agent, CostUSD: l.CostUSD,
		RequestedBy: by.Login, RequestedByID: by.ID,
		PlanSHA256: s.Plan.SHA256, Approved: s.Approved, ApprovedBy: s.ApprovedBy, Planned: l.Planned, Recorded: l.Recorded, Closing: l.Closing,
	}
	if m := l.Merges; m != nil {
		c.BaseTree, c.Merges, c.MergesTree = m.HeadTree, m.Parent, m.ParentTree
	}
	return c
}

// Screen asks the publishing policy about a proposal before its checks run.
func Screen(s loop.State, changes []loop.Change) loop.Screened {
	list := make([]gitrepo.Change, 0, len(changes))
	for _, c := range changes {
		list = append(list, gitrepo.Change{Path: c.Path, OldMode: c.OldMode, NewMode: c.NewMode})
	}
	got := publish.Screen(list, s.Protected)
	return loop.Screened{Refused: Refusals(got.Refused), Held: Refusals(got.Held)}
}

// Refusals are what a policy held back, in the terms of the loop.
func Refusals(held []publish.HeldBack) []loop.Refusal {
	var out []loop.Refusal
	for _, h := range held {
		out = append(out, loop.Refusal{Path: h.Path, Reason: h.Reason})
	}
	return out
}
