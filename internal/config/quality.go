package config

import (
	"strings"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/strs"
)

// qualityFile keeps the spelling of the proposal these keys come from.
type qualityFile struct {
	Tests struct {
		MinPassRate               *float64 `yaml:"minPassRate"`
		RequireNewTestsForNewCode bool     `yaml:"requireNewTestsForNewCode"`
		AllowChangedExpectations  bool     `yaml:"allowChangedExpectations"`
	} `yaml:"tests"`
	Security struct {
		BlockOnCritical *bool `yaml:"blockOnCritical"`
		BlockOnHigh     *bool `yaml:"blockOnHigh"`
	} `yaml:"security"`
	Clippy struct {
		TreatWarningsAsErrors bool     `yaml:"treatWarningsAsErrors"`
		AllowedLints          []string `yaml:"allowedLints"`
	} `yaml:"clippy"`
}

// maxLints bounds what is put on a command line.
const maxLints = 100

// A lint goes into a command for a shell: nothing else may stand in it.
var lintPattern = strs.Lazy(`^[a-z][a-z0-9_]*(?:::[a-z][a-z0-9_]*)?$`)

// quality checks what a file says. What it leaves out is strict where that
// costs honest work nothing, and off where it would.
func quality(f qualityFile, report reporter) gate.Quality {
	q := gate.Quality{
		RequireNewTests:   f.Tests.RequireNewTestsForNewCode,
		AllowChangedTests: f.Tests.AllowChangedExpectations,
		AllowCritical:     f.Security.BlockOnCritical != nil && !*f.Security.BlockOnCritical,
		AllowHigh:         f.Security.BlockOnHigh != nil && !*f.Security.BlockOnHigh,
		ClippyStrict:      f.Clippy.TreatWarningsAsErrors,
	}
	if rate := f.Tests.MinPassRate; rate != nil {
		if *rate > 0 && *rate <= 1 {
			q.MinPassRate = *rate
		} else {
			report("$.quality.tests.minPassRate", "must be more than 0 and at most 1")
		}
	}
	if len(f.Clippy.AllowedLints) > maxLints {
		report("$.quality.clippy.allowedLints", "%d lints; at most %d are allowed", len(f.Clippy.AllowedLints), maxLints)
		return q
	}
	for _, lint := range f.Clippy.AllowedLints {
		if !lintPattern().MatchString(lint) {
			report("$.quality.clippy.allowedLints", "%q does not look like the name of a lint", clip(lint))
		}
	}
	q.ClippyAllowed = strings.Join(f.Clippy.AllowedLints, " ")
	return q
}
