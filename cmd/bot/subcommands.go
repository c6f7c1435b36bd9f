package main

import (
	"time"

	kongcompletion "github.com/jotaen/kong-completion"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox/shim"
)

// commands are the sub-commands and their flags.
type commands struct {
	Run      runCmd      `cmd:"" help:"Work on a plan in a local git repository, without GitHub."`
	Init     initCmd     `cmd:"" help:"Set up a repository: write .github/ralph.yml and, if you like, the workflow."`
	Demo     demoCmd     `cmd:"" help:"See the whole product work on this machine: no keys, no accounts."`
	Setup    setupCmd    `cmd:"" help:"Create your own GitHub App in the browser and store its credentials."`
	Serve    serveCmd    `cmd:"" help:"Run the GitHub App's server: receive webhooks and work on labelled issues."`
	Action   actionCmd   `cmd:"" help:"Run as a step of a GitHub Actions workflow; see action.yml."`
	Progress progressCmd `cmd:"" help:"Show progress files and task files of other tools."`
	Stats    statsCmd    `cmd:"" help:"Show what runs did: iterations, cost, tasks, failed checks, verdicts."`
	Notify   notifyCmd   `cmd:"" help:"Send a test notification."`
	Doctor   doctorCmd   `cmd:"" help:"Check git, the agent, the sandbox, the configuration and the App, and say what to fix."`
	Ghsim    ghsimCmd    `cmd:"" name:"ghsim" help:"Run a simulated GitHub, for development."`

	Runs runsCmd    `cmd:"" help:"List the runs of this repository, or of a server."`
	Show showRunCmd `cmd:"" help:"Show a run: its tasks, what failed, and what to do next."`

	Transcript transcriptCmd             `cmd:"" help:"Show the prompts, actions and output of a run's agents and checks."`
	Completion kongcompletion.Completion `cmd:"" help:"Print the command that has your shell complete commands and flags."`
	Help       helpCmd                   `cmd:"" help:"Show help for a command."`
	Version    versionCmd                `cmd:"" help:"Print the version."`

	ACPClient   acpClientCmd   `cmd:"" name:"acp-client" hidden:"" help:"Speak the Agent Client Protocol with an agent: read a prompt from stdin and print what the agent does."`
	ScriptAgent scriptAgentCmd `cmd:"" hidden:"" help:"Act as the scripted agent: read a prompt from stdin and follow a script."`
}

// beShim is `bot shim`: every agent's and every check's parent.
func beShim(args []string) int { return shim.Main(args) }

// sandboxFlags say where agents and checks run.
type sandboxFlags struct {
	Sandbox string `enum:"local,docker" default:"local" help:"Where agents and checks run: local or docker. local shares this machine's network and, without bubblewrap, your files (default: ${default})." placeholder:"local|docker"`
	Image   string `help:"Container image for --sandbox docker." placeholder:"IMAGE"`

	LocalIsolation string `name:"local-isolation" enum:"auto,bwrap,none" default:"auto" env:"RALPH_LOCAL_ISOLATION" help:"With --sandbox local: auto isolates agents and checks with bubblewrap if it works, bwrap requires it and leaves them no network but the gateway, none turns it off (default: ${default})." placeholder:"auto|bwrap|none"`

	Show []string `type:"path" help:"With --sandbox local: a file or directory that agents and checks may read besides the system's and the programs of PATH; repeatable. Default: none." placeholder:"PATH"`
}

// limitFlags bound a run; zero is the default, which the help names.
type limitFlags struct {
	MaxIterations int           `help:"Maximum number of agent calls (default 50)." placeholder:"N"`
	TaskAttempts  int           `help:"Failed attempts at one task that show the same before it is split or set aside (default 3; up to 8 calls in all, see docs/gates.md)." placeholder:"N"`
	Parallel      int           `help:"How many tasks marked [P] to work on side by side (default 1)." placeholder:"N"`
	Timeout       time.Duration `help:"Time limit for one agent call (default 30m)." placeholder:"DURATION"`
	IdleTimeout   time.Duration `help:"Time an agent may run without output (default 10m)." placeholder:"DURATION"`
	Deadline      time.Duration `help:"Time limit for the whole run (default 6h)." placeholder:"DURATION"`
	Budget        float64       `help:"Most dollars the run may cost (default: no limit)." placeholder:"USD"`
	TaskBudget    float64       `help:"Most dollars one task may cost; enforced only with --sandbox docker (default: no limit)." placeholder:"USD"`
}

func (l limitFlags) limits() run.Limits {
	return run.Limits{
		MaxIterations: l.MaxIterations, TaskAttempts: l.TaskAttempts, Parallel: l.Parallel,
		IterationTimeout: l.Timeout, IdleTimeout: l.IdleTimeout, RunTimeout: l.Deadline, BudgetUSD: l.Budget,
		TaskBudgetUSD: l.TaskBudget,
	}
}
