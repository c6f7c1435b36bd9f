package publish

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Limits of what is shown at the most, in bytes as written.
const (
	maxGroup     = 500
	maxCriterion = 1000
	maxCriteria  = 20 // of one task
	maxReason    = 300
	maxGates     = 30
	maxFindings  = 20
	maxMerged    = 20
	maxNote      = 1000
	maxQuestions = 10
	maxAccount   = 5000
	maxSection   = 6000
	maxOutput    = 1500
	maxCommits   = 50
	maxLog       = 100
	// maxSummary bounds a summary. GitHub refuses one of a check run that is longer than
	// 65,535 bytes.
	maxSummary = 16 << 10
)

// detail says how much a description shows.
type detail struct {
	// folds are the sections that open.
	folds bool
	// done is how many of the done tasks are shown, the newest; open how many of the others.
	done, open int
	// said is how much of what was said in review, the newest.
	said int
	// title is in bytes. Criteria and the output of checks are shown where plain is false.
	title int
	plain bool
}

const all = 1 << 30

// describe renders the state of a run in at most limit bytes: a headline, what happened and
// what it cost, the tasks in the grammar of progress.md, the checks, and how to go on.
// Equal views give equal texts.
//
// What does not fit is left out: first the folded sections, and of the done tasks all but the newest 50. What no plan
// of a few hundred tasks needs comes last: short lines, and open tasks from the end of the plan.
func describe(v View, limit int) string {
	r := renderer{v: v, d: detail{folds: true, done: all, open: all, said: 100, title: 2000}}
	if out := r.text(); len(out) <= limit {
		return out
	}
	r.shortened = true
	r.d = detail{done: all, open: all, said: 30, title: 2000}
	for _, r.d.done = range []int{all, 50} {
		if out := r.text(); len(out) <= limit {
			return out
		}
	}
	cut := func(open int) string {
		r.d = detail{done: min(open, 50), open: open, title: 80, plain: true}
		return r.text()
	}
	tooMany := sort.Search(len(v.Tasks)+1, func(n int) bool { return len(cut(n)) > limit })
	return cut(max(tooMany-1, 0))
}

type renderer struct {
	v         View
	d         detail
	shortened bool
}

func (r *renderer) text() string {
	return strings.Trim(r.status()+r.summary()+r.tasks()+r.said()+r.commits()+r.gates()+r.account()+r.folds()+r.steer(), "\n") + "\n"
}

// summaryOf is what the check run shows: the description without what closes the issue.
func summaryOf(v View) string {
	v.Closes = false
	return describe(v, maxSummary)
}

// section is a part of the text that is being written.
type section struct{ b strings.Builder }

func (s *section) line(format string, args ...any) { fmt.Fprintf(&s.b, format+"\n", args...) }

func (s *section) add(text string) { s.b.WriteString(text) }

func (s *section) text() string { return s.b.String() }

func (s *section) size() int { return s.b.Len() }

func (r *renderer) speak(text string, limit int) string { return Speak(r.v.Mask, text, limit) }

func (r *renderer) code(name string) string { return Code(r.v.Mask, name) }

func (r *renderer) status() string {
	var s section
	v := r.v
	facts := []string{"**" + r.headline() + "**"}
	if done, total := progress.Counts(r.v.Tasks); total > 0 {
		facts = append(facts, fmt.Sprintf("%d of %d tasks", done, total))
	}
	switch {
	case v.Iteration > 0 && v.End == "":
		facts = append(facts, fmt.Sprintf("iteration %d", v.Iteration)+r.runs())
	case v.Iteration > 0:
		facts = append(facts, strs.Count(v.Iteration, "iteration")+r.runs())
	}
	if v.CostUSD > 0 {
		facts = append(facts, fmt.Sprintf("US$ %.2f", v.CostUSD))
	}
	if agent := r.code(v.Agent); agent != "" {
		if model := r.code(v.Model); model != "" {
			agent += " with " + model
		}
		facts = append(facts, agent)
	}
	if box := r.code(v.Sandbox); box != "" {
		facts = append(facts, "in "+box)
	}
	if login := r.code(v.RequestedBy); login != "" {
		facts = append(facts, "requested by "+login)
	}
	s.line("%s", strings.Join(facts, " · "))
	if note := r.speak(v.Note, maxNote); note != "" {
		s.line("\n> %s", note)
	}
	for _, q := range v.Questions[:min(len(v.Questions), maxQuestions)] {
		if q = r.speak(q, maxReason); q != "" {
			s.line("\n> ❓ %s", q)
		}
	}
	for i, text := range v.Merged {
		if i == maxMerged {
			s.line("\n> … and %d more edits", len(v.Merged)-i)
			break
		}
		if text = r.speak(text, maxReason); text != "" {
			s.line("\n> ✏️ %s", text)
		}
	}
	if v.End.Complete() && v.Proof.Passed == 0 {
		why := "none are configured, and none were found in the repository"
		switch {
		case len(v.Proof.Missing) > 0:
			why = r.speak(strings.Join(v.Proof.Missing, "; "), maxReason)
		case len(v.Proof.Failing) > 0:
			why = "all of them already failed before this run"
		}
		s.line("\n> ⚠️ No checks verified this: %s.", why)
	}
	if v.Removed > 0 {
		s.line("\n> The issue contained hidden text, which people cannot see but agents can: %s removed.",
			strs.Count(v.Removed, "character"))
	}
	if r.shortened {
		s.line("\nShortened to fit. The full record is %s in the branch's history.", r.story())
	}
	return s.text()
}

