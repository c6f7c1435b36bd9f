package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// unwatch forgets what was read of a process while it was at work.
func (h *Host) unwatch(lh loop.Handle) {
	h = h.main()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.lives, lh)
}

// liveAgent is the parser of an agent that is still at work.
type liveAgent struct {
	parser agent.Parser
	offset int64
	// final is when the agent's last message was seen, zero before.
	final time.Time
}

const (
	// activityPause is how often a watched agent's output is looked at. It delays
	// what a person sees, never the loop.
	activityPause = 150 * time.Millisecond
	// endTime is how long a process may go on once its agent's last message was seen: what
	// is left then works on nothing, such as a server that a test has started.
	endTime = 30 * time.Second
)

// follow reads what the agent wrote since the last look and tells of it. Where the work is
// there and the process is not gone, it ends that.
func (h *Host) follow(ctx context.Context, lh loop.Handle, handle sandbox.Handle) error {
	late, err := h.read(ctx, lh, handle)
	if err != nil || !late {
		return err
	}
	if err := h.cfg.Sandbox.Stop(ctx, handle, "its work was done, and it did not end"); err != nil {
		return fmt.Errorf("end %s: %w", handle.Name, err)
	}
	return nil
}

// read reads what the agent wrote since the last look. late says that its last message was
// seen so long ago that its process is not waited for.
func (h *Host) read(ctx context.Context, lh loop.Handle, handle sandbox.Handle) (late bool, err error) {
	h = h.main() // who waits and who observes share what they have read
	h.mu.Lock()
	defer h.mu.Unlock()
	live := h.lives[lh]
	if live == nil {
		live = &liveAgent{parser: h.cfg.Backend.NewParser(h.activity)}
		h.lives[lh] = live
	}
	n, err := h.logs(ctx, handle, live.offset, live.parser)
	live.offset += n
	return live.late(time.Now()), err
}

// late says whether the agent's last message was seen so long ago that its process is not
// waited for. An agent that went on after it has a new one to give.
func (l *liveAgent) late(now time.Time) bool {
	switch {
	case !l.parser.Final():
		l.final = time.Time{}
	case l.final.IsZero():
		l.final = now
	}
	return !l.final.IsZero() && now.Sub(l.final) >= endTime
}

func (h *Host) activity(a agent.Activity) {
	switch a.Kind {
	case agent.ActivityInit, agent.ActivityOther:
		return
	case agent.ActivityTool, agent.ActivityText, agent.ActivityError, agent.ActivityRetry:
	}
	if h.cfg.Emit == nil {
		return
	}
	h.cfg.Emit(run.Event{Kind: run.EventAgentActivity, Text: a.String(), Usage: a.Usage})
}

// Await returns when the process behind the handle has ended; meanwhile it tells what an
// agent does. It is what an inline door waits on.
func (h *Host) Await(ctx context.Context, lh loop.Handle) error {
	handle, err := decodeHandle(lh)
	if err != nil {
		return err
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		_, err := h.cfg.Sandbox.Wait(waiting, handle)
		done <- err
	}()
	ticker := time.NewTicker(activityPause)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			err := errors.Join(h.follow(ctx, lh, handle), h.stopInVain(ctx, handle))
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}
