package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/org/ralph-action/internal/sandbox"
)

// The events of a record, in order. A record may end after any of them.
const (
	// EventShim: the shim is up and holds the record.
	EventShim = "shim"
	// EventStarted: the command runs.
	EventStarted = "started"
	// EventEnded: it has ended and nothing of it is left.
	EventEnded = "ended"
)

// Exit codes of the shim where it has no exit code of a command to pass on, as
// the shells and docker use them.
const (
	// CodeShimFailed: the shim could not do its work.
	CodeShimFailed = 125
	// CodeStartFailed: the command could not be executed.
	CodeStartFailed = 127
)

// Event is one line of a record.
type Event struct {
	Event string    `json:"event"`
	Time  time.Time `json:"time"`
	// Exit is set on EventEnded.
	Exit *Exit `json:"exit,omitempty"`
}

// Exit tells how a command ended.
type Exit struct {
	// Code is the command's exit code, 128 + n where signal n ended it, -1
	// where it never ran.
	Code int `json:"code"`
	// Signal is the name of that signal ("SIGKILL").
	Signal string         `json:"signal,omitempty"`
	Reason sandbox.Reason `json:"reason"`
	// Detail says why a start failed, which limit was hit, or what went wrong
	// beside the command.
	Detail string `json:"detail,omitempty"`
	// Truncated says that not all of stdout was kept.
	Truncated bool `json:"truncated,omitempty"`
	// OOMKilled says that something in the container was killed for memory.
	// (The engine's own flag can come too late to be seen.)
	OOMKilled bool `json:"oom_killed,omitempty"`
}

// Status is the exit code of the shim process itself.
func (e Exit) Status() int {
	if e.Reason == sandbox.ReasonStartFailed {
		return CodeStartFailed
	}
	return e.Code
}

// History is what a record tells.
type History struct {
	// The times of the events; zero where they have not happened.
	ShimAt, StartedAt, EndedAt time.Time
	// Exit is nil until the end.
	Exit *Exit
}

// ReadHistory reads a record. A file that is missing, empty or still being
// written gives what there is; lines that are no events are passed over.
func ReadHistory(path string) (History, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- the path is the caller's
	if errors.Is(err, fs.ErrNotExist) {
		return History{}, nil
	}
	if err != nil {
		return History{}, fmt.Errorf("read exit record: %w", err)
	}
	return parseHistory(data), nil
}

func parseHistory(data []byte) History {
	var h History
	for {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		if !whole {
			return h
		}
		data = rest
		var e Event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch e.Event {
		case EventShim:
			h.ShimAt = e.Time
		case EventStarted:
			h.StartedAt = e.Time
		case EventEnded:
			if e.Exit != nil {
				h.EndedAt, h.Exit = e.Time, e.Exit
			}
		}
	}
}

// record appends events to a file. The shim holds a lock on it until it dies, however it
// dies: others tell by it whether the shim lives, and which process it is. It is a lock
// of the process's (fcntl), which the kernel names to whoever asks, in their own count
// of processes; whoever opens the file a second time here would lose it.
type record struct{ f *os.File }

// Holder gives the shim that holds the record at path, as this process counts, 0 where
// none does.
func Holder(path string) (pid int, err error) {
	f, err := os.Open(path) // #nosec G304 -- the path is the caller's
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	held := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := lock(f, syscall.F_GETLK, &held); err != nil {
		return 0, err
	}
	if held.Type == syscall.F_UNLCK {
		return 0, nil
	}
	return int(held.Pid), nil
}

func lock(f *os.File, how int, l *syscall.Flock_t) error {
	for {
		if err := syscall.FcntlFlock(f.Fd(), how, l); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fcntl", err)
		}
	}
}

// openRecord takes the record for this shim. It reports false where another
// one has it or had it.
func openRecord(path string) (*record, bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600) // #nosec G304 -- the path is the caller's
	if err != nil {
		return nil, false, fmt.Errorf("open exit record: %w", err)
	}
	free, err := true, lock(f, syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		free, err = false, nil
	}
	if err == nil && free {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil && info.Size() == 0 {
			reserve(f, recordRoom)
			return &record{f}, true, nil
		}
	}
	_ = f.Close()
	if err != nil {
		return nil, false, fmt.Errorf("open exit record: %w", err)
	}
	return nil, false, nil
}

// recordRoom is what all events take at most: how a command that filled the disk ended can
// still be written.
const recordRoom = 4 << 10

// add writes one event with a single write, so that a reader sees it whole or
// not at all. It is not synced: against the death of this process that is not
// needed, and after a power cut there is nothing left to tell of.
func (r *record) add(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write exit record: %w", err)
	}
	if _, err := r.f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write exit record: %w", err)
	}
	return nil
}
