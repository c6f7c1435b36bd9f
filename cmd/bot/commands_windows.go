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
	Progress   progressCmd   `cmd:"" help:"Read, check and convert progress files and those of other systems."`
	Stats      statsCmd      `cmd:"" help:"Print what runs did: iterations, cost, tasks, failed checks, verdicts."`
	Transcript transcriptCmd `cmd:"" help:"Print what agents were told, did and said in a run."`
	Schema     schemaCmd     `cmd:"" help:"Print the JSON Schema of a configuration file, for editors."`
	Version    versionCmd    `cmd:"" help:"Print the version."`

	Run     elsewhereCmd `cmd:"" passthrough:"" help:"Work a plan; on Windows in WSL 2 only."`
	Demo    elsewhereCmd `cmd:"" passthrough:"" help:"Show the whole product on loopback; on Windows in WSL 2 only."`
	Setup   elsewhereCmd `cmd:"" passthrough:"" help:"Make a GitHub App; on Windows in WSL 2 only."`
	Serve   elsewhereCmd `cmd:"" passthrough:"" help:"Serve the GitHub App; on Windows in WSL 2 only."`
	Action  elsewhereCmd `cmd:"" passthrough:"" help:"Be a step of a GitHub Actions workflow; not on Windows runners."`
	Lessons elsewhereCmd `cmd:"" passthrough:"" help:"Print what tasks taught; on Windows in WSL 2 only."`
	Notify  elsewhereCmd `cmd:"" passthrough:"" help:"Try out where people are told of runs; on Windows in WSL 2 only."`
	Doctor  elsewhereCmd `cmd:"" passthrough:"" help:"Check what runs need; on Windows in WSL 2 only."`
	Ghsim   elsewhereCmd `cmd:"" passthrough:"" help:"Serve a GitHub in one process; on Windows in WSL 2 only."`

	Sim simCmd `cmd:"" hidden:"" help:"Measure the loop: seeded faulty agents, beside a plain Ralph loop."`
}

// elsewhereCmd is a command of the program that this system has no sandbox for.
type elsewhereCmd struct {
	Args []string `arg:"" optional:""`
}

// Run says where it works.
func (elsewhereCmd) Run(ctx *kong.Context) error {
	return &run.UserError{
		Message: fmt.Sprintf("`bot %s` does not work on Windows: neither sandbox, local or docker, does", ctx.Selected().Name),
		Hint:    "use the program for Linux in WSL 2, or the Action on a Linux runner; progress, stats and transcript work here",
	}
}

// beShim is for sandboxes.
func beShim([]string) int {
	fmt.Fprintln(os.Stderr, "shim: there are no sandboxes on Windows")
	return run.ExitUsage
}
