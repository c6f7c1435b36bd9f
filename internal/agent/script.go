package agent

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/org/ralph-action/internal/run"
)

// ScriptCommand is the sub-command of our own binary that is the scripted
// agent: `bot script-agent --script FILE`, prompt on standard input, work tree
// as working directory. It calls RunScript.
const ScriptCommand = "script-agent"

// Where the scripted agent and its script are seen in a container.
const (
	scriptSelfTarget = "/opt/ralph/script-agent"
	scriptFileTarget = "/opt/ralph/script.yaml"
)

// scripted is the back end of the scripted agent.
type scripted struct {
	file string
	self string
}

// About implements Backend.
func (s scripted) About() About { return About{Name: "script", Binary: s.self} }

// Command implements Backend.
func (s scripted) Command(inv Invocation) (Command, error) {
	self, err := filepath.Abs(s.self)
	if err != nil {
		return Command{}, fmt.Errorf("path of own binary: %w", err)
	}
	file, err := filepath.Abs(s.file)
	if err != nil {
		return Command{}, fmt.Errorf("path of script: %w", err)
	}
	if inv.Sandbox == SandboxLocal {
		return Command{Argv: []string{self, ScriptCommand, "--script", file}, Mounts: []Mount{{Host: file, Target: file}}},
			nil
	}
	return Command{
		Argv: []string{scriptSelfTarget, ScriptCommand, "--script", scriptFileTarget},
		Mounts: []Mount{
			{Host: self, Target: scriptSelfTarget},
			{Host: file, Target: scriptFileTarget},
		},
	}, nil
}

// Check implements Backend: the script must be there and valid.
func (s scripted) Check(look func(file string) (string, error)) error {
	if _, err := look(s.self); err != nil {
		return fmt.Errorf("look up own binary: %w", err)
	}
	b, err := os.ReadFile(s.file)
	if err == nil {
		_, err = ParseScript(b)
	}
	if err != nil {
		return &run.UserError{
			Message: fmt.Sprintf("the agent script %s cannot be used", s.file),
			Hint:    err.Error(),
			Err:     err,
		}
	}
	return nil
}

// NewParser implements Backend: the scripted agent speaks as Claude Code does.
func (s scripted) NewParser(emit func(Activity)) Parser { return newFeed(emit, &claudeDialect{}) }

// Script is what the scripted agent does.
type Script struct {
	// Model is the model it claims to be; "" means "scripted".
	Model string `yaml:"model"`
	// State is a file in which the agent counts its starts per task. Without
	// it the number of the attempt in the prompt chooses the step, and a start
	// that was no attempt (a rate limit) repeats for ever. A relative path
	// counts from the work tree.
	State string `yaml:"state"`
	// Plan are the tasks it writes in plan mode.
	Plan []PlannedTask `yaml:"plan"`
	// Tasks has the steps of a task by its id ("T1"), by a part of its title, or
	// "plan" for what it does beside writing the plan. One entry serves one
	// start for that task; the last one repeats.
	Tasks map[string][]Step `yaml:"tasks"`
	// Default serves the tasks that Tasks does not name.
	Default []Step `yaml:"default"`
	// Split has the steps of the calls that are to split a task, by the same
	// keys as Tasks. Where it has none, the agent writes no parts.
	Split map[string][]Step `yaml:"split"`
	// Review has the steps of the reviews of all of the work, one each; the
	// last one repeats. Where there is none, the reviewer asks for nothing.
	Review []Step `yaml:"review"`
	// Verify has the steps of the calls that look whether a task is done, by the same
	// keys as Tasks. Where it has none, the agent does not agree.
	Verify map[string][]Step `yaml:"verify"`
}

// PlannedTask is a task that the agent writes.
type PlannedTask struct {
	Title  string   `yaml:"title"`
	Accept []string `yaml:"accept"`
}

// Step is what the agent does in one start. Paths are relative to the work tree.
type Step struct {
	// Files are written, directories made as needed.
	Files map[string]string `yaml:"files"`
	// Append adds text to files.
	Append map[string]string `yaml:"append"`
	Delete []string          `yaml:"delete"`
	// Use are tool calls that show in the agent's stream and do nothing.
	Use []struct {
		// Tool is its name, such as Read or Bash.
		Tool string `yaml:"tool"`
		// File is the path it works on, Command what a shell is given.
		File    string `yaml:"file"`
		Command string `yaml:"command"`
	} `yaml:"use"`
	// AddTasks are written at the end of the tasks of the progress file: the
	// parts of a task, what a review asks for, or what came up on the way.
	AddTasks []PlannedTask `yaml:"add_tasks"`
	// Learn is appended to the Learnings of the progress file.
	Learn string `yaml:"learn"`
	// Tick ticks the task's own box: the agent's claim that it is done.
	Tick bool `yaml:"tick"`
	// Say is the final message.
	Say string `yaml:"say"`
	// Claim is what its closing line claims of the task, such as "done" or "partial: the
	// second file"; "none" leaves the line out. Without it, a step that changes
	// something claims done, and any other claims nothing.
	Claim   string  `yaml:"claim"`
	CostUSD float64 `yaml:"cost_usd"`
	// Misbehave names one thing the agent does wrong; see misbehaviours.
	Misbehave string `yaml:"misbehave"`
	// RetryAfter is how many seconds off the limit of rate_limit ends; 0 means
	// the agent does not say.
	RetryAfter int `yaml:"retry_after"`
}

// The ways to misbehave.
const (
	misNothing         = "nothing"          // claims success, changes nothing
	misGarbage         = "garbage"          // works, but prints no event at all
	misHugeLine        = "huge_line"        // prints a line of 50 MB first
	misSymlinkProgress = "symlink_progress" // progress file becomes a link to /etc/passwd
	misTickAll         = "tick_all"         // ticks every box
	misDoneEarly       = "done_early"       // sets the status to done
	misIsError         = "is_error"         // the API refuses: result with is_error, in the words of Say
	misRateLimit       = "rate_limit"       // the API answers 429
	misCrash           = "crash"            // dies after the work, exit 1, no result
	misHang            = "hang"             // does nothing until it is killed
	misEscapeWrite     = "escape_write"     // writes beside the work tree
)

// misbehaviours are what Step.Misbehave may be.
var misbehaviours = []string{
	"", misNothing, misGarbage, misHugeLine, misSymlinkProgress, misTickAll, misDoneEarly, misIsError, misRateLimit,
	misCrash, misHang, misEscapeWrite,
}

// ParseScript reads a script strictly: an unknown key is an error that names
// line and column.
func ParseScript(b []byte) (Script, error) {
	var s Script
	if err := yaml.UnmarshalWithOptions(b, &s, yaml.Strict()); err != nil {
		return Script{}, fmt.Errorf("parse agent script: %w", err)
	}
	all := slices.Concat(s.Default, s.Review)
	for _, entries := range []map[string][]Step{s.Tasks, s.Split, s.Verify} {
		all = slices.Concat(append([][]Step{all}, slices.Collect(maps.Values(entries))...)...)
	}
	for _, step := range all {
		if !slices.Contains(misbehaviours, step.Misbehave) {
			return Script{}, fmt.Errorf("parse agent script: unknown misbehaviour %q; there are %s", step.Misbehave,
				strings.Join(misbehaviours[1:], ", "))
		}
	}
	return s, nil
}
