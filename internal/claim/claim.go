package claim

import (
	"strings"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Kind is what an agent says of its task.
type Kind string

// What can be said of a task.
const (
	None    Kind = ""        // nothing was claimed
	Done    Kind = "done"    // the task is done
	Partial Kind = "partial" // progress, and something is left
	Blocked Kind = "blocked" // something is missing that the agent cannot get by itself
	Failed  Kind = "failed"  // it tried and it does not work
)

// Prefix is what a closing line begins with.
const Prefix = "RALPH_RESULT:"

// Bounds in bytes.
const (
	maxMessage   = 16 << 10
	maxWords     = 400
	maxAgainst   = 300
	maxEvidence  = 300
	maxObjection = 600
)

// Claim is what an agent says of its task.
type Claim struct {
	Kind Kind
	// Words say what is left, what is missing or why, in the agent's own words:
	// one line of at most 400 bytes, "" for none.
	Words string
	// Against holds the words that contradict a claim of done that was made as
	// well: one line of at most 300 bytes, "" for none.
	Against string
	// All says that the agent calls all of the work complete, not only this
	// task. It is false where the claim is contradicted.
	All bool
}

// Read says what the agent claims in its last message. ticked says that it
// ticked the task's box in progress.md.
func Read(final string, ticked bool) Claim {
	return parse(final).claim(ticked)
}

// ReadPromise is Read for an agent that claims its task with a promise: those words,
// exactly, between <promise> and </promise>. Nothing else claims that it is done, and
// what takes such a claim back does so here, too.
func ReadPromise(final, promise string) Claim {
	m := parse(final)
	m.promise = strs.OneLine(promise)
	return m.claim(false)
}

func (m message) claim(ticked bool) Claim {
	signals := m.signals()
	done, all := ticked, false
	var weak *signal
	for i, s := range signals {
		switch {
		case s.kind == Done:
			done, all = true, all || s.all
		case weak == nil || weaker(s.kind, weak.kind):
			weak = &signals[i]
		}
	}
	said, admitted := m.admission(done)
	c := Claim{}
	switch {
	case weak != nil:
		c.Kind, c.Words, c.Against = weak.kind, weak.words, weak.line
		if c.Words == "" && admitted {
			c.Words = said.text
		}
	case admitted:
		c.Kind, c.Words, c.Against = said.kind, said.text, said.text
	case done:
		c.Kind, c.All = Done, all
	}
	if !done {
		c.Against = ""
	}
	c.Words, c.Against = oneLine(c.Words, maxWords), oneLine(c.Against, maxAgainst)
	return c
}

// weaker says whether a claim of kind a is weaker than one of kind b.
func weaker(a, b Kind) bool { return strength(a) < strength(b) }

func strength(k Kind) int {
	switch k {
	case Failed:
		return 0
	case Blocked:
		return 1
	case Partial:
		return 2
	case Done:
		return 3
	}
	return 4
}

// oneLine is text on one line of at most limit bytes, without what could drive a
// terminal.
func oneLine(text string, limit int) string {
	const more = "…"
	// An invalid byte grows to three; cutting first keeps the work bounded.
	if len(text) > 4*limit {
		text = text[:4*limit]
	}
	text = strs.OneLine(run.PrintableLine(text))
	if len(text) <= limit {
		return text
	}
	cut := limit - len(more)
	for cut > 0 && text[cut]&0xC0 == 0x80 { // not within a character
		cut--
	}
	return strings.TrimRight(text[:cut], " ") + more
}
