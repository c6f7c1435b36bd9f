package formats

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// maxText bounds one line of text that is read or written, in bytes.
const maxText = 2000

// bom is the byte order mark some editors put first.
const bom = "\ufeff"

// oneLine makes s a single line of what a person can see, of at most maxText bytes.
func oneLine(s string) string {
	s, _ = progress.Clean(s)
	return strs.Cut(strings.ReplaceAll(strs.OneLine(s), "<!--", "&lt;!--"), maxText)
}

// lines splits text into lines that are not blank, each as oneLine makes it.
func lines(s string) []string {
	var out []string
	for l := range strings.Lines(s) {
		if l = oneLine(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

var bulletRE = strs.Lazy(`^[ \t]*[-*+][ \t]+(\S.*)$`)

// bullets are the items of the lists in a text, one of several lines on one. What stands
// before the first is left out: it is a placeholder more often than not.
func bullets(text string) []string {
	var out []string
	in := false
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, " \t\r\n")
		switch m := bulletRE().FindStringSubmatch(l); {
		case m != nil:
			out = append(out, oneLine(m[1]))
			in = true
		case l == "" || l[0] != ' ' && l[0] != '\t':
			in = false
		case in:
			out[len(out)-1] = oneLine(out[len(out)-1] + " " + l)
		}
	}
	return out
}

// admit refuses what no format can be: the limits are those of progress.md.
func admit(name string, src []byte) error {
	if len(src) > progress.MaxSize {
		return &run.UserError{
			Message: fmt.Sprintf("%s has %d bytes, and at most %d are read", name, len(src), progress.MaxSize),
			Hint:    "split the plan", Err: progress.ErrTooLarge,
		}
	}
	if at, err := progress.Check(src); errors.Is(err, progress.ErrEncoding) {
		return failAt(name, src, at, "not plain UTF-8 text", "save the file as UTF-8 without NUL bytes")
	}
	return nil
}

// failAt is an error a person can fix, at a byte of src. Line and column count from 1, and
// columns count characters.
func failAt(name string, src []byte, at int, message, hint string) error {
	at = min(at, len(src))
	start := bytes.LastIndexByte(src[:at], '\n') + 1
	return &run.UserError{
		Message: fmt.Sprintf("%s:%d:%d: %s", name, 1+bytes.Count(src[:at], []byte("\n")),
			1+utf8.RuneCount(bytes.TrimPrefix(src[start:at], []byte(bom))), message),
		Hint: hint,
	}
}
