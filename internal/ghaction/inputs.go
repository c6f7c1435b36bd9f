package ghaction

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/org/ralph-action/internal/run"
)

// Prefix is what the environment variables of inputs begin with; the rest is the
// input's name in capitals.
const Prefix = "RALPH_INPUT_"

// Modes of a step.
const (
	// ModeRun works the event.
	ModeRun = "run"
	// ModeFinish ends in order what an earlier step of the job left.
	ModeFinish = "finish"
	// ModeFind says whose queue the event belongs to, for a job that comes before
	// the one that works it.
	ModeFind = "find"
)

// Sandboxes.
const (
	sandboxDocker = "docker"
	sandboxLocal  = "local"
)

// Inputs are what a workflow asks for. Zero fields leave a choice to the
// repository's configuration, or to the defaults.
type Inputs struct {
	Mode  string
	Issue int
	Label string

	Agent, Model string

	AgentProgram string

	// The secrets are in no file of ours.
	GitHubToken          string `json:"-"`
	AnthropicAPIKey      string `json:"-"`
	ClaudeCodeOAuthToken string `json:"-"`
	OpenAIKey            string `json:"-"`
	GeminiKey            string `json:"-"`
	// Notify are addresses, NotifySecret signs what is sent to webhooks.
	Notify       []string `json:"-"`
	NotifySecret string   `json:"-"`

	// NotifyOn is what is told there, nil for everything.
	NotifyOn []run.Notice

	AnthropicBaseURL, OpenAIBaseURL, GoogleBaseURL string

	BaseBranch string
	// PullRequestsOf are the logins of bots whose pull requests are gone on with,
	// beside those of the token's own.
	PullRequestsOf []string
	// ConfigPath is where the repository's configuration is.
	ConfigPath string
	// PlanApproval: a person approves the plan before it is worked.
	PlanApproval bool
	// OpenReady: the pull request is no draft while the work goes on.
	OpenReady      bool
	Sandbox, Image string
	LocalOnPublic  bool
	Limits         run.Limits
	// IssueUSD is what all runs of the issue may cost.
	IssueUSD float64
	Gates    []string
	// Egress are the hosts that agents and checks may reach.
	Egress           []string
	WorkingDirectory string
	DryRun           bool
}

// Secrets are the values that must not be seen.
func (in Inputs) Secrets() []string {
	return append([]string{
		in.GitHubToken, in.AnthropicAPIKey, in.ClaudeCodeOAuthToken, in.OpenAIKey, in.GeminiKey, in.NotifySecret,
	}, in.Notify...)
}

// input is one input of action.yml.
type input struct {
	name string
	set  func(in *Inputs, value string) error
}

func text(field func(*Inputs) *string) func(*Inputs, string) error {
	return func(in *Inputs, value string) error {
		*field(in) = value
		return nil
	}
}

func number(field func(*Inputs) *int) func(*Inputs, string) error {
	return func(in *Inputs, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a number above 0", value)
		}
		*field(in) = n
		return nil
	}
}

func dollars(field func(*Inputs) *float64) func(*Inputs, string) error {
	return func(in *Inputs, value string) error {
		f, err := strconv.ParseFloat(strings.TrimPrefix(value, "$"), 64)
		if err != nil || f <= 0 || math.IsInf(f, 0) || math.IsNaN(f) {
			return fmt.Errorf("%q is not an amount of dollars", value)
		}
		*field(in) = f
		return nil
	}
}

func duration(field func(*Inputs) *time.Duration) func(*Inputs, string) error {
	return func(in *Inputs, value string) error {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a time such as 90s, 30m or 5h", value)
		}
		*field(in) = d
		return nil
	}
}

func yesNo(field func(*Inputs) *bool) func(*Inputs, string) error {
	return func(in *Inputs, value string) error {
		switch strings.ToLower(value) {
		case "true":
			*field(in) = true
		case "false":
			*field(in) = false
		default:
			return fmt.Errorf("%q is neither true nor false", value)
		}
		return nil
	}
}

func oneOf(field func(*Inputs) *string, values ...string) func(*Inputs, string) error {
	return func(in *Inputs, value string) error {
		if !slices.Contains(values, value) {
			return fmt.Errorf("%q is not one of %s", value, strings.Join(values, ", "))
		}
		*field(in) = value
		return nil
	}
}

