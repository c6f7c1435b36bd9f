package action

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// inputsVariable is the environment variable with the inputs of action.yml as one JSON object,
// and programVariable the one with the agent's program, where it is not the one in the PATH.
const (
	inputsVariable  = "RALPH_INPUTS"
	programVariable = "RALPH_AGENT_PROGRAM"
)

// Modes of a step.
const (
	modeWork   = "work"
	modeRoute  = "route"
	modeFinish = "finish"
)

// localOnPublic is the sandbox local, meant although the repository is public.
const localOnPublic = "local-on-public"

// Inputs are what a workflow asks for, as action.yml describes it. Empty fields leave a choice
// to the defaults. The secrets are in no file of ours.
type Inputs struct {
	Mode    string `json:"mode"`
	Label   string `json:"label"`
	Agent   string `json:"agent"`
	Model   string `json:"model"`
	Image   string `json:"image"`
	Sandbox string `json:"sandbox"`
	BaseURL string `json:"base_url"`

	GitHubToken          string `json:"github_token"`
	AnthropicAPIKey      string `json:"anthropic_api_key"`
	ClaudeCodeOAuthToken string `json:"claude_code_oauth_token"`
	OpenAIAPIKey         string `json:"openai_api_key"`
	GeminiAPIKey         string `json:"gemini_api_key"`

	// AgentProgram is the agent's program; it is no input of the action.
	AgentProgram string `json:"agent_program"`
}

func (in *Inputs) secrets() []string {
	return []string{in.GitHubToken, in.AnthropicAPIKey, in.ClaudeCodeOAuthToken, in.OpenAIAPIKey, in.GeminiAPIKey}
}

// readInputs reads the inputs from the environment. Empty ones are taken for not given, which is
// how GitHub passes them. What cannot be used is a *run.UserError; what could be read is given
// nevertheless, so that its secrets are masked.
func readInputs(env func(string) string) (Inputs, error) {
	var in Inputs
	const hint = "fix it under `with:` in the workflow; docs/action.md lists the inputs"
	if err := json.Unmarshal([]byte(env(inputsVariable)), &in); err != nil {
		return in, &run.UserError{
			Message: fmt.Sprintf("%s does not hold the inputs: %v", inputsVariable, err),
			Hint:    "use the action (uses: org/ralph-action@v1), which sets it", Err: err,
		}
	}
	for _, field := range []*string{
		&in.Mode, &in.Label, &in.Agent, &in.Model, &in.Image, &in.Sandbox, &in.BaseURL, &in.GitHubToken,
		&in.AnthropicAPIKey, &in.ClaudeCodeOAuthToken, &in.OpenAIAPIKey, &in.GeminiAPIKey,
	} {
		*field = strings.TrimSpace(*field)
	}
	in.AgentProgram = env(programVariable)
	switch in.Mode {
	case "":
		in.Mode = modeWork
	case modeWork, modeRoute, modeFinish:
	default:
		return in, &run.UserError{Message: fmt.Sprintf("mode: %q is not one of work, route and finish", in.Mode), Hint: hint}
	}
	switch in.Sandbox {
	case "":
		in.Sandbox = config.SandboxDocker
	case config.SandboxDocker, config.SandboxLocal, localOnPublic:
	default:
		return in, &run.UserError{
			Message: fmt.Sprintf("sandbox: %q is not one of docker, local and %s", in.Sandbox, localOnPublic), Hint: hint,
		}
	}
	if in.GitHubToken == "" {
		return in, &run.UserError{Message: "github_token: it is empty", Hint: hint}
	}
	return in, nil
}

// keep stores what the inputs say, without the secrets, for a later step of the job that
// finishes this one.
func (in *Inputs) keep(file string) error {
	public := *in
	public.GitHubToken, public.AnthropicAPIKey, public.ClaudeCodeOAuthToken = "", "", ""
	public.OpenAIAPIKey, public.GeminiAPIKey = "", ""
	b, err := json.Marshal(public)
	if err != nil {
		return fmt.Errorf("keep the inputs: %w", err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return fmt.Errorf("keep the inputs: %w", err)
	}
	return nil
}

// kept reads the inputs of the step that is to be finished, with the token of this one.
func (in *Inputs) kept(file string) (Inputs, error) {
	b, err := os.ReadFile(file) //nolint:gosec // G304: a file of the job's own
	if err != nil {
		return *in, fmt.Errorf("read the inputs of the step before: %w", err)
	}
	var before Inputs
	if err := json.Unmarshal(b, &before); err != nil {
		return *in, fmt.Errorf("read the inputs of the step before: %w", err)
	}
	before.Mode, before.GitHubToken = modeFinish, in.GitHubToken
	return before, nil
}
