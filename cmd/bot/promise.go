package main

import (
	"context"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/gateway"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/run"
)

// The values of --session.
const (
	sessionFresh = "fresh"
	sessionSame  = "same"
)

// takeLoop takes what is to be done from the checkout's loop file where the person names
// no plan. Flags come before what the file says.
func (c *runCmd) takeLoop(ctx context.Context, git *gitrepo.Git, dir string) error {
	if c.Plan != "" {
		return nil
	}
	l, ok, err := inline.ReadLoop(ctx, git, dir)
	if err != nil {
		return err
	}
	if !ok {
		return &run.UserError{
			Message: "nothing says what to do: there is no plan, and no active " + plan.LoopFile,
			Hint:    "pass a plan file, or a sentence in quotes",
		}
	}
	if l.Prompt == "" {
		return &run.UserError{Message: plan.LoopFile + " has no prompt", Hint: "write it below the second line ---"}
	}
	if c.Promise == "" {
		c.Promise = l.Promise
	}
	if c.Promise == "" {
		return &run.UserError{
			Message: plan.LoopFile + " has no completion_promise, so that nothing could say that the prompt is done",
			Hint:    "add one there, or --completion-promise TEXT",
		}
	}
	if c.MaxIterations == 0 {
		c.MaxIterations = l.MaxIterations
	}
	c.prompt, c.loop = l.Prompt, true
	return nil
}

// checkPromise checks what was asked of promises and sessions, and prepares for it.
func (c *runCmd) checkPromise(backend agent.Backend) error {
	if c.Promise != "" {
		if err := plan.CheckPromise(c.Promise); err != nil {
			return &run.UserError{Message: "--completion-promise: " + err.Error(),
				Hint: "use a word or two, such as DONE", Err: err}
		}
		if c.Mode == string(run.ModePlan) {
			return &run.UserError{
				Message: "plan writes tasks, and --completion-promise has none: its prompt is the one task",
				Hint:    "leave out plan, or --completion-promise",
			}
		}
	}
	if c.Session != sessionSame {
		return nil
	}
	switch {
	case c.Promise == "":
		return &run.UserError{
			Message: "--session same repeats one prompt, and nothing would say when that is done",
			Hint:    "add --completion-promise TEXT",
		}
	case !backend.About().TakesStopHook:
		return &run.UserError{
			Message: "--session same needs an agent that asks before it ends, which " + c.Agent + " does not",
			Hint:    "use --agent claude, or --session fresh",
		}
	case c.Sandbox != agent.SandboxLocal:
		return &run.UserError{
			Message: "--session same works with --sandbox local only: in a container, an agent is never left waiting",
			Hint:    "use --sandbox local (bubblewrap keeps it apart, see --local-isolation), or --session fresh",
		}
	}
	c.loop, c.stops = true, gateway.NewStops()
	return nil
}
