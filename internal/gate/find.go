package gate

import (
	"bytes"
	"context"
	"iter"
	"regexp"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// expression finds something in a file. Expressions alone are slow, and a proposal
// may have many large files, so what is without its words is not given to them.
type expression struct {
	re func() *regexp.Regexp
	// words are such that each match holds one of them; none where there are none.
	words [][]byte
	// far: a match may go on for many lines, else for reach.
	far bool
}

// reach is how many lines that are not blank a match may go on for.
const reach = 3

// near is an expression whose matches stand on a few lines; words are separated by
// spaces.
func near(words, re string) *expression {
	e := &expression{re: strs.Lazy(re)}
	for word := range strings.FieldsSeq(words) {
		e.words = append(e.words, []byte(word))
	}
	return e
}

// far is an expression whose matches may stand on many lines.
func far(words, re string) *expression {
	e := near(words, re)
	e.far = true
	return e
}

// in says whether a text holds one of the words.
func (e *expression) in(text []byte) bool {
	if len(e.words) == 0 {
		return true
	}
	for _, word := range e.words {
		if bytes.Contains(text, word) {
			return true
		}
	}
	return false
}

// parts are the places of src that can hold matches, from and to the ends of lines. A
// cancelled context ends them: no part takes longer than a file of MaxFile.
func (e *expression) parts(ctx context.Context, src []byte) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		if !e.in(src) {
			return
		}
		ask := yield
		yield = func(from, to int) bool { return ctx.Err() == nil && ask(from, to) }
		from, left, at := -1, 0, 0 // from is where the part at hand begins, -1 for none
		for line := range bytes.Lines(src) {
			switch {
			case e.in(line):
				if from < 0 {
					from = at
				}
				left = reach
				if e.far {
					yield(from, len(src))
					return
				}
			case from >= 0 && left == 0:
				if !yield(from, at) {
					return
				}
				from = -1
			case from >= 0 && len(bytes.TrimSpace(line)) > 0:
				left--
			}
			at += len(line)
		}
		if from >= 0 {
			yield(from, len(src))
		}
	}
}

// count is how often the expression is found in src.
func (e *expression) count(ctx context.Context, src []byte) int {
	n := 0
	for from, to := range e.parts(ctx, src) {
		n += len(e.re().FindAllIndex(src[from:to], -1))
	}
	return n
}

// all are the places where it is found, each as FindSubmatchIndex gives it.
func (e *expression) all(ctx context.Context, src []byte) [][]int {
	var found [][]int
	for from, to := range e.parts(ctx, src) {
		for _, m := range e.re().FindAllSubmatchIndex(src[from:to], -1) {
			for i := range m {
				if m[i] >= 0 {
					m[i] += from
				}
			}
			found = append(found, m)
		}
	}
	return found
}

// match says whether it is found in src.
func (e *expression) match(ctx context.Context, src []byte) bool {
	for from, to := range e.parts(ctx, src) {
		if e.re().Match(src[from:to]) {
			return true
		}
	}
	return false
}
