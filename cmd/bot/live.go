package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// live tells a person how a run goes: on a terminal one line that is rewritten
// in place and lasting lines for what matters, elsewhere plain lines only.
type live struct {
	mu      sync.Mutex
	w       io.Writer
	tty     bool
	width   func() int
	now     func() time.Time
	mask    *redact.Masker
	started time.Time
	status  string // what stands on the rewritten line
	doing   string // what the agent does
	ev      run.Event
	stop    chan struct{}
}

// newLive writes to w; on a terminal it draws.
func newLive(w io.Writer, now func() time.Time, mask *redact.Masker) *live {
	l := &live{w: w, now: now, mask: mask, started: now(), width: func() int { return 100 }, stop: make(chan struct{})}
	if f, ok := w.(*os.File); ok && isTerminal(w) {
		l.tty = true
		l.width = func() int {
			if cols, _, err := term.GetSize(int(f.Fd())); err == nil && cols > 20 {
				return cols
			}
			return 100
		}
		go l.tick()
	}
	return l
}

// tick keeps the clock on the rewritten line going while an agent is silent.
func (l *live) tick() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.mu.Lock()
			if l.status != "" {
				l.redraw(l.doing)
			}
			l.mu.Unlock()
		case <-l.stop:
			return
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// handle takes an event of the run. It may be called from any goroutine.
func (l *live) handle(ev run.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ev.Total == 0 {
		ev.Done, ev.Total = l.ev.Done, l.ev.Total
	}
	if ev.TaskID == "" {
		ev.TaskID, ev.TaskTitle = l.ev.TaskID, l.ev.TaskTitle
	} else if ev.TaskTitle == "" && ev.TaskID == l.ev.TaskID {
		ev.TaskTitle = l.ev.TaskTitle
	}
	l.ev = ev
	switch ev.Kind {
	case run.EventRunStarted:
		if ev.Total == 0 {
			l.line("▶ %s: planning", ev.Text)
		} else {
			l.line("▶ %s: %d of %s done", ev.Text, ev.Done, count(ev.Total, "task"))
		}
	case run.EventPlanned:
		if ev.Text != "" {
			l.line("    %s", ev.Text)
		} else {
			l.line("  planned %s", count(ev.Total, "task"))
		}
	case run.EventIteration:
		if ev.Role == run.RoleReviewer {
			l.line("  iteration %d: review of the whole change", ev.Iteration)
			break
		}
		l.line("  iteration %d: %s %s", ev.Iteration, ev.TaskID, ev.TaskTitle)
	case run.EventAgentStarted:
		if ev.Role == run.RoleReviewer && ev.TaskID != "" {
			l.line("    another agent call verifies that it is done")
		}
		l.redraw("working")
	case run.EventTaskGoesOn:
		l.line("    … %s", ev.Text)
	case run.EventAgentActivity:
		l.redraw(ev.Text)
	case run.EventAgentFinished:
		l.redraw("verifying")
	case run.EventGate:
		l.line("    %s", ev.Text)
	case run.EventGateNote:
		l.line("    %s", ev.Text)
	case run.EventVerdict:
		l.line("  → %s", ev.Text)
	case run.EventTrouble:
		l.line("    ! %s", ev.Text)
	case run.EventAttemptFailed:
		l.line("    ✗ %s", ev.Text)
	case run.EventTaskBlocked:
		l.line("    ✗ %s is blocked: %s", ev.TaskID, ev.Text)
	case run.EventCommitted:
		if ev.Text == "" {
			l.line("    left uncommitted in the checkout")
		} else {
			l.line("    commit %.10s", ev.Text)
		}
	case run.EventTaskDone:
		l.line("    ✓ %s (%d of %d, %s%s)", ev.TaskID, ev.Done, ev.Total, l.elapsed(), cost(ev.CostUSD))
	case run.EventWaiting:
		l.line("    … %s", ev.Text)
	case run.EventRunEnded:
		l.end(ev)
	case run.EventPersonNotified, run.EventEdited:
		l.line("  %s", ev.Text)
	}
}

func (l *live) end(ev run.Event) {
	mark := "■"
	if ev.End.ExitCode() == run.ExitComplete {
		mark = "✓"
	}
	said := ev.Proof.Sentence(ev.End)
	detail := ""
	if ev.Text != "" {
		detail = ": " + ev.Text
	}
	l.line("%s %s%s (%s, %s%s)", mark, said, detail, count(ev.Iterations, "iteration"), l.elapsed(), cost(ev.CostUSD))
}

// line prints a lasting line above the rewritten one.
func (l *live) line(format string, args ...any) {
	l.clear()
	fmt.Fprintln(l.w, run.PrintableLine(l.mask.Mask(fmt.Sprintf(format, args...))))
}

// redraw shows what goes on right now; elsewhere than on a terminal it is not
// worth a line.
func (l *live) redraw(what string) {
	if !l.tty {
		return
	}
	l.doing = what
	at := "planning"
	if l.ev.TaskID != "" {
		at = fmt.Sprintf("task %d of %d", min(l.ev.Done+1, l.ev.Total), l.ev.Total)
	}
	s := fmt.Sprintf("  [%s] iteration %d · %s%s · %s %s", at, l.ev.Iteration, l.elapsed(), cost(l.ev.CostUSD),
		l.ev.TaskID, what)
	runes := []rune(run.PrintableLine(l.mask.Mask(s)))
	if most := l.width() - 1; len(runes) > most {
		runes = append(runes[:most-1], '…')
	}
	l.clear()
	l.status = string(runes)
	fmt.Fprint(l.w, l.status)
}

func (l *live) clear() {
	if l.status != "" {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.status = ""
	}
}

// close takes the rewritten line away and ends the drawing. It may be called
// twice.
func (l *live) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
}

func (l *live) elapsed() string {
	return l.now().Sub(l.started).Round(100 * time.Millisecond).String()
}

func cost(usd float64) string {
	if usd == 0 {
		return ""
	}
	return fmt.Sprintf(", $%.2f", usd)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
