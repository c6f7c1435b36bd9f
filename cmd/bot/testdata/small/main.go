// Command small is what the program is inside a sandbox, and no more: the shim, the
// scripted agent and the client of agents that speak ACP. It comes up in a fifth of the
// program's time, and tests start it thousands of times.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/acp"
	"github.com/org/ralph-action/internal/sandbox/shim"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main(os.Args[2:]))
	}
	code, err := act(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "small:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func act(args []string) (exit int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		return 1, err
	}
	switch {
	case len(args) == 3 && slices.Equal(args[:2], []string{agent.ScriptCommand, "--script"}):
		script, err := os.ReadFile(args[2])
		if err != nil {
			return 1, err
		}
		return agent.RunScript(ctx, script, os.Stdin, os.Stdout, dir)
	case len(args) == 3 && slices.Equal(args[:2], []string{agent.ACPCommand, "--hello"}):
		return acp.Hello(ctx, args[2], os.Stdout, os.Stderr, dir)
	case len(args) == 2 && args[0] == agent.ACPCommand:
		return acp.Run(ctx, args[1], os.Stdin, os.Stdout, os.Stderr, dir)
	}
	return 1, fmt.Errorf("this is not the whole program: %q", args)
}
