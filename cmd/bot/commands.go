package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// installedName is what releases install the program as.
const installedName = "ralph-bot"

// calledAs is the name that the program was started by, for messages that tell a person
// what to type: a release installs ralph-bot, while go build makes bot.
func calledAs() string {
	name := filepath.Base(os.Args[0])
	if name == "" || name == "." || name == string(filepath.Separator) {
		return installedName
	}
	return run.PrintableLine(name)
}

// description is what the program is for, in the help.
func description() string {
	return fmt.Sprintf(`Ralph Bot turns an issue into a pull request. It works through a plan one task at a time: a fresh AI agent does each task, the bot runs your checks, and each task that passes becomes one commit.

To see it work, run %[1]s demo. To work on a plan in your own git repository, run %[1]s init and then %[1]s run PLAN.md. To work on GitHub issues, run %[1]s setup and then %[1]s serve. To find what is missing, run %[1]s doctor.

`, calledAs()) + exitCodes
}

const exitCodes = `Exit codes: 0 complete, 1 failed, 2 usage or configuration, 3 iteration limit, 4 stagnated, 5 budget, 6 cancelled (130 and 143 on SIGINT and SIGTERM), 7 blocked, 8 deadline, 9 waiting for a person.`

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
		return calledAs() + " " + v
	}
	return fmt.Sprintf("%s %s (%.12s)", calledAs(), v, commit)
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
		return "", &run.UserError{
			Message: "there is no cache directory: " + err.Error(), Hint: "set HOME or RALPH_DATA_DIR", Err: err,
		}
	}
	return filepath.Join(cache, "ralph-bot"), nil
}
