package transcript

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/run"
)

// Parsers makes the parser of an agent's stream; nil for an agent it does not
// know.
type Parsers func(name string, emit func(agent.Activity)) agent.Parser

// Activities reads what an agent did out of its stream. ok is false where its
// stream cannot be read.
func (t *Transcript) Activities(parsers Parsers, emit func(agent.Activity)) (ok bool, err error) {
	parser := parsers(t.Agent, emit)
	if parser == nil {
		return false, nil
	}
	out, err := t.Part(StdoutPart)
	if err != nil {
		return true, err
	}
	defer func() { _ = out.Close() }()
	if _, err := io.Copy(parser, out); err != nil {
		return true, fmt.Errorf("read transcript: %w", err)
	}
	parser.Close()
	return true, nil
}

// Line is one activity for a person, "" for one that tells nothing.
func Line(a agent.Activity) string {
	mark, tells := map[agent.ActivityKind]string{
		agent.ActivityText: "", agent.ActivityTool: "  > ", agent.ActivityError: "  ! ", agent.ActivityRetry: "  … ",
	}[a.Kind]
	if !tells {
		return ""
	}
	return mark + a.String()
}

// Write writes the transcript for a person to read.
func (t *Transcript) Write(w io.Writer, parsers Parsers, verdicts []Verdict) error {
	var b strings.Builder
	// Lines cannot drive a terminal: agents' words end up there.
	line := func(format string, args ...any) {
		b.WriteString(run.PrintableLine(fmt.Sprintf(format, args...)) + "\n")
	}
	line("── %s", t.title())
	ok, err := t.Activities(parsers, func(a agent.Activity) {
		if l := Line(a); l != "" {
			line("%s", l)
		}
	})
	if err != nil {
		return err
	}
	if !ok {
		line("  (the words of %q cannot be read here; see them with --raw)", t.Agent)
	}
	stderr, err := t.text(StderrPart)
	if err != nil {
		return err
	}
	for l := range strings.Lines(stderr) {
		line("  stderr: %s", strings.TrimRight(l, "\r\n"))
	}
	for _, part := range []string{PromptPart, StdoutPart, StderrPart} {
		if n := t.Cut[part]; n > 0 {
			line("  (%d bytes in the middle of %s were not kept)", n, part)
		}
	}
	line("  = %s", t.end())
	for _, v := range verdicts {
		if v.Iteration == t.Iteration {
			line("  → %s", strings.TrimSpace(string(v.Kind)+" "+v.TaskID+" "+v.Text))
		}
	}
	_, err = io.WriteString(w, b.String()+"\n")
	return err
}

func (t *Transcript) title() string {
	parts := []string{fmt.Sprintf("iteration %d", t.Iteration)}
	for _, s := range []string{
		strings.TrimSpace(t.TaskID + " " + t.Task), string(t.Role), strings.TrimSpace(t.Agent + " " + t.Model), t.Sandbox,
	} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " · ")
}

func (t *Transcript) end() string {
	s := t.Outcome
	if !t.Started.IsZero() && !t.Finished.IsZero() {
		s += ", " + t.Finished.Sub(t.Started).Round(100*time.Millisecond).String()
	}
	switch {
	case t.Usage.Turns == 1:
		s += ", 1 turn"
	case t.Usage.Turns > 1:
		s += fmt.Sprintf(", %d turns", t.Usage.Turns)
	}
	if t.Usage.CostUSD > 0 {
		s += fmt.Sprintf(", $%.2f", t.Usage.CostUSD)
	}
	if t.Detail != "" {
		s += ": " + t.Detail
	}
	return s
}

// text is a small part as a whole.
func (t *Transcript) text(part string) (string, error) {
	r, err := t.Part(part)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(io.LimitReader(r, HeadSize+2*TailSize))
	if err != nil {
		return "", fmt.Errorf("read transcript: %w", err)
	}
	return string(b), nil
}

// Tail is the end of what the run's last agent did, for a person to read: at most
// that many lines. It is "" where nothing is kept.
func (s *Store) Tail(id run.ID, parsers Parsers, lines int) (string, error) {
	names, err := s.Starts(id)
	if err != nil || len(names) == 0 {
		return "", err
	}
	t, err := s.Load(id, names[len(names)-1])
	if err != nil {
		return "", err
	}
	defer func() { _ = t.Close() }()
	var last []string
	_, err = t.Activities(parsers, func(a agent.Activity) {
		if l := Line(a); l != "" {
			if last = append(last, run.PrintableLine(l)); len(last) > 2*lines {
				last = append(last[:0], last[len(last)-lines:]...)
			}
		}
	})
	if err != nil {
		return "", err
	}
	last = append(last[max(0, len(last)-lines):], "= "+run.PrintableLine(t.end()))
	return t.title() + "\n" + strings.Join(last, "\n"), nil
}
