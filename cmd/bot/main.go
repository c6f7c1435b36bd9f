package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"

	"github.com/org/ralph-action/internal/run"
)

func main() {
	// The shim is every agent's and every check's parent: it must start fast
	// and owe nothing to flags, configuration or the terminal.
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(beShim(os.Args[2:]))
	}
	os.Exit(realMain(os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// stdio is the terminal, or what stands for it in a test.
type stdio struct {
	in       io.Reader
	out, err io.Writer
	// exits gives the terminal back before the process ends at once.
	exits *exits
	// onSave is told before and after `bot run` stores its state; nil in the
	// program itself.
	onSave func(saved bool)
	// wrap goes around the demonstration's GitHub; nil in the program itself.
	wrap func(http.Handler) http.Handler
}

// helpCmd is `bot help`, which the program turns into --help before it is read.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, such as: progress show."`
}

// exits is what has to be done before the process ends, however it does.
type exits struct {
	mu sync.Mutex
	do func()
}

// set has do called once before the end.
func (e *exits) set(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.do = do
}

// leave does what is left to do.
func (e *exits) leave() {
	e.mu.Lock()
	do := e.do
	e.do = nil
	e.mu.Unlock()
	if do != nil {
		do()
	}
}

// exitCoder is an error that knows its exit code: the end of a run.
type exitCoder interface {
	error
	ExitCode() int
}

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ signal os.Signal }

// Error implements error.
func (i interrupted) Error() string { return "stopped by " + i.signal.String() }

// realMain is the program without its process: arguments in, exit code out.
func realMain(args []string, io stdio) int {
	io.exits = &exits{}
	var cmd struct {
		commands
		ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`
	}
	exited := -1
	parser, err := kong.New(&cmd,
		kong.Name(calledAs()),
		kong.Description(description()),
		kong.Writers(io.out, io.err),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Vars{"version": versionLine(), "bot": calledAs()},
		kong.Bind(io),
	)
	if err != nil {
		fmt.Fprintln(io.err, calledAs()+":", err)
		return run.ExitFailed
	}
	kongcompletion.Register(parser) // answers a shell that asks, and ends
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	}
	if exited >= 0 {
		return exited
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		more := ""
		switch {
		case slices.Contains([]string{"resume", "continue", "retry", "stop", "pause"}, args[0]):
			more = "; to go on with a run, give its `run` again, and to stop it press Ctrl-C"
		case strings.HasPrefix(err.Error(), "unknown flag"), strings.HasPrefix(err.Error(), "unexpected argument"):
			more = "; a sentence goes in quotes"
		}
		hint := fmt.Sprintf("run `%s --help` for usage%s", asked(err), more)
		fmt.Fprintf(io.err, "%s: %s\n  → %s\n", calledAs(), err, hint)
		if args[0] == "run" && slices.Contains(args, "--json") {
			_ = printJSON(io.out, map[string]refusal{"error": {Message: err.Error(), Hint: hint, ExitCode: run.ExitUsage}})
		}
		return run.ExitUsage
	}

	ctx, stop := signalContext(io.exits)
	defer stop()
	err = parsed.Run(bound{ctx}, parser.Model)
	return report(io.err, err)
}

// asked is the command that could not be read, or the program's own name where it
// was none.
func asked(err error) string {
	wrong, ok := errors.AsType[*kong.ParseError](err)
	if !ok || wrong.Context == nil || wrong.Context.Selected() == nil {
		return calledAs()
	}
	return wrong.Context.Selected().FullPath()
}

// bound carries the context through kong, which binds by type.
type bound struct{ context.Context }

// report says what went wrong, once, and turns it into the exit code.
func report(w io.Writer, err error) int {
	if err == nil {
		return run.ExitComplete
	}
	if coder, ok := errors.AsType[exitCoder](err); ok {
		return coder.ExitCode()
	}
	if user, ok := errors.AsType[*run.UserError](err); ok {
		fmt.Fprintf(w, "%s: %s\n", calledAs(), user.Message)
		if user.Hint != "" {
			fmt.Fprintf(w, "  → %s\n", user.Hint)
		}
		return run.ExitUsage
	}
	fmt.Fprintf(w, "%s: %v\n", calledAs(), err)
	return run.ExitFailed
}

// signalCode is the exit code of a process that a signal ended.
func signalCode(s os.Signal) int {
	if s == syscall.SIGTERM {
		return run.ExitTerminated
	}
	return run.ExitInterrupted
}

// signalContext ends on the first SIGINT or SIGTERM, with the signal as its
// cause; a second one ends the process at once.
func signalContext(before *exits) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			cancel(interrupted{s})
		case <-done:
			return
		}
		select {
		case s := <-signals:
			before.leave()
			os.Exit(signalCode(s))
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
