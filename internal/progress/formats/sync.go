package formats

import (
	"fmt"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Carried is what bringing a file up to date came to.
type Carried struct {
	// Missing: the file does not have the task that lands.
	Missing bool
	// Open names the tasks of the file that are neither done nor skipped, by their ids, or by
	// their titles where they have none.
	Open []string
}

// Landed is what a run has done of the plan that a file holds.
type Landed struct {
	// Task is the id, in the run's progress.md, of the task that is about to
	// land, "" for none; Files are the paths that changed for it.
	Task  string
	Files []string
	// Written are the ids of tasks that were written down when they landed. They
	// are left alone: whoever unticked one since meant it.
	Written []string
	When    time.Time
}

// Follow brings the file that a run's plan came from up to date with the run's
// progress.md: what is done is ticked, what people skipped is skipped, and the
// status says so when the run and the file are both done. Each story of a PRD
// that was done gets an entry in progress.txt. Following twice changes nothing
// the second time.
func Follow(own, file *File, l Landed) (c Carried, err error) {
	ours, theirs := own.Plan(), file.Plan()
	match, came := pair(ours.Tasks, theirs.Tasks), outcomes(ours.Tasks)
	var changes []progress.Mark
	var done, landed []Task
	for i, t := range ours.Tasks {
		at, lands := match[i], t.ID == l.Task && l.Task != ""
		switch {
		case at < 0:
			c.Missing = c.Missing || lands
			continue
		case lands:
			landed = []Task{theirs.Tasks[at]}
		case slices.Contains(l.Written, t.ID):
			continue
		}
		was := theirs.Tasks[at].Status
		if was == came[i] || was == run.TaskDone || came[i] != run.TaskDone && came[i] != run.TaskSkipped {
			continue
		}
		changes = append(changes, progress.Mark{Task: at, Status: came[i], Reason: t.Reason})
		if came[i] == run.TaskDone && !lands {
			done = append(done, theirs.Tasks[at])
		}
	}
	if err := file.Apply(changes...); err != nil {
		return Carried{}, err
	}
	for _, t := range file.src.plan().Tasks {
		if t.Status != run.TaskDone && t.Status != run.TaskSkipped {
			c.Open = append(c.Open, nameOf(t))
		}
	}
	if m, ok := file.src.(*markdown); ok && ours.MarkedDone {
		if err := m.markDone(); err != nil {
			return Carried{}, err
		}
	}
	if done = append(done, landed...); file.format != PRD || len(done) == 0 {
		return c, nil
	}
	if file.notes == nil {
		file.notes = newLog(l.When)
	}
	return c, file.Attach(txtLog(file.notes).add(report{
		when: l.When, tasks: done, files: l.Files,
		patterns: added(theirs.Patterns, ours.Patterns), learned: added(theirs.Learnings, ours.Learnings),
	}))
}

// outcomes says of each task whether it is done, blocked, skipped or still
// open. One that was split is done when all of its parts are.
func outcomes(tasks []Task) []run.TaskStatus {
	byID := make(map[string]int, len(tasks))
	for i, t := range tasks {
		byID[t.ID] = i
	}
	out := make([]run.TaskStatus, len(tasks))
	var settle func(i int) run.TaskStatus
	settle = func(i int) run.TaskStatus {
		if out[i] != "" {
			return out[i]
		}
		t := tasks[i]
		out[i] = run.TaskOpen // also for parts that name each other in a circle
		parts := progress.Parts(t.Task)
		switch {
		case len(parts) > 0:
			for _, id := range parts {
				k, known := byID[id]
				if !known {
					continue // somebody removed it
				}
				if s := settle(k); s != run.TaskDone && s != run.TaskSkipped {
					return out[i]
				}
			}
			out[i] = run.TaskDone
		case !t.Actionable():
			out[i] = t.Status
		}
		return out[i]
	}
	for i := range tasks {
		settle(i)
	}
	return out
}

// pair finds for each of our tasks the same one among theirs, -1 where there is
// none. Of several with one title each is paired once, in their order. What was
// reworded is found by the id it has elsewhere.
func pair(ours, theirs []Task) []int {
	match, taken := make([]int, len(ours)), make([]bool, len(theirs))
	for i := range match {
		match[i] = -1
	}
	pass := func(key func(Task) string) {
		free := make(map[string][]int)
		for i, t := range theirs {
			if k := key(t); k != "" && !taken[i] {
				free[k] = append(free[k], i)
			}
		}
		for i, t := range ours {
			if list := free[key(t)]; match[i] < 0 && len(list) > 0 {
				match[i], taken[list[0]] = list[0], true
				free[key(t)] = list[1:]
			}
		}
	}
	title := func(t Task) string { return oneLine(t.Title) }
	pass(func(t Task) string { return t.Key() + "\n" + title(t) })
	pass(title)
	pass(func(t Task) string {
		if ownRE().MatchString(t.Key()) {
			return "" // numbers of this file, which mean nothing in another
		}
		return t.Key()
	})
	return match
}

// added are the lines that are not among the old ones.
func added(old, lines []string) []string {
	have := make(map[string]bool, len(old))
	for _, l := range old {
		have[l] = true
	}
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return have[l] })
}

// maxName bounds a title that stands for a name, in bytes.
const maxName = 40

// nameOf is what a task is called where its file is followed.
func nameOf(t Task) string {
	if t.Key() != "" {
		return t.Key()
	}
	return fmt.Sprintf("%q", strs.Cut(oneLine(t.Title), maxName))
}
