package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"github.com/mattn/go-runewidth"

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

// maxLines bounds what is kept to scroll through, and maxLine the columns of one line.
const (
	maxLines = 2000
	maxLine  = 1000
)

// Model is what is on the screen.
type Model struct {
	opts          Options
	width, height int
	now           time.Time
	run           run.Status
	log           viewport.Model
	lines         []string

	paused, stopping bool
	// asks: the last line asks whether the run is to stop.
	asks bool
	told string // what came of the last key
}

// New is the screen before anything has happened.
func New(o Options) *Model {
	m := &Model{opts: o, width: 80, height: 24, now: o.Now, log: viewport.New()}
	m.run = run.Status{Started: o.Now, Since: o.Now, Doing: "starting"}
	m.log.SoftWrap = true
	m.fit()
	return m
}

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
	case Tick:
		m.now = time.Time(msg)
	case Line:
		m.add(string(msg))
	case Event:
		if msg.Time.After(m.now) {
			m.now = msg.Time
		}
		msg.Text, msg.Gate = m.opts.Clean(msg.Text), m.opts.Clean(msg.Gate)
		m.run.Apply(run.Event(msg), m.now)
		if msg.Kind == run.EventAgentActivity {
			m.add("      " + msg.Text)
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	m.fit()
	return m, nil
}

// add appends a line to the log.
func (m *Model) add(line string) {
	m.lines = append(m.lines, Paint(runewidth.Truncate(line, maxLine, "…"), m.opts.Colour))
	m.lines = m.lines[max(len(m.lines)-maxLines, 0):]
	m.show(func() { m.log.SetContentLines(m.lines) })
}

// fit gives the log its room.
func (m *Model) fit() {
	_, _, height := m.split()
	if m.log.Width() != m.room() || m.log.Height() != height {
		m.show(func() {
			m.log.SetWidth(m.room())
			m.log.SetHeight(height)
		})
	}
}

// show changes the log. What is shown stays where a person has scrolled to, else it follows the end.
func (m *Model) show(change func()) {
	follows := m.log.AtBottom()
	change()
	if follows {
		m.log.GotoBottom()
	}
}

// Mark stands before a task for its status.
func Mark(s run.TaskStatus) string {
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
		from = min(max(at-height/2, 0), max(len(m.run.Tasks)-height, 0))
	}
	var lines []string
	for _, t := range m.run.Tasks[from:min(from+height, len(m.run.Tasks))] {
		lines = append(lines, cut(Mark(t.Status)+" "+m.opts.Clean(t.ID+" "+t.Title), m.room()))
	}
	return lines
}

// current is the index of the task at work, -1 for none.
func (m *Model) current() int {
	return slices.IndexFunc(m.run.Tasks, func(t run.Task) bool {
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
	switch k.String() {
	case "home", "g":
		m.log.GotoTop()
	case "end", "G":
		m.log.GotoBottom()
	case "p":
		if m.run.Ended {
			break
		}
		m.paused = !m.paused
		m.opts.Steering.Pause(m.paused)
		m.told = "the run goes on"
		if m.paused {
			m.told = "paused before the next call"
		}
	case "x":
		m.asks = !m.run.Ended
	case "q":
		return tea.Quit
	default:
		m.log, _ = m.log.Update(k)
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
	tasks = min(max(len(m.run.Tasks), 1), max((left-now)/3, 1), max(left-now, 0))
	return now, tasks, max(left-now-tasks, 0)
}

// The looks of lines (ECMA-48, SGR); those without a colour stay under NO_COLOR.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// Paint gives a clean line the look of the mark that it begins with. Without colour it has none.
func Paint(line string, colour bool) string {
	text := strings.TrimLeft(line, " ")
	for _, l := range []struct{ mark, look string }{
		{"[x]", green}, {"[!]", red}, {"[>]", bold}, {"[?]", bold}, {"✓", green}, {"✗", red}, {"!", yellow}, {"→", yellow},
		{"■", yellow}, {"▶", bold}, {"iteration ", bold},
	} {
		if strings.HasPrefix(text, l.mark) && colour {
			return "\x1b[" + l.look + "m" + line + "\x1b[0m"
		}
	}
	return line
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
	rows := []string{"\x1b[" + bold + "m" + cut(m.head(), m.room()) + "\x1b[0m"}
	rows = append(rows, m.title("Tasks", fmt.Sprintf("%d of %d done", m.run.Done, m.run.Total)))
	for _, line := range m.list(tasks) {
		rows = append(rows, Paint(line, m.opts.Colour))
	}
	for _, line := range m.work()[:now] {
		rows = append(rows, cut(line, m.room()))
	}
	where := ""
	if !m.log.AtBottom() {
		where = "End shows the newest lines"
	}
	rows = append(rows, m.title("Log", where))
	if log > 0 {
		rows = append(rows, strings.Split(m.log.View(), "\n")...)
	}
	rows = append(rows, cut(m.foot(), m.room()))
	if len(rows) > m.height { // a screen of three lines has room for what goes on only
		rows = rows[len(rows)-m.height:]
	}
	return strings.Join(rows, "\n")
}

func (m *Model) title(name, more string) string {
	text := "-- " + name
	if more != "" {
		text += ": " + more
	}
	return cut(text+" "+strings.Repeat("-", max(m.room()-runewidth.StringWidth(text)-1, 0)), m.room())
}

// head says where the run stands, what counts first.
func (m *Model) head() string {
	var parts []string
	switch {
	case m.run.Ended:
		parts = append(parts, "ENDED")
	case m.stopping:
		parts = append(parts, "STOPPING")
	case m.paused:
		parts = append(parts, "PAUSED")
	}
	if m.run.Iteration > 0 {
		parts = append(parts, fmt.Sprintf("iteration %d", m.run.Iteration))
	}
	if at := m.current(); at >= 0 {
		parts = append(parts, m.opts.Clean(m.run.Tasks[at].ID))
	}
	parts = append(parts, fmt.Sprintf("$%.2f", m.run.CostUSD), run.Tokens(m.run.Tokens+m.run.Used), span(m.now.Sub(m.run.Started)))
	if m.run.Subject != "" {
		parts = append(parts, m.opts.Clean(m.run.Subject))
	}
	return strings.Join(parts, " | ")
}

// work says in two lines what goes on: what is at work, and for how long.
func (m *Model) work() []string {
	s, took := m.run, span(m.now.Sub(m.run.Since))
	switch {
	case s.Ended:
		return []string{"ended: " + s.End.Sentence(), ""}
	case !s.Until.IsZero():
		return []string{"wait: " + s.Doing, "  until " + s.Until.Local().Format("15:04:05")}
	case s.Agent != "":
		return []string{
			"agent: " + s.Doing,
			fmt.Sprintf("  %s, silent for %s, %s", s.Agent, span(m.now.Sub(s.Heard)), run.Tokens(s.Used)),
		}
	case s.Check != "":
		return []string{"check: " + s.Check, "  " + took}
	}
	return []string{"now: " + s.Doing, "  " + took}
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

// cut is the beginning of text that fits that many columns.
func cut(text string, columns int) string { return runewidth.Truncate(text, columns, "~") }
