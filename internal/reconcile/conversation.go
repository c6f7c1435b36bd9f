package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// maxThreadRounds is how often one conversation may bring work without somebody asking
// for it by a command.
const maxThreadRounds = 3

const (
	// maxQuote bounds what is quoted of one conversation, in bytes.
	maxQuote = 8 << 10
	// maxGist bounds what a task's title says of it, maxCriterion what its
	// criterion does.
	maxGist      = 120
	maxCriterion = 600
)

// comment is one in a conversation, as it was when it was written.
type comment struct {
	ID   int64
	By   loop.Person
	Text string
	// MayWrite: its author may have the bot act.
	MayWrite bool
	// Fresh: nobody has acted on it yet.
	Fresh bool
	// Start and Line are the lines, both 0 where it is about the whole file.
	Start, Line int
	// Hunk is the part of the difference that it stands below.
	Hunk string
}

// thread is a conversation on lines of a pull request.
type thread struct {
	ID   string
	Path string
	// Resolved and Outdated are GitHub's words.
	Resolved, Outdated bool
	// Reopened: somebody who may write has opened it again, and nobody has acted
	// on that.
	Reopened bool
	// Rounds is how often it has brought work.
	Rounds int
	// Comments are those whose text is known, oldest first. Root is the id of the
	// one that opened it, which may not be among them.
	Root     int64
	Comments []comment
}

// handling is what is to be done about a conversation.
type handling string

// The ways to handle one.
const (
	// handleNothing: nothing new was said by anybody who may.
	handleNothing handling = ""
	// handleWork: an agent is to do what it says.
	handleWork handling = "work"
	// handleDrop: it no longer stands.
	handleDrop handling = "drop"
	// handleAsk: people have to decide first.
	handleAsk handling = "ask"
	// handleWait: it is of somebody who may not; one who may can ask for it.
	handleWait handling = "wait"
)

// decision is what is to be done about one conversation.
type decision struct {
	Thread   thread
	Handling handling
	// Why says so in a few words, where there is no work.
	Why string
	// By is who asked for it last.
	By loop.Person
	// Task is the work, and Quote the whole of what was said.
	Task  run.Task
	Quote string
	// With is the other conversation: the one that Ask is about, or the one whose
	// work does this, too.
	With string

	// explicit: somebody asked for it by a command.
	explicit    bool
	start, line int
	wish        string
}

// decideThreads says what is to be done about each of the conversations, in their
// order.
func decideThreads(threads []thread) []decision {
	all := make([]decision, 0, len(threads))
	for _, t := range threads {
		all = append(all, decideThread(t))
	}
	for i := range all {
		for k := range i {
			weigh(&all[k], &all[i])
		}
	}
	return all
}

func decideThread(t thread) decision {
	d := decision{Thread: t}
	var heard []comment // of those who may, newest last
	fresh := t.Reopened
	asked := int64(0) // the newest comment that asks by a command
	for _, c := range t.Comments {
		if !c.MayWrite {
			continue
		}
		said, explicit, ok := handlers.CommentWish(c.Text)
		if !ok {
			continue
		}
		c.Text = said
		heard = append(heard, c)
		fresh = fresh || c.Fresh
		if explicit && c.Fresh {
			asked, d.explicit = c.ID, true
		}
	}
	others := slices.ContainsFunc(t.Comments, func(c comment) bool { return !c.MayWrite && c.Fresh })
	if !fresh {
		if len(heard) == 0 && others && !t.Resolved {
			d.Handling, d.Why = handleWait, "someone with write access must request it with `/ralph do`"
		}
		return d
	}
	if len(heard) > 0 {
		d.By = heard[len(heard)-1].By
	}
	own := slices.ContainsFunc(heard, func(c comment) bool { return c.ID == t.Root })
	switch {
	case t.Resolved:
		d.Handling, d.Why = handleDrop, "it was resolved"
	case !own && !d.explicit:
		d.Handling, d.Why = handleWait, "someone with write access must request it with `/ralph do`"
	case t.Outdated && t.Rounds == 0 && !d.explicit:
		d.Handling, d.Why = handleDrop, "its lines have changed since"
	case t.Rounds >= maxThreadRounds && !d.explicit:
		d.Handling, d.Why = handleAsk, fmt.Sprintf("tried %d times; comment `/ralph do` in it to try again", t.Rounds)
	default:
		d.take(heard, asked)
	}
	return d
}

