package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/org/ralph-action/internal/run"
)

// Steering is what keys ask of the run. Its methods return at once.
type Steering interface {
	// Pause keeps the run from its next call, or no longer.
	Pause(yes bool)
	// StopAfterCall ends the run before its next call.
	StopAfterCall()
	// Interrupt is Ctrl-C.
	Interrupt()
}

// The messages that a Model takes besides keys and sizes. Line is a line of the plain
// output, Tick the time.
type (
	// Event is one of the run, with what it left out filled in.
	Event run.Event
	// Line is a lasting line of the plain output.
	Line string
	// Tick tells the time.
	Tick time.Time
)

// Options are how a run is shown.
type Options struct {
	Steering Steering
	// Clean takes out of a text what does something to a terminal; it may be called at
	// any time.
	Clean func(string) string
	// Colour: lines may have one.
	Colour bool
	Now    time.Time
}

// Model is what is on the screen.
type Model struct {
	opts          Options
	width, height int
	now, started  time.Time

	ev    run.Event
	tasks []run.Task
	log   pane

	// doing is what goes on, since and until when.
	doing        string
	since, until time.Time
	// agent is the role of the call at work, "" for none; said is when it was last heard.
	agent run.Role
	said  time.Time
	used  int64 // tokens of the call
	check string

	paused, stopping, over bool

	// asks: the last line asks whether the run is to stop.
	asks bool
	told string // what came of the last key
}

// New is the screen before anything has happened.
func New(o Options) *Model {
	m := &Model{
		opts: o, width: 80, height: 24, now: o.Now, started: o.Now, since: o.Now, doing: "starting",
	}
	m.log.fit(m.room())
	return m
}

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
		m.log.fit(m.room())
	case Tick:
		m.now = time.Time(msg)
	case Line:
		m.log.add(string(msg))
	case Event:
		m.event(run.Event(msg))
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// event takes in what happened in the run.
func (m *Model) event(ev run.Event) {
	m.ev = ev
	if ev.Time.After(m.now) {
		m.now = ev.Time
	}
	if ev.Tasks != nil {
		m.tasks = ev.Tasks
	}
	switch ev.Kind { //nolint:exhaustive // the others change nothing of what goes on
	case run.EventAgentStarted:
		m.agent, m.said, m.used, m.check = ev.Role, m.now, 0, ""
		m.begin("waiting for the model")
	case run.EventAgentActivity:
		m.said, m.used = m.now, ev.Usage.Tokens()
		m.doing = m.opts.Clean(ev.Text)
		m.log.add("      " + m.doing)
	case run.EventAgentFinished:
		m.agent = ""
		m.begin("looking at what changed")
	case run.EventGateStarted:
		m.agent, m.check = "", m.opts.Clean(ev.Gate)
		m.begin("running " + m.check)
	case run.EventGate:
		m.check = ""
		m.begin("")
	case run.EventWaiting:
		m.begin(m.opts.Clean(ev.Text))
		m.until = ev.Until
	case run.EventRunStarted, run.EventIteration:
		m.begin("preparing")
	case run.EventRunEnded:
		m.over, m.agent, m.check = true, "", ""
		m.begin("ended: " + ev.End.Sentence())
	}
}

func (m *Model) begin(what string) { m.doing, m.since, m.until = what, m.now, time.Time{} }

// mark stands before a task for its status. All are ASCII, for every locale.
func mark(s run.TaskStatus) string {
	switch s {
	case run.TaskDone:
		return "[x]"
	case run.TaskBlocked:
		return "[!]"
	case run.TaskSkipped:
		return "[-]"
	case run.TaskInProgress:
		return "[>]"
	case run.TaskInReview:
		return "[?]"
	case run.TaskOpen:
	}
	return "[ ]"
}

// list is as many tasks as there are rows, with the one at work in sight.
func (m *Model) list(height int) []string {
	from := 0
	if at := m.current(); at >= 0 {
		from = min(max(at-height/2, 0), max(len(m.tasks)-height, 0))
	}
	var lines []string
	for _, t := range m.tasks[from:min(from+height, len(m.tasks))] {
		lines = append(lines, cut(mark(t.Status)+" "+m.opts.Clean(t.ID+" "+t.Title), m.room()))
	}
	return lines
}

// current is the index of the task at work, -1 for none.
func (m *Model) current() int {
	return slices.IndexFunc(m.tasks, func(t run.Task) bool {
		return t.Status == run.TaskInProgress || t.Status == run.TaskInReview
	})
}

// key acts on a key.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	if k.String() == "ctrl+c" {
		m.told = "stopping; once more ends at once"
		m.opts.Steering.Interrupt()
		return nil
	}
	if m.asks {
		m.asks, m.told = false, "nothing was changed"
		if k.String() == "y" {
			m.stopping = true
			m.opts.Steering.StopAfterCall()
			m.told = "the run stops after this call"
		}
		return nil
	}
	m.told = ""
	_, _, height := m.split()
	page := max(height-1, 1)
	switch k.String() {
	case "up", "k":
		m.log.scroll(1, height)
	case "down", "j":
		m.log.scroll(-1, height)
	case "pgup", "b":
		m.log.scroll(page, height)
	case "pgdown", "space", "f":
		m.log.scroll(-page, height)
	case "home", "g":
		m.log.scroll(1<<20, height)
	case "end", "G":
		m.log.scroll(-1<<20, height)
	case "p":
		if m.over {
			break
		}
		m.paused = !m.paused
		m.opts.Steering.Pause(m.paused)
		m.told = "the run goes on"
		if m.paused {
			m.told = "paused before the next call"
		}
	case "x":
		m.asks = !m.over
	case "q":
		return tea.Quit
	}
	return nil
}

