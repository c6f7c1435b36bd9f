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
	// Skip leaves out the task of that id.
	Skip(task string)
	// Note tells the text to the next call.
	Note(text string)
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

// ask is what the last line of the screen asks for.
type ask int

const (
	askNothing ask = iota
	askNote
	askSearch
	askSkip
	askStop
)

// Model is what is on the screen.
type Model struct {
	opts          Options
	width, height int
	now, started  time.Time

	ev    run.Event
	tasks []run.Task
	log   pane
	list  pane
	// onTasks: keys scroll and search the tasks, not the log.
	onTasks bool

	// doing is what goes on, since and until when.
	doing        string
	since, until time.Time
	// agent is the role of the call at work, "" for none; said is when it was last heard.
	agent run.Role
	said  time.Time
	used  int64 // tokens of the call
	check string

	paused, stopping, over bool

	asks  ask
	skip  string // the task that is asked about
	typed []rune
	query string
	told  string // what came of the last key
}

// New is the screen before anything has happened.
func New(o Options) *Model {
	m := &Model{
		opts: o, width: 80, height: 24, now: o.Now, started: o.Now, since: o.Now, log: newPane(), list: newPane(),
		doing: "starting",
	}
	m.log.fit(m.room())
	m.list.fit(m.room())
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
		m.setTasks(m.tasks)
	case Tick:
		m.now = time.Time(msg)
	case Line:
		m.log.add(string(msg))
	case Event:
		m.event(run.Event(msg))
	case tea.PasteMsg:
		m.write(msg.Content)
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
		m.setTasks(ev.Tasks)
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

// setTasks shows the tasks as they stand, with the one at work in sight.
func (m *Model) setTasks(tasks []run.Task) {
	m.tasks = tasks
	m.list.lines = m.list.lines[:0]
	at := -1
	for i, t := range tasks {
		if t.Status == run.TaskInProgress || t.Status == run.TaskInReview {
			at = i
		}
		m.list.lines = append(m.list.lines, cut(mark(t.Status)+" "+m.opts.Clean(t.ID+" "+t.Title), m.room()))
	}
	up := m.list.up
	m.list.fit(m.room())
	if m.list.up = up; !m.onTasks && at >= 0 {
		_, height, _ := m.split()
		m.list.up = min(max(len(tasks)-at-1-height/2, 0), max(len(tasks)-height, 0))
	}
}

// current is the task at work, "" for none.
func (m *Model) current() string {
	i := slices.IndexFunc(m.tasks, func(t run.Task) bool {
		return t.Status == run.TaskInProgress || t.Status == run.TaskInReview
	})
	if i < 0 {
		return ""
	}
	return m.tasks[i].ID
}

// key acts on a key.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	if k.String() == "ctrl+c" {
		m.told = "stopping; once more ends at once"
		m.opts.Steering.Interrupt()
		return nil
	}
	if m.asks != askNothing {
		m.answer(k)
		return nil
	}
	m.told = ""
	page := max(m.height/3, 1)
	switch k.String() {
	case "up", "k":
		m.scroll(1)
	case "down", "j":
		m.scroll(-1)
	case "pgup", "b":
		m.scroll(page)
	case "pgdown", "space", "f":
		m.scroll(-page)
	case "home", "g":
		m.scroll(1 << 20)
	case "end", "G":
		m.scroll(-1 << 20)
	case "tab":
		m.onTasks = !m.onTasks
	case "/":
		m.asks, m.typed = askSearch, nil
	case "n":
		m.search(true)
	case "N":
		m.search(false)
	case "q":
		return tea.Quit
	default:
		if !m.over {
			m.steer(k.String())
		}
	}
	return nil
}

// steer acts on the keys that ask something of the run.
func (m *Model) steer(key string) {
	switch key {
	case "p":
		m.paused = !m.paused
		m.opts.Steering.Pause(m.paused)
		m.told = "the run goes on"
		if m.paused {
			m.told = "paused before the next call"
		}
	case "x":
		m.asks = askStop
	case "s":
		if m.skip = m.current(); m.skip == "" {
			m.told = "no task is at work"
		} else {
			m.asks = askSkip
		}
	case "w":
		m.asks, m.typed = askNote, nil
	}
}

// maxTyped bounds what is typed, in characters.
const maxTyped = 500

