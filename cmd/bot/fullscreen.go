package main

import (
	"bytes"
	"os"
	"syscall"
	"time"

	"github.com/org/ralph-action/internal/inline"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/tui"
)

// checkFullScreen refuses --tui where there is no terminal to show it on.
func checkFullScreen(io stdio, env func(string) string) error {
	in, ok := io.in.(*os.File)
	switch {
	case !ok || !isTerminal(in) || !isTerminal(io.out):
		return &run.UserError{
			Message: "--tui needs a terminal, and standard input or output is none", Hint: "leave out --tui for plain output",
		}
	case env("TERM") == "dumb":
		return &run.UserError{Message: "--tui needs a terminal that can do more than TERM=dumb says", Hint: "leave out --tui"}
	}
	return nil
}

// showFullScreen shows the run full screen until what it returns is called, or the
// process ends.
func showFullScreen(io stdio, screen *live, helm *inline.Helm) (leave func()) {
	in, _ := io.in.(*os.File)          // checkFullScreen has seen to it
	out, _ := below(io.out).(*os.File) // likewise
	ui := tui.Open(tui.Options{
		Steering: keys{helm}, Clean: screen.clean, Colour: screen.screen.colour, Now: time.Now(),
	}, in, out, os.Environ())
	screen.show(ui)
	ui.Start(func(err error) {
		screen.plain()
		if err != nil {
			screen.line("the full screen ended: %v", err)
		}
	})
	io.exits.set(ui.Close)
	return io.exits.leave
}

// keys steers a run as the keys of its full screen ask.
type keys struct{ *inline.Helm }

// Interrupt implements tui.Steering: the terminal sends no signal while it is ours.
func (k keys) Interrupt() { _ = syscall.Kill(os.Getpid(), syscall.SIGINT) }

// lineWriter writes whole lines as lasting ones.
type lineWriter func(format string, args ...any)

// Write implements io.Writer.
func (w lineWriter) Write(p []byte) (int, error) {
	w("%s", bytes.TrimRight(p, "\n"))
	return len(p), nil
}
