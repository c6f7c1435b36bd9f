package loop

import (
	"slices"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// noteAuthor notes that agents or the host wrote tasks, and what a person's words behind
// them are; none is the zero Task. Such a task excuses only what those words excuse,
// too: who writes the work could otherwise write its excuse first.
func (s *State) noteAuthor(behind run.Task, ids ...string) {
	for _, id := range ids {
		s.record(id).Behind = &behind
	}
}

// wordsBehind are the words that must all ask for other judges of a task: its own, and those of
// a person behind it.
func (s *State) wordsBehind(task run.Task) []run.Task {
	behind := s.of(task.ID).Behind
	switch {
	case behind == nil:
		return []run.Task{task}
	case behind.ID == wholePlan:
		behind = &run.Task{Title: s.Plan.Title + "\n" + s.Plan.Text, Accept: s.Plan.Accept}
	}
	return []run.Task{task, *behind}
}

// person is the part of asked that a person wrote.
func (s *State) person(task run.Task) run.Task {
	all := s.wordsBehind(task)
	return all[len(all)-1]
}

// planWords stand for those of the whole plan, as a person gave it. A copy with each
// task that an agent makes of a long issue would be the size of both multiplied.
func planWords() run.Task { return run.Task{ID: wholePlan} }

// wholePlan is the id of a task that stands for the plan.
const wholePlan = "(plan)"

// inherit notes of the tasks that an earlier run left who wrote them, as far as can be
// told: those of the plan and of people who asked for them are a person's, and so are
// all that a person has approved.
func (s *State) inherit(doc *progress.Doc) {
	if s.Approved != "" && s.covered() == doc.PlanSHA256() {
		return
	}
	for _, t := range doc.Tasks() {
		if s.of(t.ID).Asked != nil || slices.ContainsFunc(s.Plan.Tasks, func(p run.Task) bool { return p.Title == t.Title }) ||
			slices.ContainsFunc(s.Feedback, func(f Feedback) bool { return f.TaskID == t.ID }) {
			continue
		}
		s.noteAuthor(planWords(), t.ID)
	}
}
