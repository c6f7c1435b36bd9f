package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
)

const description = `Ralph Bot turns an issue into a reviewed pull request: it works a plan one task at a time, each with a fresh agent, checks every result itself, and lands one commit per task.

Exit codes: 0 complete, 1 failed, 2 usage or configuration, 3 limit of iterations, 4 stagnated, 5 budget, 6 cancelled (130 and 143 on SIGINT and SIGTERM), 7 blocked, 8 deadline, 9 waiting for a person.`

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
	Doctor   doctorCmd   `cmd:"" help:"Check git, agent, sandbox, configuration and App, and say what to mend."`
	Ghsim    ghsimCmd    `cmd:"" name:"ghsim" help:"Serve a GitHub in one process, for development."`
	Version  versionCmd  `cmd:"" help:"Print the version."`

	Transcript transcriptCmd `cmd:"" help:"Print what agents were told, did and said in a run."`

	Sim         simCmd         `cmd:"" hidden:"" help:"Measure the loop: seeded faulty agents, beside a plain Ralph loop."`
	ScriptAgent scriptAgentCmd `cmd:"" hidden:"" help:"Be the scripted agent: read a prompt on stdin and follow a script."`
}

// sandboxFlags say where agents and checks run.
type sandboxFlags struct {
	Sandbox string `enum:"local,docker" default:"local" help:"Where agents and checks run: local or docker. local shares the network with this machine, and without bubblewrap this user's files too."`
	Image   string `help:"Container image for --sandbox docker." placeholder:"IMAGE"`

	LocalIsolation string `name:"local-isolation" enum:"auto,bwrap,none" default:"auto" env:"RALPH_LOCAL_ISOLATION" help:"With --sandbox local: auto keeps agents and checks apart with bubblewrap where that works, bwrap refuses to do without, none does not."`
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

// version and revision are set at build time; a build from a checkout says them
// by itself.
var version, revision = "", ""

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the version.
func (c *versionCmd) Run(io stdio) error {
	if c.JSON {
		v, commit := versionOf()
		return printJSON(io.out, map[string]string{"version": v, "commit": commit})
	}
	_, err := fmt.Fprintln(io.out, versionLine())
	return err
}

func versionLine() string {
	v, commit := versionOf()
	if commit == "" {
		return "bot " + v
	}
	return fmt.Sprintf("bot %s (%.12s)", v, commit)
}

func versionOf() (v, commit string) {
	v, commit = version, revision
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v, commit
	}
	if v == "" {
		v = strings.Trim(info.Main.Version, "()")
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && commit == "" {
			commit = s.Value
		}
	}
	return v, commit
}

// dataDir is where `bot run` keeps work trees and state: RALPH_DATA_DIR, or
// the user's cache directory.
func dataDir() (string, error) {
	if dir := os.Getenv("RALPH_DATA_DIR"); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("RALPH_DATA_DIR: %w", err)
		}
		return abs, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", &run.UserError{Message: "there is no cache directory: " + err.Error(), Hint: "set HOME or RALPH_DATA_DIR", Err: err}
	}
	return filepath.Join(cache, "ralph-bot"), nil
}