// answer takes a key for what the last line asks.
func (m *Model) answer(k tea.KeyPressMsg) {
	asked := m.asks
	switch {
	case k.String() == "esc":
		m.asks = askNothing
	case asked == askSkip || asked == askStop:
		m.asks = askNothing
		switch {
		case k.String() != "y":
			m.told = "nothing was changed"
		case asked == askSkip:
			m.opts.Steering.Skip(m.skip)
			m.told = "skipping " + m.skip
		default:
			m.stopping = true
			m.opts.Steering.StopAfterCall()
			m.told = "the run stops after this call"
		}
	case k.String() == "enter":
		m.asks = askNothing
		text := strings.TrimSpace(string(m.typed))
		switch {
		case asked == askSearch:
			m.query = text
			m.search(true)
		case text != "":
			m.opts.Steering.Note(text)
			m.told = "noted for the next call"
		}
	case k.String() == "backspace":
		m.typed = m.typed[:max(len(m.typed)-1, 0)]
	default:
		m.write(k.Text)
	}
}

// write adds to what is typed.
func (m *Model) write(text string) {
	if m.asks != askNote && m.asks != askSearch {
		return
	}
	m.typed = append(m.typed, []rune(m.opts.Clean(text))...)
	m.typed = m.typed[:min(len(m.typed), maxTyped)]
}

// pane is the one that keys scroll, and how many rows of it are shown.
func (m *Model) pane() (*pane, int) {
	_, tasks, log := m.split()
	if m.onTasks {
		return &m.list, tasks
	}
	return &m.log, log
}

func (m *Model) scroll(rows int) {
	p, height := m.pane()
	p.scroll(rows, height)
}

func (m *Model) search(upwards bool) {
	p, height := m.pane()
	if !p.search(m.query, upwards, height) {
		m.told = "not found: " + m.query
	}
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
	bold    = "1"
	reverse = "7"
	red     = "31"
	green   = "32"
	yellow  = "33"
)

func (m *Model) paint(look, line string) string {
	if look == "" || look != bold && look != reverse && !m.opts.Colour {
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
	rows = append(rows, m.title("Tasks", fmt.Sprintf("%d of %d done", m.ev.Done, m.ev.Total), m.onTasks))
	rows = append(rows, m.rows(&m.list, tasks)...)
	for _, line := range m.work()[:now] {
		rows = append(rows, cut(line, m.room()))
	}
	where := ""
	if m.log.up > 0 {
		where = fmt.Sprintf("%d more below", m.log.up)
	}
	rows = append(rows, m.title("Log", where, !m.onTasks))
	rows = append(rows, m.rows(&m.log, log)...)
	rows = append(rows, cut(m.foot(), m.room()))
	if len(rows) > m.height { // a screen of three lines has room for what goes on only
		rows = rows[len(rows)-m.height:]
	}
	return strings.Join(rows, "\n")
}

// rows are those of a pane that are shown, filled up to that many.
func (m *Model) rows(p *pane, height int) []string {
	shown, match := p.shown(height)
	out := make([]string, height)
	for i, row := range shown {
		style := look(row)
		if i == match {
			style = reverse
		}
		out[i] = m.paint(style, row)
	}
	return out
}

func (m *Model) title(name, more string, here bool) string {
	text := "-- " + name
	if here {
		text = "== " + name
	}
	if more != "" {
		text += ": " + more
	}
	rule := strings.Repeat(text[:1], max(m.room()-width(text)-1, 0))
	return cut(text+" "+rule, m.room())
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
	if id := m.current(); id != "" {
		parts = append(parts, m.opts.Clean(id))
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
	switch m.asks {
	case askNote:
		return "Note: " + tail(string(m.typed), m.room()-8) + "_"
	case askSearch:
		return "/" + tail(string(m.typed), m.room()-3) + "_"
	case askSkip:
		return "Skip " + m.skip + " and drop its work? y/n"
	case askStop:
		return "Stop the run after this call? y/n"
	case askNothing:
	}
	if m.told != "" {
		return m.told
	}
	if m.room() < 76 {
		return "p pause x stop s skip w note / find q"
	}
	return "p pause  x stop after call  s skip  w note  / n N find  tab pane  q plain"
}

// tail is the end of text that fits that many columns.
func tail(text string, columns int) string {
	for width(text) > max(columns, 0) {
		r := []rune(text)
		text = string(r[1:])
	}
	return text
}

// span is a time in whole seconds.
func span(d time.Duration) string { return max(d, 0).Truncate(time.Second).String() }
