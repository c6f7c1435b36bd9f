package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"

	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
	"github.com/org/ralph-action/internal/tui"
)

// live tells a person how a run goes: lasting lines for what matters, and what goes
// on right now. On a terminal that is one line, rewritten in place; elsewhere it is a
// line of its own once nothing has been said for a minute.
type live struct {
	mu     sync.Mutex
	w      io.Writer
	screen screen
	now    func() time.Time
	mask   *redact.Masker
	stop   chan struct{}
	// full is a full screen that shows the lines and the events instead, nil for none;
	// kept are the lines it was given.
	full *tui.UI
	kept []string

	status run.Status
	said   time.Time // the last lasting line
	drawn  bool      // the rewritten line stands
}

// show has a full screen take over.
func (l *live) show(full *tui.UI) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	l.full = full
}

// plain goes on without the full screen, and prints what was said on it.
func (l *live) plain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = nil
	for _, line := range l.kept {
		fmt.Fprintln(l.w, tui.Paint(line, l.screen.colour))
	}
	l.kept = nil
}

// beatEvery is the pause between two looks at the clock, and sayEvery the longest
// silence where no line can be rewritten.
const (
	beatEvery = time.Second
	sayEvery  = time.Minute
)

// newLive writes to w what fits there.
func newLive(w io.Writer, now func() time.Time, mask *redact.Masker) *live {
	l := &live{w: w, screen: screenOf(w, os.Getenv), now: now, mask: mask, stop: make(chan struct{})}
	l.status.Started, l.said = now(), now()
	go l.tick()
	return l
}

// tick keeps the clock going while nothing happens.
func (l *live) tick() {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.beat()
		case <-l.stop:
			return
		}
	}
}

// beat shows what goes on right now, as of now.
func (l *live) beat() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full != nil {
		return // it has a clock of its own
	}
	if l.screen.inPlace {
		l.draw()
	} else if l.status.Doing != "" && l.now().Sub(l.said) >= sayEvery {
		l.say(l.current())
	}
}

// handle takes an event of the run. It may be called from any goroutine.
func (l *live) handle(ev run.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Apply(ev, l.now())
	l.tell(l.status.Event)
	if l.full != nil {
		l.full.Handle(l.status.Event)
	} else if l.screen.inPlace {
		l.draw()
	}
}

// tell prints the lasting lines of an event.
func (l *live) tell(ev run.Event) {
	switch ev.Kind {
	case run.EventRunStarted:
		if ev.Total == 0 {
			l.print("▶ %s: planning", ev.Text)
		} else {
			l.print("▶ %s: %d of %s done", ev.Text, ev.Done, strs.Count(ev.Total, "task"))
		}
	case run.EventPlanned:
		if ev.Text != "" {
			l.print("    %s", ev.Text)
		} else {
			l.print("  planned %s", strs.Count(ev.Total, "task"))
		}
	case run.EventIteration:
		if ev.Role == run.RoleReviewer {
			l.print("  iteration %d: review of the whole change", ev.Iteration)
		} else {
			l.print("  iteration %d: %s %s", ev.Iteration, ev.TaskID, ev.TaskTitle)
		}
	case run.EventAgentStarted:
		if ev.Role == run.RoleReviewer && ev.TaskID != "" {
			l.print("    another agent call verifies that it is done")
		}
	case run.EventAgentActivity, run.EventAgentFinished, run.EventGateStarted: // in the line of what goes on
	case run.EventWaiting:
		l.print("    … %s", waiting(ev, l.now()))
	case run.EventTaskDone:
		l.print("    ✓ %s (%d of %d, %s%s)", ev.TaskID, ev.Done, ev.Total, l.elapsed(), cost(ev.CostUSD))
	case run.EventRunEnded:
		l.end(ev)
	case run.EventTaskGoesOn:
		l.print("    … %s", ev.Text)
	case run.EventGate, run.EventGateNote:
		l.print("    %s", ev.Text)
	case run.EventVerdict:
		l.print("  → %s", ev.Text)
	case run.EventTrouble:
		l.print("    ! %s", ev.Text)
	case run.EventAttemptFailed:
		l.failed(ev)
	case run.EventTaskBlocked:
		l.print("    ✗ %s is blocked: %s", ev.TaskID, ev.Text)
	case run.EventCommitted:
		if ev.Text == "" {
			l.print("    left uncommitted in the checkout")
		} else {
			l.print("    commit %.10s", ev.Text)
		}
	case run.EventPersonNotified, run.EventEdited:
		l.print("  %s", ev.Text)
	}
}

