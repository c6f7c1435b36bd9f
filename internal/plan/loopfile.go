package plan

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LoopFile is where ralph-wiggum, a plugin of Claude Code, keeps the loop of a checkout:
// a prompt that is repeated until its promise is made.
const LoopFile = ".claude/ralph-loop.local.md"

// Loop is what such a file says.
type Loop struct {
	// Active is false for a loop that is off.
	Active bool
	// Iteration is the number of the call at hand, from 1.
	Iteration int
	// MaxIterations is the most calls, 0 for no bound.
	MaxIterations int
	// Promise is the text of the promise, "" for none.
	Promise string
	// StartedAt is when the loop began, as the file has it.
	StartedAt string
	Prompt    string
}

// NewLoop is one that begins now.
func NewLoop(prompt, promise string, most int, now time.Time) Loop {
	return Loop{
		Active: true, Iteration: 1, MaxIterations: max(most, 0), Promise: promise, StartedAt: now.UTC().Format(time.RFC3339),
		Prompt: strings.TrimSpace(prompt),
	}
}

const loopFence = "---"

// ReadLoop reads the file. What it says of things that are not known is passed over.
func ReadLoop(src []byte) (Loop, error) {
	l := Loop{Active: true, Iteration: 1}
	text := strings.ReplaceAll(string(bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))), "\r\n", "\n")
	lines := strings.Split(text, "\n")
	if strings.TrimRight(lines[0], " \t") != loopFence {
		return Loop{}, fmt.Errorf("it does not begin with a line %q", loopFence)
	}
	for i, line := range lines[1:] {
		if strings.TrimRight(line, " \t") == loopFence {
			l.Prompt = strings.TrimSpace(strings.Join(lines[i+2:], "\n"))
			return l, nil
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		if err := l.set(strings.TrimSpace(key), scalar(value)); err != nil {
			return Loop{}, err
		}
	}
	return Loop{}, fmt.Errorf("its first part has no end: a line %q is missing", loopFence)
}

func (l *Loop) set(key, value string) (err error) {
	number := func() int {
		n, bad := strconv.Atoi(value)
		if bad != nil || n < 0 {
			err = fmt.Errorf("%s is no number: %q", key, value)
		}
		return n
	}
	switch key {
	case "active":
		if value != "true" && value != "false" {
			return fmt.Errorf("active is neither true nor false: %q", value)
		}
		l.Active = value == "true"
	case "iteration":
		l.Iteration = number()
	case "max_iterations":
		l.MaxIterations = number()
	case "completion_promise":
		l.Promise = value
	case "started_at":
		l.StartedAt = value
	}
	return err
}

// scalar reads a value of one line: plain, or between quotes. null is "".
func scalar(value string) string {
	value = strings.TrimSpace(value)
	if len(value) >= 2 && value[0] == '\'' && value[len(value)-1] == '\'' {
		return strings.ReplaceAll(value[1:len(value)-1], "''", "'")
	}
	if strings.HasPrefix(value, `"`) {
		if text, err := strconv.Unquote(value); err == nil {
			return text
		}
		return strings.Trim(value, `"`)
	}
	if value == "null" || value == "~" {
		return ""
	}
	return value
}

// Bytes is the file that says this.
func (l Loop) Bytes() []byte {
	promise := "null"
	if l.Promise != "" {
		promise = strconv.Quote(l.Promise)
	}
	return fmt.Appendf(nil, "---\nactive: %t\niteration: %d\nmax_iterations: %d\ncompletion_promise: %s\n"+
		"started_at: %q\n---\n\n%s\n",
		l.Active, l.Iteration, l.MaxIterations, promise, l.StartedAt, l.Prompt)
}

// ErrPromise is why a text cannot be promised.
var ErrPromise = errors.New("a promise is one line of 1 to 80 bytes without < and >")

// CheckPromise says whether an agent can promise a text.
func CheckPromise(text string) error {
	if strings.TrimSpace(text) == "" || len(text) > maxPromise || strings.ContainsAny(text, "<>\r\n") {
		return ErrPromise
	}
	return nil
}

// maxPromise is the most that is read between the tags of a promise, in bytes; see prompt.ReadPromise.
const maxPromise = 80
