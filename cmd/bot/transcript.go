package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

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
	RunID     string `arg:"" optional:"" name:"run" help:"The run's ID. Default: list the runs."`
	Iteration int    `arg:"" optional:"" help:"Only the calls of this iteration."`
	Config    string `help:"A server's configuration: read its transcripts. Default: those of ${bot} run." placeholder:"FILE" type:"path"`
	Raw       bool   `help:"Print the agent's raw output (masked)."`
	Prompt    bool   `help:"Print the prompts instead."`
	Gate      string `help:"Print the whole output of this check instead." placeholder:"NAME"`
	JSON      bool   `name:"json" help:"Print one JSON document per call."`
}

// transcriptLine is one call in JSON.
type transcriptLine struct {
	transcript.Start
	Activities []activityLine       `json:"activities"`
	Verdicts   []transcript.Verdict `json:"verdicts"`
}

type activityLine struct {
	Kind agent.ActivityKind `json:"kind"`
	Text string             `json:"text,omitempty"`
	Tool string             `json:"tool,omitempty"`
	Path string             `json:"path,omitempty"`
}

// Run prints what agents were told and said.
func (c *transcriptCmd) Run(io stdio) (err error) {
	if isTerminal(io.out) {
		v := &visible{w: io.out}
		defer func() { err = errors.Join(err, v.Close()) }()
		io.out = v
	}
	asked := 0
	for _, one := range []bool{c.Raw, c.Prompt, c.Gate != "", c.JSON} {
		if one {
			asked++
		}
	}
	if asked > 1 {
		return &run.UserError{Message: "use only one of --raw, --prompt, --gate and --json", Hint: "name one"}
	}
	data, err := c.dataDir()
	if err != nil {
		return err
	}
	kept := transcript.Open(transcriptsDir(data), nil)
	id, err := c.find(kept)
	if err != nil {
		return err
	}
	switch {
	case id == "":
		return c.list(kept, io.out)
	case c.Gate != "":
		return c.checks(kept, id, io.out)
	}
	names, err := kept.Starts(id)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
		return c.none()
	}
	if err != nil {
		return err
	}
	verdicts, err := kept.Verdicts(id)
	if err != nil {
		return err
	}
	calls, err := c.load(kept, id, names)
	defer func() {
		for _, t := range calls {
			_ = t.Close() // nothing was written
		}
	}()
	if err != nil {
		return err
	}
	if len(calls) == 0 {
		return &run.UserError{
			Message: fmt.Sprintf("run %s has no transcript of iteration %d", id, c.Iteration),
			Hint:    "omit the iteration to see all",
		}
	}
	for i, t := range calls {
		// Verdicts are on an iteration; they come with its last call.
		last := i+1 == len(calls) || calls[i+1].Iteration != t.Iteration
		own := slices.DeleteFunc(slices.Clone(verdicts),
			func(v transcript.Verdict) bool { return !last || v.Iteration != t.Iteration })
		if err := c.show(t, own, io.out); err != nil {
			return err
		}
	}
	return nil
}

// none says that nothing of the run is kept.
func (c *transcriptCmd) none() error {
	return &run.UserError{
		Message: fmt.Sprintf("there is no transcript of a run %q", c.RunID),
		Hint:    "run " + calledAs() + " transcript to list them; --config reads a server's",
	}
}

