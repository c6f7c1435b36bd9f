package host

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// startFile holds, in a start's directory, what its transcript tells of it
// beside its words. Only the starts of agents have one, until their transcript is kept.
const startFile = "transcript.json"

// describe notes what a start is for, so that whichever process observes its end
// can keep the transcript.
func (h *Host) describe(s loop.State, a loop.AgentStart) error {
	if h.cfg.Transcripts == nil {
		return nil
	}
	st := transcript.Start{
		Run: s.Run, Name: a.Name, Iteration: s.Number, Attempt: a.Attempt, TaskID: s.TaskID, Role: a.Role,
		Agent: s.Agent, Model: a.Model, Sandbox: sandbox.Describe(h.cfg.Sandbox),
	}
	for _, t := range a.Progress.Tasks() {
		if t.ID == s.TaskID && s.TaskID != "" {
			st.Task = t.Title
		}
	}
	return writeNote(filepath.Join(h.start(a.Name), startFile), st)
}

// Witness notes for the transcripts what becomes of each call, and passes every
// event on to tell, which may be nil.
func (h *Host) Witness(tell func(run.Event)) func(run.Event) {
	if h.cfg.Transcripts == nil {
		return tell
	}
	return func(ev run.Event) {
		err := h.cfg.Transcripts.Note(ev)
		if tell == nil {
			return
		}
		tell(ev)
		if err != nil {
			tell(run.Event{Time: ev.Time, Run: ev.Run, Kind: run.EventPersonNotified, Text: err.Error()})
		}
	}
}

// keepTranscript keeps what the agent of a start was told and said, once it has ended.
func (h *Host) keepTranscript(ctx context.Context, handle sandbox.Handle, status sandbox.Status, s loop.AgentStatus) {
	if h.cfg.Transcripts != nil {
		h.tellUnkept(ctx, "the transcript of a call", h.transcribe(ctx, handle, status, s))
	}
}

// tellUnkept tells a person what went wrong: the run does not depend on it.
func (h *Host) tellUnkept(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		h.tell(run.EventPersonNotified, what+" could not be kept: "+err.Error())
	}
}

func (h *Host) transcribe(
	ctx context.Context, handle sandbox.Handle, status sandbox.Status, s loop.AgentStatus,
) (err error) {
	dir := h.start(handle.Name)
	var st transcript.Start
	if found, err := readNote(filepath.Join(dir, startFile), &st); err != nil || !found {
		return err // a check, or it did not get that far, or it is kept
	}
	st.Started, st.Finished, st.ExitCode = status.StartedAt, status.FinishedAt, status.ExitCode
	st.Outcome, st.Detail, st.Usage, st.Model = cmp.Or(string(s.Outcome), "ended early"), s.Detail, s.Usage,
		cmp.Or(s.Model, st.Model)
	prompt, err := os.Open(filepath.Join(dir, promptName)) // #nosec G304 -- a file of our own
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was cut off before it was laid out
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prompt.Close()) }()
	stdout, err := handle.Stdout(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stdout.Close()) }()
	stderr, err := handle.Stderr()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stderr.Close()) }()
	if err := h.cfg.Transcripts.Keep(st, prompt, stdout, stderr); err != nil {
		return err
	}
	return os.Remove(filepath.Join(dir, startFile))
}

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

// keepCheck keeps the whole output of a check that has ended.
func (h *Host) keepCheck(ctx context.Context, handle sandbox.Handle, status sandbox.Status, r gate.Result) {
	if h.cfg.Transcripts != nil {
		h.tellUnkept(ctx, "the output of a check", h.storeCheck(ctx, handle, status, r))
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
	out, err := handle.Stdout(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return h.cfg.Transcripts.KeepCheck(c, out)
}
