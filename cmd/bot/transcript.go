package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// transcriptsDir is where transcripts are in a data directory.
func transcriptsDir(data string) string { return filepath.Join(data, "transcripts") }

// transcriptPath is the directory with a run's transcripts, "" where it has none.
func transcriptPath(kept *transcript.Store, id run.ID) string {
	if _, err := os.Stat(kept.Dir(id)); err != nil {
		return ""
	}
	return kept.Dir(id)
}

// transcriptCmd is `bot transcript`.
type transcriptCmd struct {
	RunID     string `arg:"" optional:"" name:"run" help:"The run's ID, or how it begins. Default: list the runs."`
	Iteration int    `arg:"" optional:"" help:"Only the calls of this iteration."`
	Config    string `help:"A server's configuration: read its transcripts. Default: those of ${bot} run." placeholder:"FILE" type:"path"`
	Raw       bool   `xor:"what" help:"Print the agent's raw output (masked)."`
	Prompt    bool   `xor:"what" help:"Print the prompts instead."`
	Gate      string `xor:"what" help:"Print the whole output of this check instead." placeholder:"NAME"`
}

// Run prints what agents were told and said.
func (c *transcriptCmd) Run(io stdio) (err error) {
	out := io.out
	if isTerminal(out) {
		v := visible(out)
		defer func() { err = errors.Join(err, v.Close()) }()
		out = v
	}
	data, err := c.dataDir()
	if err != nil {
		return err
	}
	kept := transcript.Open(transcriptsDir(data), nil)
	ids, err := kept.Runs()
	if err != nil {
		return err
	}
	if c.RunID == "" {
		return list(kept, ids, out)
	}
	ids = slices.DeleteFunc(ids, func(id run.ID) bool { return !strings.HasPrefix(string(id), c.RunID) })
	switch {
	case len(ids) == 1 && c.Gate != "":
		return c.checks(kept, ids[0], out)
	case len(ids) == 1:
		return c.calls(kept, ids[0], out)
	case len(ids) > 1:
		return &run.UserError{
			Message: fmt.Sprintf("%d runs begin with %q", len(ids), c.RunID), Hint: calledAs() + " transcript lists them",
		}
	}
	return &run.UserError{
		Message: fmt.Sprintf("there is no transcript of a run %q", c.RunID),
		Hint:    "run " + calledAs() + " transcript to list them; --config reads a server's",
	}
}

// calls prints the calls that are asked for.
func (c *transcriptCmd) calls(kept *transcript.Store, id run.ID, w io.Writer) error {
	names, err := kept.Starts(id)
	if err != nil {
		return err
	}
	if c.Iteration != 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, fmt.Sprintf("%04d-", c.Iteration)) })
	}
	switch {
	case len(names) > 0:
	case c.Iteration == 0:
		return &run.UserError{
			Message: fmt.Sprintf("run %s made no agent calls", id), Hint: calledAs() + " show says how a run ended",
		}
	default:
		return &run.UserError{
			Message: fmt.Sprintf("run %s has no transcript of iteration %d", id, c.Iteration), Hint: "omit the iteration to see all",
		}
	}
	verdicts, err := kept.Verdicts(id)
	if err != nil {
		return err
	}
	for i, name := range names {
		// Verdicts are on an iteration; they come with its last call.
		iteration, _, _ := strings.Cut(name, "-")
		last := i+1 == len(names) || !strings.HasPrefix(names[i+1], iteration+"-")
		if err := c.call(kept, id, name, verdicts, last, w); err != nil {
			return err
		}
	}
	return nil
}

// call prints one call, with the verdicts on its iteration where it is the last one of that.
func (c *transcriptCmd) call(
	kept *transcript.Store, id run.ID, name string, verdicts []transcript.Verdict, last bool, w io.Writer,
) error {
	t, err := kept.Load(id, name)
	if err != nil {
		return err
	}
	defer func() { _ = t.Close() }() // nothing was written
	switch {
	case c.Raw:
		return copyPart(w, t, transcript.StdoutPart)
	case c.Prompt:
		return copyPart(w, t, transcript.PromptPart)
	}
	own := slices.DeleteFunc(slices.Clone(verdicts),
		func(v transcript.Verdict) bool { return !last || v.Iteration != t.Iteration })
	return t.Write(w, parserOf, own)
}

// checks prints what the runs of one check printed.
func (c *transcriptCmd) checks(kept *transcript.Store, id run.ID, w io.Writer) error {
	all, err := kept.Checks(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names := []string{}
	found := false
	for _, check := range all {
		if !slices.Contains(names, check.Gate) {
			names = append(names, check.Gate)
		}
		if check.Gate == c.Gate && (c.Iteration == 0 || check.Iteration == c.Iteration) {
			found = true
			if err := kept.WriteCheck(w, check); err != nil {
				return err
			}
		}
	}
	if found {
		return nil
	}
	return &run.UserError{
		Message: fmt.Sprintf("run %s has no output of %q there", id, c.Gate),
		Hint:    "its checks: " + run.PrintableLine(strings.Join(names, ", ")),
	}
}

// visible shows what a terminal would obey as characters: escape sequences set its title,
// write to the clipboard, and hide what was said. It must be closed.
func visible(w io.Writer) io.WriteCloser {
	return transform.NewWriter(w, runes.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ':
			return '␀' + r
		case unicode.In(r, unicode.Cc, unicode.Cf):
			return unicode.ReplacementChar
		}
		return r
	}))
}

func copyPart(w io.Writer, t *transcript.Transcript, part string) (err error) {
	r, err := t.Part(part)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if _, err := io.Copy(w, r); err != nil {
		return fmt.Errorf("print transcript: %w", err)
	}
	return nil
}

// parserOf reads the stream of the agent of that name.
func parserOf(name string, emit func(agent.Activity)) agent.Parser {
	backend, err := agent.Lookup(name, agent.Options{ScriptFile: os.DevNull, Self: os.Args[0], Command: "true"})
	if err != nil {
		return nil
	}
	return backend.NewParser(emit)
}

func (c *transcriptCmd) dataDir() (string, error) {
	if c.Config == "" {
		return dataDir()
	}
	cfg, err := config.LoadServer(c.Config, os.LookupEnv, os.ReadFile)
	return cfg.DataDir, err
}

// list prints the runs of which something is kept.
func list(kept *transcript.Store, ids []run.ID, w io.Writer) error {
	if len(ids) == 0 {
		fmt.Fprintln(w, "No transcripts yet.")
	}
	for _, id := range ids {
		names, err := kept.Starts(id)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // pruned meanwhile
			return err
		}
		fmt.Fprintf(w, "%s  %s\n", id, strs.Count(len(names), "call"))
	}
	return nil
}