// take makes the work of what was said.
func (d *decision) take(heard []comment, asked int64) {
	t := d.Thread
	first := t.Comments[0]
	d.start, d.line = lines(first)
	quoted := heard
	if asked > 0 {
		quoted = nil
		for _, c := range t.Comments {
			if said, _, ok := handlers.CommentWish(c.Text); ok && (c.MayWrite || c.ID < asked) {
				c.Text = said
				quoted = append(quoted, c)
			}
		}
	}
	d.Handling = handleWork
	where := linesOf(t.Path, d.start, d.line)
	d.wish = gist(heard, maxQuote)
	d.Task = run.Task{Title: "Address the review of " + where, Priority: 1}
	if brief := gist(quoted, maxGist); brief != "" {
		d.Task.Title += ": " + brief
	}
	if long := gist(quoted, maxCriterion); long != "" {
		d.Task.Accept = []string{fmt.Sprintf("%s does what %s asks in the review: %s", where, d.By.Login, long)}
	}
	d.Quote = quote(where, first.Hunk, quoted)
}

// linesOf names lines of a file.
func linesOf(path string, start, line int) string {
	path = strs.OneLine(path)
	switch {
	case line == 0:
		return path
	case start == line || start == 0:
		return fmt.Sprintf("%s line %d", path, line)
	default:
		return fmt.Sprintf("%s lines %d to %d", path, start, line)
	}
}

func lines(c comment) (start, line int) { return cmp.Or(c.Start, c.Line), c.Line }

// gist is what was said last, on one line.
func gist(said []comment, limit int) string {
	for _, c := range slices.Backward(said) {
		text, _ := plan.Sanitize(c.Text)
		if text = strs.OneLine(text); text != "" {
			return short(text, limit)
		}
	}
	return ""
}

// quote is all that was said, for whoever does the work.
func quote(where, hunk string, said []comment) string {
	var b strings.Builder
	fmt.Fprintf(&b, "About %s.\n", where)
	if hunk = strings.TrimSpace(hunk); hunk != "" {
		fmt.Fprintf(&b, "\nThe code it comments on, as it was then:\n\n%s\n", short(hunk, maxQuote/4))
	}
	for _, c := range said {
		text, _ := plan.Sanitize(c.Text)
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		fmt.Fprintf(&b, "\n%s wrote:\n\n%s\n", strs.OneLine(c.By.Login), text)
	}
	return short(b.String(), maxQuote)
}

// weigh compares what two conversations want of the same lines, a being the
// older one.
func weigh(a, b *decision) {
	works := func(d *decision) bool { return d.Handling == handleWork }
	disputed := func(d *decision) bool { return works(d) || d.Handling == handleAsk && d.With != "" }
	if !disputed(a) || !disputed(b) || a.Thread.Path != b.Thread.Path || a.line == 0 || b.line == 0 || a.start > b.line ||
		b.start > a.line {
		return
	}
	same := a.wish == b.wish && a.wish != ""
	switch {
	case same && works(a) && works(b):
		b.With = a.Thread.ID
	case same, a.By.ID == b.By.ID:
	case a.explicit && !b.explicit:
		b.drop()
	case b.explicit && !a.explicit:
		a.drop()
	default:
		a.ask(b)
		b.ask(a)
	}
}

// drop leaves a conversation to people: another one was decided for.
func (d *decision) drop() {
	d.Handling, d.Why, d.With = handleDrop, "another request for the same lines was chosen", ""
}

func (d *decision) ask(other *decision) {
	d.Handling, d.With = handleAsk, other.Thread.ID
	d.Why = fmt.Sprintf("%s asks for a different change to the same lines", other.By.Login)
}

// short cuts text to at most limit bytes and says so.
func short(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.TrimSpace(strings.ToValidUTF8(text[:limit-len("…")], "")) + "…"
}
