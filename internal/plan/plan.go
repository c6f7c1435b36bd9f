package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/progress/formats"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// ErrEmpty: there is nothing to work from, not even a title.
var ErrEmpty = errors.New("plan: the text is empty")

// noCommit on a line of its own in a plan file asks for no commits.
const noCommit = "DO_NOT_COMMIT"

// maxIssue bounds the body of an issue, in bytes. GitHub's own limit is 65,536
// characters, of at most four bytes each.
const maxIssue = 4 * 65_536

// Plan is what a run is about.
type Plan struct {
	// Title is one line.
	Title string
	// Text is the cleaned description.
	Text string
	// Tasks are the check boxes of the text, if it has any, open or done as
	// they were written.
	Tasks []run.Task
	// Accept are the acceptance criteria of the whole, as text. Those of single
	// tasks are with the tasks.
	Accept []string
	// Removed counts the characters that were taken out because a person
	// would not have seen them.
	Removed int
	// SHA256 is the hash of title and text in hex; it tells whether a plan
	// that was approved is still the same. Ticks and the status of a plan file
	// do not count: the run itself writes them.
	SHA256 string
	// NoCommit: the plan file asks that nothing be committed.
	NoCommit bool
	// Findings are sentences on what the plan says and nobody can heed.
	Findings []string
	// Unread counts boxes that may be open work and are no tasks. Findings name them.
	Unread int
	// Branch is the git branch that a prd.json wants to be worked on, "" for none.
	// Nobody has checked it.
	Branch string
}

// Words are what a model reads: the text, or the title where it says it all.
func (p Plan) Words() string {
	if p.Text == "" {
		return p.Title
	}
	return p.Text
}

// FromIssue makes a plan of an issue's title and body, both of which anybody
// may have written. The body may be empty: some titles say it all. It fails with
// ErrEmpty where nothing is left of either once hidden text is gone, and with a
// *run.UserError where the body cannot be read as a plan.
func FromIssue(title, body string) (Plan, error) {
	if len(body) > maxIssue {
		return Plan{}, unreadable("The issue", progress.ErrTooLarge)
	}
	text, removed := Sanitize(body)
	head, more := progress.Clean(title)
	p := Plan{Title: strs.OneLine(head), Text: withoutBlankEnds(text), Removed: removed + more}
	if p.Text == "" && p.Title == "" {
		return Plan{}, ErrEmpty
	}
	if p.Title == "" {
		p.Title = firstLine(p.Text)
	}
	doc, err := progress.Parse([]byte(p.Text))
	if err != nil {
		return Plan{}, unreadable("The issue", err)
	}
	p.fill(doc)
	err = p.bounded("The issue")
	return p, err
}

// withoutBlankEnds is text without the blank lines before it and the white space behind it. The
// blanks that its first line begins with stay: they can make a code block of it.
func withoutBlankEnds(text string) string {
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	for {
		line, rest, more := strings.Cut(text, "\n")
		if !more || strings.TrimSpace(line) != "" {
			return text
		}
		text = rest
	}
}

// maxTasks bounds the tasks of a plan: a run keeps them all in its notes.
const maxTasks = 5000

// bounded fails where there are more tasks than a run can keep.
func (p *Plan) bounded(what string) error {
	if len(p.Tasks) <= maxTasks {
		return nil
	}
	return &run.UserError{
		Message: fmt.Sprintf("%s has %d tasks, and at most %d are worked in one run", what, len(p.Tasks), maxTasks),
		Hint:    "split it, and run one part after the other",
	}
}

// fill reads tasks and criteria from the text, and hashes it.
func (p *Plan) fill(doc *progress.Doc) {
	p.read(doc)
	p.look(doc.Unread())
	p.SHA256 = sum(p.Title, p.Text)
}

// FromFile makes a plan of a person's own plan file, which may be the task file
// of another system (package formats); name is its path. notes is what its
// Companion holds, or nil: what was learned there is told below the plan, but
// is no part of what is hashed, and its tasks, where it has some, take the place
// of the plan's. Only invisible characters are taken out. The
// title is the first level-1 heading or else the file's name. It fails with
// ErrEmpty where the file holds nothing; other errors are as for FromIssue.
func FromFile(name string, src, notes []byte) (Plan, error) {
	p, err := fromFile(name, src, notes)
	if err == nil {
		err = p.bounded(fmt.Sprintf("The plan file %q", name))
	}
	return p, err
}

func fromFile(name string, src, notes []byte) (Plan, error) {
	text, removed := progress.Clean(string(src))
	p := Plan{Text: withoutBlankEnds(text), Removed: removed}
	if p.Text == "" {
		return Plan{}, ErrEmpty
	}
	format := detect(name, src)
	if format.Foreign() {
		return fromForeign(format, name, src, notes)
	}
	doc, err := progress.Parse([]byte(text))
	if err != nil {
		return Plan{}, unreadable(fmt.Sprintf("The plan file %q", name), err)
	}
	p.Title = strs.OneLine(doc.Heading())
	if p.Title == "" {
		p.Title = strs.OneLine(stem(name))
	}
	p.NoCommit = doc.HasLine(noCommit)
	p.fill(doc)
	p.SHA256 = sum(p.Title, unworked(format, name, p.Text))
	if len(notes) == 0 {
		return p, nil
	}
	return p, p.attach(Companion(name, src), notes)
}

// detect tells how a plan file is written: a text that is no task file is a
// check list, perhaps one without a task.
func detect(name string, src []byte) formats.Format {
	if format, ok := formats.Detect(name, src); ok {
		return format
	}
	return formats.Checklist
}

func unreadable(what string, err error) error {
	hint := "write it as plain Markdown text"
	switch {
	case errors.Is(err, progress.ErrTooLarge):
		hint = "shorten it, or split the work"
	case errors.Is(err, progress.ErrTooDeep):
		hint = "nest lists and quotes less deeply"
	}
	return &run.UserError{Message: what + " cannot be read as a plan", Hint: hint, Err: fmt.Errorf("parse plan: %w", err)}
}

// sum hashes title and text. The title has no line break, so the border
// between the two is certain.
func sum(title, text string) string {
	h := sha256.Sum256([]byte(title + "\n" + text))
	return hex.EncodeToString(h[:])
}

// firstLine is the beginning of a text, for want of a title.
func firstLine(s string) string {
	const limit = 80
	s, _, _ = strings.Cut(s, "\n")
	s = strs.OneLine(strings.TrimLeft(s, "#-*>+ \t"))
	if r := []rune(s); len(r) > limit {
		s = string(r[:limit]) + "…"
	}
	if s == "" {
		return "(untitled)"
	}
	return s
}

// stem is the last element of a path without the extension of a text file.
func stem(name string) string {
	base := path.Base(name)
	switch ext := path.Ext(base); strings.ToLower(ext) {
	case ".md", ".markdown", ".txt":
		return strings.TrimSuffix(base, ext)
	}
	return base
}

const maxSlug = 50

// Slug makes a part of file and branch names out of the name of a plan: lower
// case ASCII letters, digits and single hyphens, at most 50, never empty, with
// no hyphen at either end. An extension is dropped. Different names can give
// the same slug.
func Slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(stem(name)) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == maxSlug {
			break
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	h := sha256.Sum256([]byte(name)) // a name in another script, say
	return "plan-" + hex.EncodeToString(h[:4])
}

// Ask says whether a planner may ask a person where a plan says too little.
type Ask string

// The choices. The empty one is AskAuto.
const (
	// AskAuto has the planner ask what it cannot assume.
	AskAuto Ask = "auto"
	// AskNever has it plan with assumptions.
	AskNever Ask = "never"
)