// checks prints what the runs of one check printed.
func (c *transcriptCmd) checks(kept *transcript.Store, id run.ID, w io.Writer) error {
	all, err := kept.Checks(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var names []string
	found := false
	for _, check := range all {
		if !slices.Contains(names, check.Gate) {
			names = append(names, check.Gate)
		}
		if check.Gate != c.Gate || c.Iteration != 0 && check.Iteration != c.Iteration {
			continue
		}
		found = true
		if err := kept.WriteCheck(w, check); err != nil {
			return err
		}
	}
	switch {
	case found:
		return nil
	case len(names) == 0:
		return &run.UserError{
			Message: fmt.Sprintf("no output of checks is kept of a run %q", c.RunID),
			Hint:    "run " + calledAs() + " transcript to list the runs",
		}
	default:
		return &run.UserError{
			Message: fmt.Sprintf("run %s has no output of %q there", id, c.Gate),
			Hint:    "its checks: " + run.PrintableLine(strings.Join(names, ", ")),
		}
	}
}

// load opens the calls that are asked for.
func (c *transcriptCmd) load(
	kept *transcript.Store, id run.ID, names []string,
) (calls []*transcript.Transcript, err error) {
	for _, name := range names {
		if c.Iteration != 0 && !strings.HasPrefix(name, fmt.Sprintf("%04d-", c.Iteration)) {
			continue
		}
		t, err := kept.Load(id, name)
		if err != nil {
			return calls, err
		}
		calls = append(calls, t)
	}
	return calls, nil
}

// show prints one call.
func (c *transcriptCmd) show(t *transcript.Transcript, verdicts []transcript.Verdict, w io.Writer) error {
	switch {
	case c.Raw:
		return copyPart(w, t, transcript.StdoutPart)
	case c.Prompt:
		return copyPart(w, t, transcript.PromptPart)
	case c.JSON:
		line := transcriptLine{
			Start: t.Start, Activities: []activityLine{}, Verdicts: append([]transcript.Verdict{}, verdicts...),
		}
		_, err := t.Activities(parserOf, func(a agent.Activity) {
			line.Activities = append(line.Activities, activityLine{Kind: a.Kind, Text: a.Text, Tool: a.Tool, Path: a.Path})
		})
		if err != nil {
			return err
		}
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(line); err != nil {
			return fmt.Errorf("print transcript: %w", err)
		}
		return nil
	default:
		return t.Write(w, parserOf, verdicts)
	}
}

// visible shows what a terminal would obey as text: escape sequences set its title,
// write to the clipboard, and hide what was said.
type visible struct {
	w io.Writer
	// held is the beginning of a character.
	held []byte
}

// Write implements io.Writer.
func (v *visible) Write(p []byte) (int, error) {
	b := append(v.held, p...)
	whole := len(b)
	for i := max(0, len(b)-utf8.UTFMax+1); i < len(b); i++ {
		if utf8.RuneStart(b[i]) && !utf8.FullRune(b[i:]) {
			whole = i
			break
		}
	}
	v.held = append([]byte(nil), b[whole:]...)
	if err := v.show(b[:whole]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close shows what is left of a character that never came whole.
func (v *visible) Close() error {
	b := v.held
	v.held = nil
	return v.show(b)
}

func (v *visible) show(b []byte) error {
	var out []byte
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && size == 1: // no character at all
			out = fmt.Appendf(out, `\x%02x`, b[0])
		case r == '\n', r == '\t', !unicode.In(r, unicode.Cc, unicode.Cf):
			out = append(out, b[:size]...)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		b = b[size:]
	}
	_, err := v.w.Write(out)
	return err
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

// find gives the id of the run that is asked for, which may be its beginning; one of which
// nothing is kept as it is.
func (c *transcriptCmd) find(kept *transcript.Store) (run.ID, error) {
	ids, err := kept.Runs()
	if err != nil || c.RunID == "" {
		return "", err
	}
	begin := slices.DeleteFunc(ids, func(id run.ID) bool { return !strings.HasPrefix(string(id), c.RunID) })
	switch {
	case len(begin) == 0 || slices.Contains(begin, run.ID(c.RunID)):
		return run.ID(c.RunID), nil
	case len(begin) > 1:
		return "", &run.UserError{
			Message: fmt.Sprintf("%d runs begin with %q", len(begin), c.RunID), Hint: calledAs() + " transcript lists them",
		}
	}
	return begin[0], nil
}

// list prints the runs of which something is kept.
func (c *transcriptCmd) list(kept *transcript.Store, w io.Writer) error {
	ids, err := kept.Runs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		names, err := kept.Starts(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // pruned meanwhile
		}
		if err != nil {
			return err
		}
		if !c.JSON {
			fmt.Fprintf(w, "%s  %s\n", id, strs.Count(len(names), "call"))
			continue
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"run": id, "calls": len(names)}); err != nil {
			return fmt.Errorf("print the list: %w", err)
		}
	}
	if len(ids) == 0 && !c.JSON {
		fmt.Fprintln(w, "No transcripts yet.")
	}
	return nil
}