// runs says how many there were, where it was more than one.
func (r *renderer) runs() string {
	if r.v.Runs < 2 {
		return ""
	}
	return fmt.Sprintf(" in %d runs", r.v.Runs)
}

// headline names the task that is being worked on.
func (r *renderer) headline() string {
	at := slices.IndexFunc(r.v.Tasks, func(t run.Task) bool {
		return (t.Status == run.TaskInProgress || t.Status == run.TaskInReview) && t.ID != ""
	})
	if at >= 0 && r.v.End == "" && r.v.Waits == "" && r.v.Phase == run.PhaseIterating {
		return r.v.Headline() + " on " + r.v.Tasks[at].ID
	}
	return r.v.Headline()
}

// story leads to the history of progress.md, which also shows what was removed.
func (r *renderer) story() string {
	file := fmt.Sprintf(".ralph/%d/progress.md", r.v.IssueNumber)
	if r.v.RepoURL == "" || r.v.Branch == "" {
		return "`" + file + "`"
	}
	return fmt.Sprintf("[`%s`](%s/commits/%s/%s)", file, r.v.RepoURL, r.v.Branch, file)
}

// tasks mirrors the task list of progress.md.
func (r *renderer) tasks() string {
	var s section
	counts := func(done bool) (n int) {
		for _, t := range r.v.Tasks {
			if (t.Status == run.TaskDone) == done {
				n++
			}
		}
		return n
	}
	done, open := counts(true), 0
	group, hidden := "", 0
	for _, t := range r.v.Tasks {
		if t.Status == run.TaskDone {
			done--
		} else {
			open++
		}
		if t.Status == run.TaskDone && done >= r.d.done || t.Status != run.TaskDone && open > r.d.open {
			hidden++
			continue
		}
		if name := r.speak(t.Group, min(maxGroup, r.d.title)); name != group {
			group = name
			s.line("\n#### %s\n", cmp.Or(name, "Other"))
		}
		s.add(r.task(t))
	}
	if hidden > 0 {
		s.line("\n… and %s not shown here.", strs.Count(hidden, "task"))
	}
	if s.size() == 0 {
		return ""
	}
	return "\n### Tasks\n\n" + strings.TrimLeft(s.text(), "\n")
}

// task writes a task as progress.md has it, with the commits that did it.
func (r *renderer) task(t run.Task) string {
	var s section
	box := " "
	if t.Status == run.TaskDone {
		box = "x"
	}
	words := []string{"- [" + box + "] " + t.ID}
	if t.Priority > 0 {
		words = append(words, "(P"+strconv.Itoa(t.Priority)+")")
	}
	if t.Parallel {
		words = append(words, "[P]")
	}
	if t.Verify {
		words = append(words, "[VERIFY]")
	}
	words = append(words, r.speak(t.Title, r.d.title))
	if t.Status == run.TaskBlocked || t.Status == run.TaskSkipped {
		words = append(words, "("+string(t.Status)+": "+cmp.Or(r.speak(t.Reason, min(maxReason, r.d.title)), "no reason given")+")")
	}
	var links []string
	for _, c := range r.v.Commits {
		if c.TaskID == t.ID {
			links = append(links, r.commit(c))
		}
	}
	if len(links) > 0 {
		words = append(words, "· "+strings.Join(links[max(len(links)-5, 0):], ", "))
	}
	s.line("%s", strings.Join(words, " "))
	if r.d.plain {
		return s.text()
	}
	for i, criterion := range t.Accept {
		if i == maxCriteria {
			s.line("  - … and %d more", len(t.Accept)-i)
			break
		}
		s.line("  - Accept: %s", r.speak(criterion, maxCriterion))
	}
	if len(t.DependsOn) > 0 {
		s.line("  - Depends on: %s", r.speak(strings.Join(t.DependsOn, ", "), maxReason))
	}
	return s.text()
}

func (r *renderer) commit(c loop.Landed) string {
	link := r.link(c.OID)
	if c.Verified != nil && !*c.Verified {
		link += " ⚠️ **not signed**"
	}
	return link
}

// commits lists those that did no task of the list: the others stand beside theirs.
func (r *renderer) commits() string {
	var lines []string
	for _, c := range r.v.Commits {
		if !slices.ContainsFunc(r.v.Tasks, func(t run.Task) bool { return t.ID == c.TaskID }) {
			lines = append(lines, strings.TrimRight("- "+r.commit(c)+" "+r.speak(c.Subject, 200), " "))
		}
	}
	hidden := r.v.Older + max(len(lines)-maxCommits, 0)
	var s section
	if len(lines) > 0 {
		s.line("\n### Other commits\n\n%s", strings.Join(lines[max(len(lines)-maxCommits, 0):], "\n"))
	}
	if hidden > 0 {
		s.line("\nNot linked here: %s.", strs.Count(hidden, "older commit"))
	}
	return s.text()
}

var oidRE = strs.Lazy(`^[0-9a-f]{7,64}$`)

// link is a short object name that leads to the commit.
func (r *renderer) link(oid string) string {
	if !oidRE().MatchString(oid) {
		return "?"
	}
	if r.v.RepoURL == "" {
		return oid
	}
	return fmt.Sprintf("[`%s`](%s/commit/%s)", oid[:7], r.v.RepoURL, oid)
}
