package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

const (
	maxSetupRun    = 20
	maxSetupInputs = 50
	// DefaultSetupTimeout bounds the set-up commands together.
	DefaultSetupTimeout = 30 * time.Minute
)

type setupFile struct {
	Run     []string `yaml:"run"`
	Inputs  []string `yaml:"inputs"`
	Timeout duration `yaml:"timeout"`
}

func setup(f setupFile, report reporter) Setup {
	s := Setup{Run: f.Run, Inputs: f.Inputs, Timeout: time.Duration(f.Timeout)}
	if len(f.Run) > maxSetupRun {
		report("$.setup.run", "%d commands; at most %d are allowed", len(f.Run), maxSetupRun)
	}
	for i, command := range f.Run {
		if strings.TrimSpace(command) == "" || len(command) > maxGateRun || strings.ContainsRune(command, 0) {
			report(fmt.Sprintf("$.setup.run[%d]", i), "a command has 1 to %d bytes", maxGateRun)
		}
	}
	if len(f.Inputs) > maxSetupInputs {
		report("$.setup.inputs", "%d files; at most %d are allowed", len(f.Inputs), maxSetupInputs)
	}
	for i, name := range f.Inputs {
		if !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." {
			report(fmt.Sprintf("$.setup.inputs[%d]", i), "%q is not the path of a file in the repository", clip(name))
		}
	}
	if len(f.Run) == 0 {
		if len(f.Inputs) > 0 || f.Timeout != 0 {
			report("$.setup", "there is nothing to run; add run: [command]")
		}
		return Setup{}
	}
	switch {
	case s.Timeout == 0:
		s.Timeout = DefaultSetupTimeout
	case s.Timeout < time.Second || s.Timeout > maxGateLength:
		report("$.setup.timeout", "must be between 1s and %s", short(maxGateLength))
	}
	return s
}
