package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

const description = `Ralph Bot turns an issue into a pull request. It works through a plan one task at a time: a fresh AI agent does each task, the bot runs your checks, and each task that passes becomes one commit.

To see it work, run bot demo. To work on a plan in your own git repository, run bot run PLAN.md. To work on GitHub issues, run bot setup and then bot serve. To find what is missing, run bot doctor.

Exit codes: 0 complete, 1 failed, 2 usage or configuration, 3 iteration limit, 4 stagnated, 5 budget, 6 cancelled (130 and 143 on SIGINT and SIGTERM), 7 blocked, 8 deadline, 9 waiting for a person.`

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
		return "", &run.UserError{
			Message: "there is no cache directory: " + err.Error(), Hint: "set HOME or RALPH_DATA_DIR", Err: err,
		}
	}
	return filepath.Join(cache, "ralph-bot"), nil
}
