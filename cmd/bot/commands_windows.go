package main

import (
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"github.com/org/ralph-action/internal/run"
)

// commands are the sub-commands and their flags. What starts programs, makes work
// trees or opens the database needs what only Unix has: process groups, openat,
// locks. Here is what reads and writes files.
type commands struct {
	Progress   progressCmd   `cmd:"" help:"Show, check and convert progress files and task files of other tools."`
	Stats      statsCmd      `cmd:"" help:"Show what runs did: iterations, cost, tasks, failed checks, verdicts."`
	Transcript transcriptCmd `cmd:"" help:"Show the prompts, actions and output of a run's agents."`
	Schema     schemaCmd     `cmd:"" help:"Print the JSON Schema of a configuration file, for editors."`
	Completion completionCmd `cmd:"" help:"Print the script that completes commands and flags in your shell."`
	Man        manCmd        `cmd:"" hidden:"" help:"Print the manual page."`
	Help       helpCmd       `cmd:"" help:"Show help for a command."`
	Version    versionCmd    `cmd:"" help:"Print the version."`

	Run     elsewhereCmd `cmd:"" passthrough:"" help:"Work on a plan; on Windows only in WSL 2."`
	Demo    elsewhereCmd `cmd:"" passthrough:"" help:"See the whole product work; on Windows only in WSL 2."`
	Setup   elsewhereCmd `cmd:"" passthrough:"" help:"Create a GitHub App; on Windows only in WSL 2."`
	Serve   elsewhereCmd `cmd:"" passthrough:"" help:"Run the GitHub App's server; on Windows only in WSL 2."`
	Action  elsewhereCmd `cmd:"" passthrough:"" help:"Run as a step of a GitHub Actions workflow; not on Windows runners."`
	Lessons elsewhereCmd `cmd:"" passthrough:"" help:"Show lessons from earlier tasks; on Windows only in WSL 2."`
	Notify  elsewhereCmd `cmd:"" passthrough:"" help:"Send a test notification; on Windows only in WSL 2."`
	Doctor  elsewhereCmd `cmd:"" passthrough:"" help:"Check what runs need; on Windows only in WSL 2."`
	Ghsim   elsewhereCmd `cmd:"" passthrough:"" help:"Run a simulated GitHub; on Windows only in WSL 2."`

	Sim simCmd `cmd:"" hidden:"" help:"Measure the loop with simulated faulty agents, next to a plain Ralph loop."`
}

// elsewhereCmd is a command of the program that this system has no sandbox for.
type elsewhereCmd struct {
	Args []string `arg:"" optional:""`
}

// Run says where it works.
func (elsewhereCmd) Run(ctx *kong.Context) error {
	return &run.UserError{
		Message: fmt.Sprintf("`%s %s` does not work on Windows: neither sandbox, local or docker, does",
			calledAs(), ctx.Selected().Name),
		Hint: "use the program for Linux in WSL 2, or the Action on a Linux runner; progress, stats and transcript work here",
	}
}

// beShim is for sandboxes.
func beShim([]string) int {
	fmt.Fprintln(os.Stderr, "shim: there are no sandboxes on Windows")
	return run.ExitUsage
}
