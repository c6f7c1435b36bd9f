package action

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// Log is the log of a step. Whatever is written to it stays text: the runner
// takes no line of it for a command. Commands are made by its methods.
type Log struct {
	mu sync.Mutex
	w  io.Writer
	// word makes the runner listen again; "" while it does.
	word  string
	group bool
}

// NewLog begins a log. It must be closed.
func NewLog(w io.Writer) *Log {
	l := &Log{w: w}
	l.mute()
	return l
}

// mute makes the runner take what follows for text, until it hears a word that
// nobody can know.
func (l *Log) mute() {
	l.word = rand.Text()
	fmt.Fprintf(l.w, "::stop-commands::%s\n", l.word)
}

// command says something to the runner. name and properties are ours, and l.mu is
// held.
func (l *Log) command(name, properties, text string) {
	fmt.Fprintf(l.w, "::%s::\n", l.word)
	if properties != "" {
		name += " " + properties
	}
	fmt.Fprintf(l.w, "::%s::%s\n", name, escapeData(text))
	l.mute()
}

// Write implements io.Writer. What is written together comes out together.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Line writes one line.
func (l *Log) Line(format string, args ...any) {
	_, _ = fmt.Fprintln(l, oneLine(fmt.Sprintf(format, args...)))
}

// Group begins a part that can be folded away, and ends the one before.
func (l *Log) Group(title string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endGroup()
	l.command("group", "", strs.Cut(oneLine(title), 200))
	l.group = true
}

// EndGroup ends the part that was begun last, if any.
func (l *Log) EndGroup() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endGroup()
}

func (l *Log) endGroup() {
	if l.group {
		l.command("endgroup", "", "")
		l.group = false
	}
}

// The runner keeps annotations of up to 4 KiB or so.
const maxAnnotation = 2000

// Notice annotates the job.
func (l *Log) Notice(title, text string) { l.annotate("notice", title, text) }

// Warning annotates the job.
func (l *Log) Warning(title, text string) { l.annotate("warning", title, text) }

// Error annotates the job.
func (l *Log) Error(title, text string) { l.annotate("error", title, text) }

func (l *Log) annotate(level, title, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endGroup()
	l.command(level, "title="+escapeProperty(strs.Cut(oneLine(title), 200)), strs.Cut(run.Printable(text), maxAnnotation))
}

// minMask is how long a line of a secret must be to be masked: hiding every
// occurrence of a short word makes a log unreadable and tells the word.
const minMask = 8

// Mask has the runner hide a secret in what it shows from now on: each line of
// it, since a log is made of lines.
func (l *Log) Mask(secret string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) >= minMask {
			l.command("add-mask", "", line)
		}
	}
}

// Close lets the runner listen again.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endGroup()
	fmt.Fprintf(l.w, "::%s::\n", l.word)
}

// escapeData is how the runner wants the text of a command.
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// escapeProperty is how the runner wants the value of a property.
func escapeProperty(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}

// oneLine makes a line of a text.
func oneLine(s string) string {
	return strs.OneLine(run.Printable(s))
}
