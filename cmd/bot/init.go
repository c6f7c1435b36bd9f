package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// initCmd is `bot init`.
type initCmd struct {
	Agent    string   `help:"The agent (default: the first of claude, codex, gemini, opencode and copilot that is installed, else claude)." placeholder:"AGENT"`
	Gate     []string `help:"A command that must pass before each commit; repeatable. Default: those that are found." placeholder:"COMMAND" sep:"none"`
	Workflow *bool    `negatable:"" help:"Write the workflow of the GitHub Action, too (default: no)."`
	Yes      bool     `short:"y" help:"Ask nothing: take the defaults and the flags."`
}

// Help is shown below the flags.
func (c *initCmd) Help() string {
	return `Writes .github/ralph.yml with the checks found in the repository and, with --workflow, .github/workflows/ralph.yml. Files that exist are left as they are, and nothing is committed.`
}

// workflowPath is where the workflow of the Action is written.
const workflowPath = ".github/workflows/ralph.yml"

// beginnings are what the files of a repository are made of.
type beginnings struct {
	agent    string
	gates    []gate.Gate
	workflow bool
}

// Run asks what the flags leave open, and writes what is missing.
func (c *initCmd) Run(ctx bound, io stdio) (err error) {
	git, err := gitrepo.New("")
	if err != nil {
		return err
	}
	repo, err := git.OpenLocal(ctx, ".")
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(repo.Top())
	if err != nil {
		return fmt.Errorf("open the checkout: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	s := beginnings{agent: cmp.Or(c.Agent, installedAgent()), workflow: c.Workflow != nil && *c.Workflow}
	if s.backend() == nil {
		return &run.UserError{
			Message: fmt.Sprintf("a repository cannot be set up for the agent %q", s.agent),
			Hint:    "use one of " + strings.Join(usualAgents(), ", "),
		}
	}
	top, err := topOf(root)
	if err != nil {
		return err
	}
	for _, command := range c.Gate {
		s.gates = append(s.gates, gate.Gate{Command: command}.WithDefaults())
	}
	if len(s.gates) == 0 {
		s.gates = gate.Detect(top)
	}
	if !c.Yes {
		if !isTerminal(io.out) || !readsTerminal(io.in) {
			return &run.UserError{
				Message: "init asks questions, and there is no terminal to ask on", Hint: "take the defaults with --yes; " +
					calledAs() + " init --help lists the flags",
			}
		}
		if err := (&asker{in: bufio.NewReader(io.in), out: io.out}).ask(&s); err != nil {
			return err
		}
	}
	written, err := writeMissing(root, config.RepoPath, s.config(), io.out)
	if err != nil {
		return err
	}
	if s.workflow {
		made, err := writeMissing(root, workflowPath, s.workflowText(), io.out)
		if err != nil {
			return err
		}
		written = append(written, made...)
	}
	fmt.Fprint(io.out, s.next(written))
	return nil
}

// usualAgents are those that a newcomer may have, the most usual first.
func usualAgents() []string { return []string{"claude", "codex", "gemini", "opencode", "copilot"} }

// installedAgent is the first of them that is in the PATH, the first of all where none
// is.
func installedAgent() string {
	for _, name := range usualAgents() {
		if _, err := proc.Look(name); err == nil {
			return name
		}
	}
	return usualAgents()[0]
}

// backend is what is known of the agent, nil where it is none for a repository.
func (s beginnings) backend() agent.Backend {
	if !slices.Contains(usualAgents(), s.agent) {
		return nil
	}
	b, err := agent.Lookup(s.agent, agent.Options{})
	if err != nil {
		return nil
	}
	return b
}

// topOf is the top of the checkout, as checks are found in it.
func topOf(root *os.Root) (gate.Root, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return gate.Root{}, fmt.Errorf("look at the checkout: %w", err)
	}
	r := gate.Root{Read: func(name string) ([]byte, bool) {
		info, err := root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || info.Size() > progress.MaxSize {
			return nil, false
		}
		b, err := root.ReadFile(name)
		return b, err == nil
	}}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		r.Names = append(r.Names, name)
	}
	return r, nil
}

// config is the text of .github/ralph.yml.
func (s beginnings) config() string {
	var b strings.Builder
	b.WriteString("# How Ralph Bot works in this repository. It counts on the default branch.\n" +
		"# Every key: https://github.com/org/ralph-action/blob/main/docs/configuration.md#the-repositorys-file\n")
	if len(s.gates) == 0 {
		b.WriteString("\n# No checks were found. A commit is only as good as its checks: name yours.\n" +
			"# gates:\n#   - name: tests\n#     run: make test\n")
	} else {
		b.WriteString("\n# Commands that must pass before each commit.\ngates:\n")
	}
	for _, g := range s.gates {
		fmt.Fprintf(&b, "  - name: %s\n    run: %s\n", yamlText(g.Name), yamlText(g.Command))
		if g.Advisory {
			b.WriteString("    blocking: false\n")
		}
	}
	fmt.Fprintf(&b, "\nlimits:\n  max_iterations: %d\n  # budget_usd: 5    # the most a run may cost\n"+
		"\n# The container image that agents and checks run in, with --sandbox docker and on a server.\n# image: golang:1.26\n",
		run.DefaultLimits().MaxIterations)
	return b.String()
}

// yamlText is a string as YAML and JSON both write it.
func yamlText(s string) string { return strconv.QuoteToASCII(s) }

