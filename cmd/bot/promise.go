package main

import (
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/run"
)

// checkPromise refuses a promise that no agent could make.
func (c *runCmd) checkPromise() error {
	if c.Promise == "" {
		return nil
	}
	if err := plan.CheckPromise(c.Promise); err != nil {
		return &run.UserError{Message: "--completion-promise: " + err.Error(), Hint: "use a word or two, such as DONE", Err: err}
	}
	if c.Mode == string(run.ModePlan) {
		return &run.UserError{
			Message: "plan writes tasks, and --completion-promise has none: its prompt is the one task",
			Hint:    "leave out plan, or --completion-promise",
		}
	}
	return nil
}
