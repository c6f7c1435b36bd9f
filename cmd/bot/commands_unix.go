//go:build unix

package main

import (
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/shim"
)

// commands are the sub-commands and their flags.
type commands struct {
	Run      runCmd      `cmd:"" help:"Work a plan in a local git repository, with no GitHub at all."`
	Demo     demoCmd     `cmd:"" help:"Show the whole product on loopback: no keys, no accounts."`
	Setup    setupCmd    `cmd:"" help:"Make a GitHub App of your own, in the browser, and store its credentials."`
	Serve    serveCmd    `cmd:"" help:"Serve the GitHub App: receive webhooks and work labelled issues."`
	Action   actionCmd   `cmd:"" help:"Be a step of a GitHub Actions workflow; see action.yml."`
	Progress progressCmd `cmd:"" help:"Read, check and convert progress files and those of other systems."`
	Stats    statsCmd    `cmd:"" help:"Print what runs did: iterations, cost, tasks, failed checks, verdicts."`
	Lessons  lessonsCmd  `cmd:"" help:"Print what tasks taught, here or in a server's repository."`
	Notify   notifyCmd   `cmd:"" help:"Try out where people are told of runs."`
	Doctor   doctorCmd   `cmd:"" help:"Check git, agent, sandbox, configuration and App, and say what to mend."`
	Schema   schemaCmd   `cmd:"" help:"Print the JSON Schema of a configuration file, for editors."`
	Ghsim    ghsimCmd    `cmd:"" name:"ghsim" help:"Serve a GitHub in one process, for development."`

	Transcript transcriptCmd `cmd:"" help:"Print what agents were told, did and said in a run."`
	Version    versionCmd    `cmd:"" help:"Print the version."`

	Sim         simCmd         `cmd:"" hidden:"" help:"Measure the loop: seeded faulty agents, beside a plain Ralph loop."`
	NotifySend  notifySendCmd  `cmd:"" hidden:"" help:"Send one message that is read on stdin."`
	ScriptAgent scriptAgentCmd `cmd:"" hidden:"" help:"Be the scripted agent: read a prompt on stdin and follow a script."`
}

// beShim is `bot shim`: every agent's and every check's parent.
func beShim(args []string) int { return shim.Main(args) }

// sandboxFlags say where agents and checks run.
type sandboxFlags struct {
	Sandbox string `enum:"local,docker" default:"local" help:"Where agents and checks run: local or docker. local shares the network with this machine, and without bubblewrap this user's files too (default: ${default})." placeholder:"local|docker"`
	Image   string `help:"Container image for --sandbox docker." placeholder:"IMAGE"`

	LocalIsolation string `name:"local-isolation" enum:"auto,bwrap,none" default:"auto" env:"RALPH_LOCAL_ISOLATION" help:"With --sandbox local: auto keeps agents and checks apart with bubblewrap where that works, bwrap refuses to do without, none does not (default: ${default})." placeholder:"auto|bwrap|none"`
}

// limitFlags bound a run; zero is the default, which the help names.
type limitFlags struct {
	MaxIterations int           `help:"Agent calls at most (default 50)." placeholder:"N"`
	TaskAttempts  int           `help:"Attempts at one task before it is set aside as blocked (default 3)." placeholder:"N"`
	Timeout       time.Duration `help:"Time for one agent call (default 30m)." placeholder:"DURATION"`
	IdleTimeout   time.Duration `help:"Time an agent may stay silent (default 10m)." placeholder:"DURATION"`
	Deadline      time.Duration `help:"Time for the whole run (default 6h)." placeholder:"DURATION"`
	Budget        float64       `help:"Dollars the run may cost (default: no limit)." placeholder:"USD"`
	TaskBudget    float64       `help:"Dollars one task may cost; kept in containers only (default: no limit)." placeholder:"USD"`
}

func (l limitFlags) limits() run.Limits {
	return run.Limits{
		MaxIterations: l.MaxIterations, TaskAttempts: l.TaskAttempts,
		IterationTimeout: l.Timeout, IdleTimeout: l.IdleTimeout, RunTimeout: l.Deadline, BudgetUSD: l.Budget, TaskBudgetUSD: l.TaskBudget,
	}
}
