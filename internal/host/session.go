package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// session is an agent process that builds in more than one call. Before it ends it asks
// the host (gateway.Stops), and waits. For the loop the call has ended then: it judges
// what was said, runs the checks, and when it starts its next agent, this one goes on
// with that prompt. Only what the process holds in memory is lost with this one: where
// it is gone, the next call begins a new session on the tree as it stands.
type session struct {
	process

	lh  loop.Handle
	inv agent.Invocation
	// began is when the call at hand did. While it lasts, timer stops the process that
	// takes too long for it; late says that it has.
	began time.Time
	timer *time.Timer
	late  bool
	// ended is where the output of the next call begins.
	ended int64
}

// partingTime is how long an agent has to end by itself once it may.
const partingTime = 10 * time.Second

// keepsSession says whether a start is a call of the run's one session.
func (h *Host) keepsSession(a loop.AgentStart) bool {
	return h.cfg.SameSession && h.of == nil && h.cfg.Gateway != nil && h.cfg.Gateway.Stops != nil && a.Mode == run.ModeBuild
}

// inSession is the handle of the call at hand, if it has that name.
func (h *Host) inSession(start string) (loop.Handle, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session == nil || h.session.start() != start {
		return "", false
	}
	return h.session.lh, true
}

// sessionOf is the session if p is the call at hand of it, else nil. h.mu is held.
func (h *Host) sessionOf(p process) *session {
	if h.session == nil || h.session.Name != p.Name || h.session.start() != p.start() {
		return nil
	}
	return h.session
}

// beginSession notes that a process that was started asks before it ends.
func (h *Host) beginSession(ctx context.Context, lh loop.Handle, inv agent.Invocation, wall time.Duration) error {
	p, err := decodeHandle(lh)
	if err != nil {
		return err
	}
	inv.StopHook = ""
	h.mu.Lock()
	defer h.mu.Unlock()
	h.session = &session{process: p, lh: lh, inv: inv}
	h.limit(ctx, h.session, wall)
	return nil
}

// limit has the process stopped where it takes longer for the call that begins. h.mu is
// held.
func (h *Host) limit(ctx context.Context, s *session, wall time.Duration) {
	s.began = time.Now()
	if wall <= 0 {
		return
	}
	s.timer = time.AfterFunc(wall, func() {
		h.mu.Lock()
		s.late = true
		h.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
		defer cancel()
		_ = h.cfg.Sandbox.Stop(ctx, s.Handle, "it took too long") // else the run's own deadline does
	})
}

// inTime ends the limit of the call at hand.
func (s *session) inTime() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// goOn hands the prompt to the agent that waits for one; ok is false where none does, or
// where it was started in another way.
func (h *Host) goOn(ctx context.Context, a loop.AgentStart, inv agent.Invocation) (lh loop.Handle, ok bool, err error) {
	// What the host has written into the tree since is the agent's again.
	if _, err := h.cfg.Sandbox.Prepare(ctx, h.treeDir()); err != nil {
		return "", false, fmt.Errorf("prepare the work tree: %w", err)
	}
	h.mu.Lock()
	s := h.session
	fits := s != nil && s.inv.Model == inv.Model && s.inv.MaxTurns == inv.MaxTurns &&
		slices.Equal(s.inv.DenyTools, inv.DenyTools)
	if !fits || !h.cfg.Gateway.Stops.GoOn(s.Name, a.Name, a.Prompt) {
		h.mu.Unlock()
		return "", false, h.EndSession(ctx)
	}
	defer h.mu.Unlock()
	s.As, s.From = a.Name, s.ended
	if s.lh, err = s.encode(); err != nil {
		return "", false, err
	}
	h.limit(ctx, s, a.Wall)
	return s.lh, true, nil
}

// observeSession is ObserveAgent for an agent that waits to be told whether it is to go
// on; ok is false for any other.
func (h *Host) observeSession(ctx context.Context, lh loop.Handle) (_ loop.AgentStatus, ok bool, _ error) {
	p, err := decodeHandle(lh)
	if err != nil || !h.waits(p) {
		return loop.AgentStatus{}, false, err
	}
	said, _ := h.cfg.Gateway.Stops.Said(p.Name)
	if _, err := h.cfg.Sandbox.Collect(ctx, sandbox.Workspace{Dir: h.treeDir()}); err != nil {
		return loop.AgentStatus{}, false, fmt.Errorf("collect the work tree: %w", err)
	}
	h.unwatch(lh)
	var did run.Activity
	parser := h.cfg.Backend.NewParser(func(a agent.Activity) {
		if a.Kind == agent.ActivityTool {
			did.Use(a.Tool)
		}
	})
	n, err := h.logs(ctx, p, p.From, parser)
	if err != nil {
		return loop.AgentStatus{}, false, err
	}
	s := loop.AgentStatus{
		Outcome: loop.AgentCompleted, Final: h.cfg.Mask.Mask(agent.LastWords(said)), Activity: did, Finished: time.Now(),
	}
	s.Model = parser.Close().Model
	h.mu.Lock()
	if at := h.sessionOf(p); at != nil {
		s.Started, at.ended = at.began, p.From+n
		at.inTime()
	}
	h.mu.Unlock()
	if err := h.cfg.Gateway.end(ctx, p.start(), &s); err != nil {
		return loop.AgentStatus{}, false, err
	}
	h.keepTranscript(ctx, p, sandbox.Status{StartedAt: s.Started, FinishedAt: s.Finished}, s)
	return s, true, nil
}

// waits says whether p is an agent that waits to be told whether it is to go on.
func (h *Host) waits(p process) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessionOf(p) == nil {
		return false
	}
	_, asks := h.cfg.Gateway.Stops.Said(p.Name)
	return asks
}

// late says whether p was stopped because it took too long for its call.
func (h *Host) late(p process) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessionOf(p)
	return s != nil && s.late
}

// dropSession forgets the session if p is its process, which has ended or is about to.
func (h *Host) dropSession(p process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.session; s != nil && s.Name == p.Name {
		s.inTime()
		h.cfg.Gateway.Stops.End(s.Name)
		h.session = nil
	}
}

// EndSession lets the agent end that waits for its next prompt, and stops one that does
// not. There need not be one.
func (h *Host) EndSession(ctx context.Context) error {
	h.mu.Lock()
	s := h.session
	h.mu.Unlock()
	if s == nil {
		return nil
	}
	p := s.process
	waits := h.waits(p)
	h.dropSession(p)
	if waits {
		parting, cancel := context.WithTimeout(ctx, partingTime)
		_, err := h.cfg.Sandbox.Wait(parting, p.Handle)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("let %s end: %w", p.Name, err)
		}
	}
	if err := h.cfg.Sandbox.Stop(ctx, p.Handle, "its session is over"); err != nil {
		return fmt.Errorf("end %s: %w", p.Name, err)
	}
	return h.discard(ctx, p)
}