func (l *live) end(ev run.Event) {
	mark := "■"
	if ev.End.Complete() || ev.End == run.EndPlanned || ev.End == run.EndSingleIteration && l.status.Landed {
		mark = "✓"
	}
	l.print("%s %s (%s, %s%s)", mark, endWords(ev), calls(ev), l.elapsed(), cost(ev.CostUSD))
}

// waiting says how long a wait still takes, and when it ends on this machine's clock.
func waiting(ev run.Event, now time.Time) string {
	left := ev.Until.Sub(now).Round(time.Second)
	if left <= 0 {
		return ev.Text + "; retrying"
	}
	text := fmt.Sprintf("%.0f s", left.Seconds())
	if left > 2*time.Minute {
		text = strings.TrimSuffix(left.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%s; retrying in %s (%s)", ev.Text, text, ev.Until.Local().Format("15:04"))
}

// calls says what a run took: calls that write the plan are no iterations.
func calls(ev run.Event) string {
	if ev.Plannings == 0 {
		return strs.Count(ev.Iterations, "iteration")
	}
	planning := strs.Count(ev.Plannings, "planning call")
	if ev.Iterations == 0 {
		return planning
	}
	return planning + ", " + strs.Count(ev.Iterations, "iteration")
}

// line prints a lasting line.
func (l *live) line(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print(format, args...)
	if l.screen.inPlace {
		l.draw()
	}
}

func (l *live) print(format string, args ...any) { l.say(l.clean(fmt.Sprintf(format, args...))) }

// say prints a lasting line of clean text in the place of the rewritten one.
func (l *live) say(clean string) {
	l.clear()
	l.said = l.now()
	if l.full != nil {
		l.kept = append(l.kept, clean)
		l.full.Line(clean)
		return
	}
	fmt.Fprintln(l.w, tui.Paint(clean, l.screen.colour))
}

// clean is text on one line that does nothing to a terminal.
func (l *live) clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return -1 // has no width, and some turn around what follows
		}
		return r
	}, run.PrintableLine(l.mask.Mask(text)))
	return text
}

// current is what goes on right now, on one line of clean text that fits the screen.
func (l *live) current() string {
	left := l.clean("  " + l.place() + " · ")
	width := l.screen.width() - 1 // a full line would wrap on some terminals
	right := l.clean(l.figures())
	if width-runewidth.StringWidth(left)-runewidth.StringWidth(right) < minWidth/2 {
		right = ""
	}
	room := width - runewidth.StringWidth(left) - runewidth.StringWidth(right)
	return cut(left+cut(l.clean(l.words()), room)+right, width)
}

// place says where in the run it goes on.
func (l *live) place() string {
	switch s := l.status; {
	case s.Iteration == 0 && s.Total == 0:
		return "planning"
	case s.Iteration == 0:
		return "start"
	case s.TaskID == "":
		return fmt.Sprintf("iteration %d", s.Iteration)
	default:
		return fmt.Sprintf("iteration %d · %s", s.Iteration, s.TaskID)
	}
}

// words say what goes on; a wait is counted down.
func (l *live) words() string {
	if l.status.Until.IsZero() {
		return l.status.Doing
	}
	return waiting(run.Event{Text: l.status.Doing, Until: l.status.Until}, l.now())
}

// figures are the time of the step and what the run has used so far.
func (l *live) figures() string {
	s := ""
	if l.status.Until.IsZero() {
		s = " · " + l.now().Sub(l.status.Since).Round(time.Second).String()
	}
	if n := l.status.Tokens + l.status.Used; n > 0 {
		s += " · " + run.Tokens(n)
	}
	if l.status.CostUSD > 0 {
		s += fmt.Sprintf(" · $%.2f", l.status.CostUSD)
	}
	return s
}

// draw rewrites the line of what goes on.
func (l *live) draw() {
	l.clear()
	if l.status.Doing == "" || l.full != nil {
		return
	}
	line := l.current()
	if l.screen.colour {
		line = "\x1b[2m" + line + "\x1b[0m"
	}
	fmt.Fprint(l.w, line)
	l.drawn = true
}

func (l *live) clear() {
	if l.drawn {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.drawn = false
	}
}

// close takes the rewritten line away and ends the drawing. It may be called
// twice.
func (l *live) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Doing = ""
	l.clear()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
}

func (l *live) elapsed() string {
	return l.now().Sub(l.status.Started).Round(100 * time.Millisecond).String()
}

func cost(usd float64) string {
	if usd == 0 {
		return ""
	}
	return fmt.Sprintf(", $%.2f", usd)
}
