package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/org/ralph-action/internal/config"
)

// envProgram names the program, built already; without it the tests build it.
const envProgram = "RALPH_TEST_PROGRAM"

// built is the program as it is shipped: static, without the race detector.
var built = sync.OnceValues(func() ([]byte, error) {
	if file := os.Getenv(envProgram); file != "" {
		return os.ReadFile(file)
	}
	return build(".")
})

func build(path string) (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "ralph-bin-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bin := filepath.Join(dir, "bot")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-ldflags=-s -w", "-o", bin, path)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", path, err, out)
	}
	return os.ReadFile(bin)
}

// programDir is the directory of program, from its first use to the end of the
// tests.
var programDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "ralph-program-") })

// program is a file "bot" that stands for the program wherever a test starts it.
// It is the shipped program, which comes up in a quarter of the time of this test
// binary. Where coverage is counted it is this binary, which counts. What has to be
// watched for races in a process of its own starts this binary itself.
var program = sync.OnceValues(func() (string, error) { return standIn("bot", built) })

// inSandboxes is a file that is what the program is inside a sandbox, for servers that
// have it start agents and checks there.
var inSandboxes = sync.OnceValues(func() (string, error) {
	return standIn("small", func() ([]byte, error) { return build("./testdata/small") })
})

// standIn is a program in a file of that name, or this binary where coverage is counted.
func standIn(name string, program func() ([]byte, error)) (string, error) {
	if testing.CoverMode() != "" {
		return os.Executable()
	}
	b, err := program()
	if err != nil {
		return "", err
	}
	dir, err := programDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, name)
	return file, writeProgram(file, b)
}

func theProgram(tb testing.TB) string {
	tb.Helper()
	file, err := program()
	if err != nil {
		tb.Fatal(err)
	}
	return file
}

// self is the program that this stage's servers start in sandboxes.
func (st *stage) self() string {
	st.t.Helper()
	if st.config.Sandbox.Kind == config.SandboxDocker {
		return theProgram(st.t)
	}
	file, err := inSandboxes()
	if err != nil {
		st.t.Fatal(err)
	}
	return file
}

// testProgram is this test binary, which is the program where envBe says so.
func testProgram(tb testing.TB) string {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return exe
}

// builtBot is the shipped program in a file of its own, by which its processes
// can be told from those of other tests.
func builtBot(tb testing.TB) string {
	tb.Helper()
	b, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	bin := filepath.Join(tb.TempDir(), "bot")
	if err := writeProgram(bin, b); err != nil {
		tb.Fatal(err)
	}
	return bin
}

// writeProgram writes a program that is run at once. A process that another test
// starts meanwhile would hold the file open for writing until it is what it is
// to be, and the kernel runs no such file: none is started while this one is
// written.
func writeProgram(file string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(file, program, 0o755)
}
