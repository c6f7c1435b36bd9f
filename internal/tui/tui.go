package tui

import (
	"io"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/org/ralph-action/internal/run"
)

// UI is a Model on a terminal. Its methods may be called from any goroutine.
type UI struct {
	program *tea.Program
	over    chan struct{}
	quit    sync.Once
	err     error
}

// Open makes a screen of a terminal, which Start takes over.
func Open(o Options, in, out *os.File, env []string) *UI {
	u := &UI{over: make(chan struct{})}
	u.program = tea.NewProgram(New(o), tea.WithInput(io.Reader(in)), tea.WithOutput(out), tea.WithEnvironment(env),
		tea.WithoutSignalHandler())
	return u
}

// Start takes the terminal over. left is called once it is free again: after Close, or
// where the person or a failure ends the screen before.
func (u *UI) Start(left func(error)) {
	go func() {
		_, u.err = u.program.Run()
		left(u.err)
		close(u.over)
	}()
	go u.tick()
}

// tick keeps the clock of the screen going.
func (u *UI) tick() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			u.program.Send(Tick(now))
		case <-u.over:
			return
		}
	}
}

// Handle shows an event of the run.
func (u *UI) Handle(ev run.Event) { u.program.Send(Event(ev)) }

// Line shows a lasting line of clean text.
func (u *UI) Line(text string) { u.program.Send(Line(text)) }

// Close gives the terminal back. It may be called twice.
func (u *UI) Close() {
	u.quit.Do(u.program.Quit)
	<-u.over
}
