package host

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// describe says what the start of an agent is for, nil where no transcript is kept.
func (h *Host) describe(s loop.State, a loop.AgentStart) *transcript.Start {
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
	return &st
}

// describeCheck is describe of a check.
func (h *Host) describeCheck(s loop.State, g loop.GateStart) *transcript.Check {
	if h.cfg.Transcripts == nil {
		return nil
	}
	return &transcript.Check{
		Run: s.Run, Name: g.Name, Iteration: s.Number, TaskID: s.TaskID, Gate: g.Gate.Name, Command: g.Gate.Command,
		Of: g.Of,
	}
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
		h.tellUnkept(ctx, "the transcript of a call", h.transcribe(handle, status, s))
	}
}

// tellUnkept tells a person what went wrong: the run does not depend on it.
func (h *Host) tellUnkept(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		h.tell(run.EventPersonNotified, what+" could not be kept: "+err.Error())
	}
}

func (h *Host) transcribe(handle sandbox.Handle, status sandbox.Status, s loop.AgentStatus) (err error) {
	note, _, err := h.startNote(handle.Name)
	st := note.Agent
	if err != nil || st == nil {
		return err // a check, or it did not get that far, or it is kept
	}
	st.Started, st.Finished, st.ExitCode = status.StartedAt, status.FinishedAt, status.ExitCode
	st.Outcome, st.Detail, st.Usage, st.Model = cmp.Or(string(s.Outcome), "ended early"), s.Detail, s.Usage,
		cmp.Or(s.Model, st.Model)
	prompt, err := os.Open(filepath.Join(h.start(handle.Name), promptName)) // #nosec G304 -- a file of our own
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
	if err := h.cfg.Transcripts.Keep(*st, prompt, stdout, stderr); err != nil {
		return err
	}
	note.Agent = nil
	return fstree.WriteNote(h.noteFile(handle.Name), note)
}

// keepCheck keeps the whole output of a check that has ended.
func (h *Host) keepCheck(ctx context.Context, handle sandbox.Handle, status sandbox.Status, r gate.Result) {
	if h.cfg.Transcripts != nil {
		h.tellUnkept(ctx, "the output of a check", h.storeCheck(handle, status, r))
	}
}

func (h *Host) storeCheck(handle sandbox.Handle, status sandbox.Status, r gate.Result) (err error) {
	note, _, err := h.startNote(handle.Name)
	c := note.Check
	if err != nil || c == nil {
		return err
	}
	c.Started, c.Finished = status.StartedAt, status.FinishedAt
	c.Passed, c.ExitCode, c.Reason = r.Passed, r.ExitCode, r.Reason
	out, err := handle.Stdout(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return h.cfg.Transcripts.KeepCheck(*c, out)
}