// input is the Action's input that has the agent's key, and variable what people know
// the key by.
func (s beginnings) key() (input, variable string) {
	switch apis := s.backend().About().Providers; {
	case len(apis) > 0 && apis[0] == run.ProviderOpenAI:
		return "openai_api_key", config.EnvOpenAIKey
	case len(apis) > 0 && apis[0] == run.ProviderGoogle:
		return "gemini_api_key", config.EnvGeminiKey
	default:
		return "anthropic_api_key", config.EnvAPIKey
	}
}

// workflowText is the workflow of the Action that docs/action.md shows, for this agent.
func (s beginnings) workflowText() string {
	input, variable := s.key()
	with := fmt.Sprintf("%s: '${{ secrets.%s }}'", input, variable)
	if s.agent != config.AgentClaude {
		with = "agent: " + s.agent + ", " + with
	}
	return `on: {issues: {types: [labeled]}}
permissions: {checks: write, contents: write, issues: write, pull-requests: write}
jobs:
  ralph:
    if: github.event.label.name == 'ralph'
    runs-on: ubuntu-latest
    concurrency: ralph/${{ github.event.issue.number }}
    steps:
      - uses: org/ralph-action@v1
        with: {` + with + `}
`
}

// next says what is left to do.
func (s beginnings) next(written []string) string {
	_, variable := s.key()
	var b strings.Builder
	step := 0
	todo := func(format string, args ...any) {
		step++
		fmt.Fprintf(&b, "  %d. %s\n", step, fmt.Sprintf(format, args...))
	}
	b.WriteString("\nNext steps:\n")
	if len(written) > 0 {
		todo("Commit it: git add %s && git commit -m 'Set up Ralph Bot'", strings.Join(written, " "))
	}
	if missing, ok := errors.AsType[*run.UserError](s.backend().Check(proc.Look)); ok {
		todo("The agent %s is not installed: %s", s.agent, missing.Hint)
	}
	set := os.Getenv(variable) != "" || s.agent == config.AgentClaude && os.Getenv(config.EnvAuthToken) != ""
	if !set {
		todo("Set the model's key: export %s=YOUR-KEY", variable)
	}
	flag := ""
	if s.agent != config.AgentClaude {
		flag = " --agent " + s.agent
	}
	todo("Work on a plan here: %s run PLAN.md%s (%s doctor shows what is missing)", calledAs(), flag, calledAs())
	if s.workflow {
		todo("For the workflow: push it to the default branch, add the secret %s, tick \"Allow GitHub Actions to create "+
			"and approve pull requests\" in Settings, Actions, General, and label an issue `ralph`", variable)
	} else {
		todo("For issues on GitHub: add the Action with %[1]s init --workflow, or set up the App on a server with "+
			"%[1]s setup --webhook https://YOUR-HOST", calledAs())
	}
	return b.String()
}

// writeMissing writes a file that is not there yet, says so, and gives its name; none where
// there is one.
func writeMissing(root *os.Root, name, text string, w io.Writer) (written []string, err error) {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return nil, fmt.Errorf("make %s: %w", path.Dir(name), err)
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		fmt.Fprintf(w, "%s exists and was not changed.\n", name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	fmt.Fprintf(w, "Wrote %s.\n", name)
	return []string{name}, nil
}

// asker asks a person on a terminal.
type asker struct {
	in  *bufio.Reader
	out io.Writer
}

// ask asks for each setting; an empty answer keeps it.
func (a *asker) ask(s *beginnings) error {
	names := strings.Join(usualAgents(), ", ")
	if err := a.line("Agent ("+names+")", s.agent, func(text string) bool {
		s.agent = text
		return s.backend() != nil
	}); err != nil {
		return err
	}
	if len(s.gates) > 0 {
		fmt.Fprintln(a.out, "These checks were found:")
		for _, g := range s.gates {
			fmt.Fprintf(a.out, "  %s\n", run.PrintableLine(g.Command))
		}
		keep := true
		if err := a.yes("Use them before each commit", &keep); err != nil {
			return err
		}
		if !keep {
			s.gates = nil
		}
	}
	if len(s.gates) == 0 {
		err := a.line("A command that must pass before each commit (empty for none)", "", func(text string) bool {
			if text != "" {
				s.gates = []gate.Gate{gate.Gate{Command: text}.WithDefaults()}
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return a.yes("Write the workflow of the GitHub Action", &s.workflow)
}

// line asks until the answer is taken; an empty one is the default.
func (a *asker) line(question, def string, take func(text string) bool) error {
	if def != "" {
		question += " [" + def + "]"
	}
	for {
		fmt.Fprint(a.out, question+": ")
		text, err := a.in.ReadString('\n')
		if err != nil {
			return &run.UserError{Message: "init was not answered to its end; nothing was written",
				Hint: "run it again", Err: err}
		}
		if take(cmp.Or(strings.TrimSpace(text), def)) {
			return nil
		}
	}
}

func (a *asker) yes(question string, answer *bool) error {
	def := map[bool]string{true: "yes", false: "no"}[*answer]
	return a.line(question+" (yes or no)", def, func(text string) bool {
		switch strings.ToLower(text) {
		case "y", "yes":
			*answer = true
		case "n", "no":
			*answer = false
		default:
			return false
		}
		return true
	})
}

// readsTerminal says whether a person types what is read from r.
func readsTerminal(r io.Reader) bool {
	f, ok := r.(io.Writer)
	return ok && isTerminal(f)
}
