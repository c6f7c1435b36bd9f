package loop

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

// Setup are commands of the repository that have to run before the first agent,
// on the content of its default branch. What they leave in their cache is kept
// for the repository.
type Setup struct {
	Commands []string
	Timeout  time.Duration
	// Tree is the default branch's.
	Tree string
}

// SetupName is what people call the set-up commands.
const SetupName = "set-up"

// setup tells people that the run has begun, and runs the set-up commands as a check. Without what
// they prepare no check would tell anything, so that the run ends where they fail, before any model
// is paid for.
func (e *Engine) setup(ctx context.Context, s *State) (Next, error) {
	switch {
	case s.Process == nil:
		if next, ended, err := e.begin(ctx, s); err != nil || ended {
			return next, err
		}
		if s.Setup == nil {
			return e.enter(s)
		}
		s.prepareProcess(ProcessSetup, e.Now())
		return Next{}, nil
	case s.Process.Handle == "":
		g := gate.Gate{Name: SetupName, Command: strings.Join(s.Setup.Commands, "\n"), Timeout: s.Setup.Timeout}
		return Next{}, e.startCheck(ctx, s, GateStart{Gate: g, Tree: s.Setup.Tree, Trust: TrustDefault})
	}
	status, next, err := e.observeCheck(ctx, s, stageSetup, SetupName)
	if status == nil || err != nil {
		return next, err
	}
	s.Setup = nil
	r := status.Result
	if r.Passed {
		e.tellCheck(s, SetupName, status, SetupName+" done")
		return e.enter(s)
	}
	e.tellCheck(s, SetupName, status, SetupName+" failed")
	if e.overdue(*s) {
		return e.finish(s, run.EndDeadline, "")
	}
	why := r.Reason
	if why == "exited" {
		why = fmt.Sprintf("they ended with exit code %d", r.ExitCode)
	}
	return e.finish(s, run.EndFailed, fmt.Sprintf("the set-up commands of .github/ralph.yml failed: %s: %s", why,
		oneLine(r.Output, 400)))
}
