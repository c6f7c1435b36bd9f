package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// What makes the test binary be the program, or a server that kills itself.
const (
	envBe     = "RALPH_TEST_BE"     // "bot", "server"
	envKill   = "RALPH_TEST_KILL"   // "3:before" or "3:after": at the third save
	envConfig = "RALPH_TEST_CONFIG" // of the server
	envSelf   = "RALPH_TEST_SELF"   // what the server starts in sandboxes
	saidReady = "listening on "     // the server's first line on stdout
	saidEnded = "run ended: "       // its line at the end of a run
	// saidWorked is its line whenever something may have changed in its store.
	saidWorked = "worked"
)

// TestMain lets the test binary stand in for the program: as the shim and the
// scripted agent, which the sandboxes start by its path, as one that is watched
// for races or counted, and as one that kills itself. See program for the rest.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		// Not os.Exit, which sleeps a second under the race detector, as long as GORACE
		// does not say otherwise: these get no environment of anybody's.
		case "shim":
			syscall.Exit(beShim(os.Args[2:]))
		case "script-agent", "acp-client":
			syscall.Exit(realMain(os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
		}
	}
	switch os.Getenv(envBe) {
	case "bot":
		os.Exit(realMain(os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr, onSave: killer()}))
	case "server":
		if err := beServer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Each httptest.Server that closes also closes the idle connections of the default
	// transport, and a POST of a test beside it that is just about to use one fails.
	http.DefaultTransport = struct{ http.RoundTripper }{http.DefaultTransport}
	testscript.Main(hurried{m}, map[string]func(){
		"bot": func() {
			os.Exit(realMain(os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
		},
	})
}

// killer ends this process without warning before or after the n-th save, as
// envKill says; without it, never.
func killer() func(saved bool) {
	n, when, ok := strings.Cut(os.Getenv(envKill), ":")
	if !ok {
		return func(bool) {}
	}
	at, err := strconv.Atoi(n)
	if err != nil {
		panic(err)
	}
	var count atomic.Int64
	return func(saved bool) {
		if saved != (when == "after") {
			return
		}
		if count.Add(1) == int64(at) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}
}

// beServer is `bot serve` on a free port, telling of it on stdout.
func beServer() error {
	ctx, stop := signalContext(&exits{})
	defer stop()
	cfg, err := config.LoadServer(os.Getenv(envConfig), os.LookupEnv, os.ReadFile)
	if err != nil {
		return err
	}
	kill := killer()
	app, err := newApp(ctx, cfg, zerolog.New(os.Stderr), observers{
		self: os.Getenv(envSelf),
		onSave: func(_ run.ID, saved bool) {
			kill(saved)
			fmt.Println(saidWorked)
		},
		onWork: func() { fmt.Println(saidWorked) },
		watch: func(ev run.Event) {
			if ev.Kind == run.EventRunEnded {
				fmt.Println(saidEnded + string(ev.End))
			}
		},
	})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(saidReady + l.Addr().String())
	return app.serve(ctx, l)
}

// hurried has the tests wait less. Most of them wait for something far longer
// than they compute, so that more of them go at once than there are processors;
// and the programs that they start end without the second that the race detector
// keeps each of them.
type hurried struct{ *testing.M }

func (h hurried) Run() int {
	if os.Getenv("GORACE") == "" {
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		collectLess()
	}
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(strconv.Itoa(4 * runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	code := h.M.Run()
	if dir, err := programDir(); err == nil {
		_ = os.RemoveAll(dir) // nobody needs it any more
	}
	return code
}

// collectLess trades memory, of which there is enough, for time: here, and in
// the programs that are started.
func collectLess() {
	if os.Getenv("GOGC") != "" {
		return
	}
	if err := os.Setenv("GOGC", "400"); err != nil {
		panic(err)
	}
	debug.SetGCPercent(400)
}