// choice is a yes for one word, and a no for another.
func choice(field func(*Inputs) *bool, yes, no string) func(*Inputs, string) error {
	return func(in *Inputs, value string) error {
		if value != yes && value != no {
			return fmt.Errorf("%q is neither %s nor %s", value, yes, no)
		}
		*field(in) = value == yes
		return nil
	}
}

// inRepository takes the path of a file in the repository, as git writes it.
func inRepository(field func(*Inputs) *string) func(*Inputs, string) error {
	return func(in *Inputs, value string) error {
		if value = strings.TrimPrefix(value, "./"); !fs.ValidPath(value) || value == "." ||
			strings.ContainsFunc(value, unicode.IsControl) {
			return fmt.Errorf("%q is not the path of a file in the repository", value)
		}
		*field(in) = value
		return nil
	}
}

// inputs are those of action.yml that reach the program, in its order.
func inputs() []input {
	return []input{
		{"mode", oneOf(func(in *Inputs) *string { return &in.Mode }, ModeRun, ModeFinish, ModeFind)},
		{"issue", number(func(in *Inputs) *int { return &in.Issue })},
		{"label", text(func(in *Inputs) *string { return &in.Label })},
		{"agent", text(func(in *Inputs) *string { return &in.Agent })},
		{"agent_program", text(func(in *Inputs) *string { return &in.AgentProgram })},
		{"model", text(func(in *Inputs) *string { return &in.Model })},
		{"anthropic_api_key", text(func(in *Inputs) *string { return &in.AnthropicAPIKey })},
		{"claude_code_oauth_token", text(func(in *Inputs) *string { return &in.ClaudeCodeOAuthToken })},
		{"openai_api_key", text(func(in *Inputs) *string { return &in.OpenAIKey })},
		{"gemini_api_key", text(func(in *Inputs) *string { return &in.GeminiKey })},
		{"anthropic_base_url", text(func(in *Inputs) *string { return &in.AnthropicBaseURL })},
		{"openai_base_url", text(func(in *Inputs) *string { return &in.OpenAIBaseURL })},
		{"google_base_url", text(func(in *Inputs) *string { return &in.GoogleBaseURL })},
		{"github_token", text(func(in *Inputs) *string { return &in.GitHubToken })},
		{"pull_requests_of", lines(func(in *Inputs) *[]string { return &in.PullRequestsOf })},
		{"base_branch", text(func(in *Inputs) *string { return &in.BaseBranch })},
		{"config", inRepository(func(in *Inputs) *string { return &in.ConfigPath })},
		{"plan_approval", choice(func(in *Inputs) *bool { return &in.PlanApproval }, "required", "as-configured")},
		{"draft", choice(func(in *Inputs) *bool { return &in.OpenReady }, "false", "true")},
		{"sandbox", oneOf(func(in *Inputs) *string { return &in.Sandbox }, sandboxDocker, sandboxLocal)},
		{"allow_local_on_public", yesNo(func(in *Inputs) *bool { return &in.LocalOnPublic })},
		{"image", text(func(in *Inputs) *string { return &in.Image })},
		{"max_iterations", number(func(in *Inputs) *int { return &in.Limits.MaxIterations })},
		{"task_attempts", number(func(in *Inputs) *int { return &in.Limits.TaskAttempts })},
		{"iteration_timeout", duration(func(in *Inputs) *time.Duration { return &in.Limits.IterationTimeout })},
		{"idle_timeout", duration(func(in *Inputs) *time.Duration { return &in.Limits.IdleTimeout })},
		{"deadline", duration(func(in *Inputs) *time.Duration { return &in.Limits.RunTimeout })},
		{"budget", dollars(func(in *Inputs) *float64 { return &in.Limits.BudgetUSD })},
		{"issue_budget", dollars(func(in *Inputs) *float64 { return &in.IssueUSD })},
		{"task_budget", dollars(func(in *Inputs) *float64 { return &in.Limits.TaskBudgetUSD })},
		{"gates", lines(func(in *Inputs) *[]string { return &in.Gates })},
		{"egress", lines(func(in *Inputs) *[]string { return &in.Egress })},
		{"notify", lines(func(in *Inputs) *[]string { return &in.Notify })},
		{"notify_secret", text(func(in *Inputs) *string { return &in.NotifySecret })},
		{"notify_on", notices(func(in *Inputs) *[]run.Notice { return &in.NotifyOn })},
		{"working_directory", text(func(in *Inputs) *string { return &in.WorkingDirectory })},
		{"dry_run", yesNo(func(in *Inputs) *bool { return &in.DryRun })},
	}
}

