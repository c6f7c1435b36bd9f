package shim

import (
	"os"
	"syscall"
)

// deadlyHere are the deadly signals that other systems do not have.
var deadlyHere = []os.Signal{syscall.SIGEMT}

// becomeParent does nothing: macOS has no subreaper and no prctl. Orphans go
// to launchd, and a process in a session of its own escapes.
func becomeParent() error { return nil }

// rlimitProcesses: macOS counts what the person runs elsewhere.
const rlimitProcesses = -1

// newKeyring, refuseCalls and become have nothing to do: nothing is confined here.
func newKeyring() error { return nil }

func refuseCalls() error { return nil }

func become(int) error { return nil }

// killAll kills the command's process group.
func killAll(pgid int) {
	_ = syscall.Kill(-pgid, syscall.SIGKILL)
}

func oomKilled() bool { return false }

// reserve cannot be had here by one call.
func reserve(*os.File, int64) {}