// room is how many columns a line may take: a full one would wrap on some terminals.
func (m *Model) room() int { return max(m.width-1, 1) }

// split says how many rows are for what goes on, the tasks and the log.
func (m *Model) split() (now, tasks, log int) {
	// The first and the last line, and the two titles.
	left := max(m.height-4, 0)
	now = min(2, left)
	tasks = min(max(len(m.tasks), 1), max((left-now)/3, 1), max(left-now, 0))
	return now, tasks, max(left-now-tasks, 0)
}

// The looks of lines (ECMA-48, SGR); those without a colour stay under NO_COLOR.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (m *Model) paint(look, line string) string {
	if look == "" || look != bold && !m.opts.Colour {
		return line
	}
	return "\x1b[" + look + "m" + line + "\x1b[0m"
}

// look is how a line is shown that begins with one of the marks.
func look(line string) string {
	line = strings.TrimLeft(line, " ")
	for _, l := range []struct{ mark, look string }{
		{"[x]", green}, {"[!]", red}, {"[>]", bold}, {"[?]", bold}, {"✓", green}, {"✗", red}, {"!", yellow}, {"→", yellow},
		{"iteration ", bold},
	} {
		if strings.HasPrefix(line, l.mark) {
			return l.look
		}
	}
	return ""
}

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(m.Screen())
	v.AltScreen = true
	return v
}

// Screen is the text of the screen: as many lines as it has rows, none wider than it.
func (m *Model) Screen() string {
	now, tasks, log := m.split()
	rows := []string{m.paint(bold, cut(m.head(), m.room()))}
	rows = append(rows, m.title("Tasks", fmt.Sprintf("%d of %d done", m.ev.Done, m.ev.Total)))
	rows = append(rows, m.rows(m.list(tasks), tasks)...)
	for _, line := range m.work()[:now] {
		rows = append(rows, cut(line, m.room()))
	}
	where := ""
	if m.log.up > 0 {
		where = fmt.Sprintf("%d more below", m.log.up)
	}
	rows = append(rows, m.title("Log", where))
	rows = append(rows, m.rows(m.log.shown(log), log)...)
	rows = append(rows, cut(m.foot(), m.room()))
	if len(rows) > m.height { // a screen of three lines has room for what goes on only
		rows = rows[len(rows)-m.height:]
	}
	return strings.Join(rows, "\n")
}

// rows are these lines in their looks, filled up to that many.
func (m *Model) rows(lines []string, height int) []string {
	out := make([]string, height)
	for i, line := range lines {
		out[i] = m.paint(look(line), line)
	}
	return out
}

func (m *Model) title(name, more string) string {
	text := "-- " + name
	if more != "" {
		text += ": " + more
	}
	return cut(text+" "+strings.Repeat("-", max(m.room()-width(text)-1, 0)), m.room())
}

// head says where the run stands, what counts first.
func (m *Model) head() string {
	var parts []string
	switch {
	case m.over:
		parts = append(parts, "ENDED")
	case m.stopping:
		parts = append(parts, "STOPPING")
	case m.paused:
		parts = append(parts, "PAUSED")
	}
	if m.ev.Iteration > 0 {
		parts = append(parts, fmt.Sprintf("iteration %d", m.ev.Iteration))
	}
	if at := m.current(); at >= 0 {
		parts = append(parts, m.opts.Clean(m.tasks[at].ID))
	}
	parts = append(parts, fmt.Sprintf("$%.2f", m.ev.CostUSD), run.Tokens(m.ev.Tokens+m.used), span(m.now.Sub(m.started)))
	if m.ev.Subject != "" {
		parts = append(parts, m.opts.Clean(m.ev.Subject))
	}
	return strings.Join(parts, " | ")
}

// work says in two lines what goes on: what is at work, and for how long.
func (m *Model) work() []string {
	took := span(m.now.Sub(m.since))
	switch {
	case !m.until.IsZero():
		return []string{"wait: " + m.doing, "  until " + m.until.Local().Format("15:04:05")}
	case m.agent != "":
		return []string{
			"agent: " + m.doing,
			fmt.Sprintf("  %s, %s, silent for %s, %s", m.agent, took, span(m.now.Sub(m.said)), run.Tokens(m.used)),
		}
	case m.check != "":
		return []string{"check: " + m.check, "  " + took}
	case m.over:
		return []string{m.doing, ""}
	}
	return []string{"now: " + m.doing, "  " + took}
}

// foot is the last line: what is asked, what came of a key, or the keys.
func (m *Model) foot() string {
	switch {
	case m.asks:
		return "Stop the run after this call? y/n"
	case m.told != "":
		return m.told
	}
	return "p pause  x stop after call  q plain output"
}

// span is a time in whole seconds.
func span(d time.Duration) string { return max(d, 0).Truncate(time.Second).String() }
