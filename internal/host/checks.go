package host

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// checkFile holds, in a start's directory, what is kept of a check beside its
// output. Only the starts of checks have one.
const checkFile = "check.json"

// describeCheck notes what a check is for, so that whichever process observes its end
// can keep its output.
func (h *Host) describeCheck(s loop.State, g loop.GateStart) error {
	if h.cfg.Transcripts == nil {
		return nil
	}
	return writeNote(filepath.Join(h.start(g.Name), checkFile), transcript.Check{
		Run: s.Run, Name: g.Name, Iteration: s.Number, TaskID: s.TaskID, Gate: g.Gate.Name, Command: g.Gate.Command,
		Of: g.Of,
	})
}

// keepCheck keeps the whole output of a check that has ended. The run does not depend
// on it: what goes wrong is told to a person.
func (h *Host) keepCheck(ctx context.Context, handle sandbox.Handle, status sandbox.Status, r gate.Result) {
	if h.cfg.Transcripts == nil {
		return
	}
	if err := h.storeCheck(ctx, handle, status, r); err != nil && ctx.Err() == nil && h.cfg.Emit != nil {
		h.cfg.Emit(run.Event{
			Kind: run.EventPersonNotified, Text: "the output of a check could not be kept: " + err.Error(),
		})
	}
}

func (h *Host) storeCheck(
	ctx context.Context, handle sandbox.Handle, status sandbox.Status, r gate.Result,
) (err error) {
	var c transcript.Check
	if found, err := readNote(filepath.Join(h.start(handle.Name), checkFile), &c); err != nil || !found {
		return err
	}
	c.Started, c.Finished = status.StartedAt, status.FinishedAt
	c.Passed, c.ExitCode, c.Reason = r.Passed, r.ExitCode, r.Reason
	out, err := h.cfg.Sandbox.Logs(ctx, handle, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return h.cfg.Transcripts.KeepCheck(c, out)
}
