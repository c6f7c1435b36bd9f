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
	full fullScreen
	kept []string

	started time.Time
	said    time.Time // the last lasting line
	drawn   bool      // the rewritten line stands
	doing   doing
	ev      run.Event // the last one, with what it left out
	// landed: the last iteration has done its task.
	landed bool
}

// fullScreen shows a run in a way of its own.
type fullScreen interface {
	Handle(ev run.Event)
	Line(text string)
}

// show has a full screen take over.
func (l *live) show(full fullScreen) {
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
		fmt.Fprintln(l.w, l.paint(line))
	}
	l.kept = nil
}

// doing is what goes on right now.
type doing struct {
	// what says it in a few words; "" where nothing does.
	what  string
	since time.Time
	// until is when a wait is over.
	until time.Time
	// tokens are what the agent call at hand has used.
	tokens int64
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
	l.started, l.said = now(), now()
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
	} else if l.doing.what != "" && l.now().Sub(l.said) >= sayEvery {
		l.say(l.status())
	}
}

// handle takes an event of the run. It may be called from any goroutine.
func (l *live) handle(ev run.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ev = l.complete(ev)
	l.ev = ev
	l.tell(ev)
	if l.full != nil {
		l.full.Handle(ev)
	} else if l.screen.inPlace {
		l.draw()
	}
}

// complete fills in what an event leaves out because an earlier one has said it.
func (l *live) complete(ev run.Event) run.Event {
	old := l.ev
	if ev.Total == 0 {
		ev.Done, ev.Total = old.Done, old.Total
	}
	if ev.TaskID == "" && ev.Kind != run.EventIteration { // a review of all is about no task
		ev.TaskID, ev.TaskTitle = old.TaskID, old.TaskTitle
	} else if ev.TaskTitle == "" && ev.TaskID == old.TaskID {
		ev.TaskTitle = old.TaskTitle
	}
	ev.Iteration, ev.Iterations = max(ev.Iteration, old.Iteration), max(ev.Iterations, old.Iterations)
	ev.Plannings = max(ev.Plannings, old.Plannings)
	ev.CostUSD, ev.Tokens = max(ev.CostUSD, old.CostUSD), max(ev.Tokens, old.Tokens)
	return ev
}

// tell prints the lasting lines of an event, and notes what goes on from there.
func (l *live) tell(ev run.Event) {
	switch ev.Kind {
	case run.EventRunStarted:
		if ev.Total == 0 {
			l.print("▶ %s: planning", ev.Text)
		} else {
			l.print("▶ %s: %d of %s done", ev.Text, ev.Done, strs.Count(ev.Total, "task"))
		}
		l.begin("preparing")
	case run.EventPlanned:
		if ev.Text != "" {
			l.print("    %s", ev.Text)
		} else {
			l.print("  planned %s", strs.Count(ev.Total, "task"))
		}
		l.landed = true
	case run.EventIteration:
		l.landed = false
		if ev.Role == run.RoleReviewer {
			l.print("  iteration %d: review of the whole change", ev.Iteration)
		} else {
			l.print("  iteration %d: %s %s", ev.Iteration, ev.TaskID, ev.TaskTitle)
		}
		l.begin("preparing")
	case run.EventAgentStarted:
		if ev.Role == run.RoleReviewer && ev.TaskID != "" {
			l.print("    another agent call verifies that it is done")
		}
		l.begin("waiting for the model")
	case run.EventAgentActivity:
		l.begin(ev.Text)
		l.doing.tokens = ev.Usage.Tokens()
	case run.EventAgentFinished:
		l.begin("looking at what changed")
	case run.EventGateStarted:
		l.begin("running " + ev.Gate)
	case run.EventGate:
		l.print("    %s", ev.Text)
		l.begin("")
	case run.EventWaiting:
		l.print("    … %s", waiting(ev, l.now()))
		l.begin(ev.Text)
		l.doing.until = ev.Until
	case run.EventTaskDone:
		l.print("    ✓ %s (%d of %d, %s%s)", ev.TaskID, ev.Done, ev.Total, l.elapsed(), cost(ev.CostUSD))
		l.landed = true
	case run.EventRunEnded:
		l.begin("")
		l.end(ev)
	case run.EventTaskGoesOn, run.EventGateNote, run.EventVerdict, run.EventTrouble, run.EventAttemptFailed,
		run.EventTaskBlocked, run.EventCommitted, run.EventPersonNotified, run.EventEdited:
		l.note(ev)
	}
}

// note prints an event that changes nothing about what goes on.
func (l *live) note(ev run.Event) {
	switch ev.Kind { //nolint:exhaustive // tell has the others
	case run.EventTaskGoesOn:
		l.print("    … %s", ev.Text)
	case run.EventGateNote:
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
	default:
		l.print("  %s", ev.Text)
	}
}

func (l *live) end(ev run.Event) {
	mark := "■"
	if ev.End.Complete() || ev.End == run.EndPlanned || ev.End == run.EndSingleIteration && l.landed {
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

// begin notes what goes on from now on.
func (l *live) begin(what string) { l.doing = doing{what: what, since: l.now()} }

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
	fmt.Fprintln(l.w, l.paint(clean))
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

// status is what goes on right now, on one line of clean text that fits the screen.
func (l *live) status() string {
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
	switch {
	case l.ev.Iteration == 0 && l.ev.Total == 0:
		return "planning"
	case l.ev.Iteration == 0:
		return "start"
	case l.ev.TaskID == "":
		return fmt.Sprintf("iteration %d", l.ev.Iteration)
	}
	return fmt.Sprintf("iteration %d · %s", l.ev.Iteration, l.ev.TaskID)
}

// words say what goes on; a wait is counted down.
func (l *live) words() string {
	if l.doing.until.IsZero() {
		return l.doing.what
	}
	return waiting(run.Event{Text: l.doing.what, Until: l.doing.until}, l.now())
}

// figures are the time of the step and what the run has used so far.
func (l *live) figures() string {
	s := ""
	if l.doing.until.IsZero() {
		s = " · " + l.now().Sub(l.doing.since).Round(time.Second).String()
	}
	if n := l.ev.Tokens + l.doing.tokens; n > 0 {
		s += " · " + run.Tokens(n)
	}
	if l.ev.CostUSD > 0 {
		s += fmt.Sprintf(" · $%.2f", l.ev.CostUSD)
	}
	return s
}

// draw rewrites the line of what goes on.
func (l *live) draw() {
	l.clear()
	if l.doing.what == "" || l.full != nil {
		return
	}
	fmt.Fprint(l.w, l.tint(dim, l.status()))
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
	l.begin("")
	l.clear()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
}

// The colours that lines have (ECMA-48, SGR).
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// paint gives a line the colour of the mark that it begins with.
func (l *live) paint(line string) string {
	for _, p := range []struct{ mark, colour string }{
		{"✓", green}, {"✗", red}, {"!", yellow}, {"→", yellow}, {"■", yellow}, {"▶", bold}, {"iteration ", bold},
	} {
		if strings.HasPrefix(strings.TrimLeft(line, " "), l.clean(p.mark)) {
			return l.tint(p.colour, line)
		}
	}
	return line
}

func (l *live) tint(colour, line string) string {
	if !l.screen.colour {
		return line
	}
	return "\x1b[" + colour + "m" + line + "\x1b[0m"
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