// lines takes what stands on each line.
func lines(field func(*Inputs) *[]string) func(*Inputs, string) error {
	return func(in *Inputs, value string) error {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); line != "" {
				*field(in) = append(*field(in), line)
			}
		}
		return nil
	}
}

// notices takes what is to be told, one occasion a line or a word.
func notices(field func(*Inputs) *[]run.Notice) func(*Inputs, string) error {
	return func(in *Inputs, value string) error {
		for name := range strings.FieldsFuncSeq(value, func(r rune) bool { return unicode.IsSpace(r) || r == ',' }) {
			if !slices.Contains(run.Notices(), run.Notice(name)) {
				return fmt.Errorf("%q is not one of start, progress, finish and needs_human", name)
			}
			*field(in) = append(*field(in), run.Notice(name))
		}
		return nil
	}
}

// aliases are names that another action gives to inputs of ours; ours goes
// first.
func aliases() map[string]string {
	return map[string]string{
		"worker_model":   "model",
		"trigger_label":  "label",
		"default_branch": "base_branch",
	}
}

// Variable is the environment variable of an input.
func Variable(name string) string { return Prefix + strings.ToUpper(name) }

// ReadInputs reads the inputs from the environment. Empty ones are taken for not
// given, which is how GitHub passes them. Every error is a *run.UserError that
// names all the problems found.
func ReadInputs(env func(string) string) (Inputs, error) {
	in := Inputs{Mode: ModeRun, Sandbox: sandboxDocker}
	var problems []string
	given := map[string]string{}
	for alias, name := range aliases() {
		if v := env(Variable(alias)); strings.TrimSpace(v) != "" {
			given[name] = v
		}
	}
	for _, i := range inputs() {
		value := env(Variable(i.name))
		if strings.TrimSpace(value) == "" {
			value = given[i.name]
		}
		if value = strings.TrimSpace(value); value == "" {
			continue
		}
		if err := i.set(&in, value); err != nil {
			problems = append(problems, i.name+": "+err.Error())
		}
	}
	if in.GitHubToken == "" && in.Mode != ModeFinish {
		problems = append(problems, "github_token: it is empty")
	}
	if len(problems) > 0 {
		return in, &run.UserError{
			Message: "invalid inputs: " + strings.Join(problems, "; "),
			Hint:    "fix them under `with:` in the workflow; docs/action.md lists all inputs",
		}
	}
	return in, nil
}

// Keep stores what the inputs say, without the secrets, for a later step of the
// job that finishes this one.
func (in Inputs) Keep(file string) error {
	b, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("keep the inputs: %w", err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return fmt.Errorf("keep the inputs: %w", err)
	}
	return nil
}

// Kept reads the inputs of the step that is to be finished, with the secrets of
// this one that finishing takes.
func (in Inputs) Kept(file string) (Inputs, error) {
	b, err := os.ReadFile(file) //nolint:gosec // G304: a file of the job's own
	if err != nil {
		return in, fmt.Errorf("read the inputs of the step before: %w", err)
	}
	kept := Inputs{GitHubToken: in.GitHubToken, Notify: in.Notify, NotifySecret: in.NotifySecret}
	if err := json.Unmarshal(b, &kept); err != nil {
		return in, fmt.Errorf("read the inputs of the step before: %w", err)
	}
	kept.Mode = ModeFinish
	return kept, nil
}

// CheckSandbox says with a *run.UserError that agents may not run where the
// workflow wants them to.
func (in Inputs) CheckSandbox(private bool) error {
	if in.Sandbox != sandboxLocal || private || in.LocalOnPublic {
		return nil
	}
	return &run.UserError{
		Message: "sandbox: local on a public repository: text by strangers would steer an agent that can reach this " +
			"job's secrets and network",
		Hint: "leave sandbox at docker, or confirm with allow_local_on_public: true",
	}
}
