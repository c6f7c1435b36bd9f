package review

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/org/ralph-action/internal/progress"
)

// suggestion is the one that the newest comment of somebody who may makes, where
// it makes exactly one on lines of the new side.
func suggestion(t Thread, heard []Comment) *Suggestion {
	if len(heard) == 0 {
		return nil
	}
	c := heard[len(heard)-1]
	blocks := suggestions(c.Text)
	start, line := lines(c)
	if len(blocks) != 1 || line == 0 || c.OldSide || c.Commit == "" {
		return nil
	}
	return &Suggestion{Commit: c.Commit, Path: t.Path, Start: start, Line: line, Text: blocks[0]}
}

// suggestions are the contents of the suggestion blocks of a comment, as GitHub
// would apply them: those that stand by themselves, not in quotes or lists.
func suggestions(comment string) []string {
	src := []byte(strings.ReplaceAll(comment, "\r\n", "\n"))
	if _, err := progress.Parse(src); err != nil {
		return nil // nested too deeply to be read in reasonable time
	}
	root := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...)).Parse(text.NewReader(src))
	var out []string
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		block, ok := n.(*ast.FencedCodeBlock)
		if !ok || string(block.Language(src)) != "suggestion" {
			continue
		}
		var b strings.Builder
		for i := range block.Lines().Len() {
			line := block.Lines().At(i)
			b.Write(line.Value(src))
		}
		content := b.String()
		if content != "" && !strings.HasSuffix(content, "\n") {
			content += "\n"
		}
		out = append(out, content)
	}
	return out
}

// Splice is now, a version of the file that s is about, with the lines of s put
// in; was is the version that its author looked at. ok is false where these lines
// cannot be told to be the same: then the suggestion is outdated. Line ends are
// those of the file.
func (s Suggestion) Splice(was, now string) (text string, ok bool) {
	a, b := strings.SplitAfter(was, "\n"), strings.SplitAfter(now, "\n")
	if s.Start < 1 || s.Line < s.Start || s.Line > len(a) || s.Line == len(a) && a[len(a)-1] == "" {
		return "", false
	}
	from, to := s.Start-1, s.Line // of a
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	tail := 0
	for tail < min(len(a), len(b))-same && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	switch {
	case to <= same:
	case from >= len(a)-tail:
		from, to = from+len(b)-len(a), to+len(b)-len(a)
	default:
		return "", false
	}
	lines := s.Text
	if strings.HasSuffix(b[from], "\r\n") {
		lines = strings.ReplaceAll(lines, "\n", "\r\n")
	}
	if !strings.HasSuffix(b[to-1], "\n") {
		lines = strings.TrimSuffix(strings.TrimSuffix(lines, "\n"), "\r")
	}
	return strings.Join(b[:from], "") + lines + strings.Join(b[to:], ""), true
}
