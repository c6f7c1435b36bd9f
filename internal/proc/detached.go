package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Detached is a process that lives on when we end. While we live it is reaped
// as soon as it ends.
type Detached struct {
	pid  int
	done chan struct{}
}

// StartDetached starts the process as the leader of a new session, and so of a
// process group of the same number, beyond the reach of our terminal's
// signals. Stdin, Stdout and Stderr must be *os.File or nil, which means
// /dev/null; nobody would be there to copy anything else. Limits and Grace
// have no meaning here.
func StartDetached(c Cmd) (*Detached, error) {
	name := filepath.Base(c.Path)
	if err := c.check(); err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = null.Close() }()
	stdin, err1 := stdio(c.Stdin, null)
	stdout, err2 := stdio(c.Stdout, null)
	stderr, err3 := stdio(c.Stderr, null)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}

	sys := c.sys()
	sys.Setsid = true
	p, err := os.StartProcess(c.Path, append([]string{c.Path}, c.Args...), &os.ProcAttr{
		Dir:   c.Dir,
		Env:   c.env(),
		Files: append([]*os.File{stdin, stdout, stderr}, c.ExtraFiles...),
		Sys:   sys,
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	d := &Detached{pid: p.Pid, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		_, _ = p.Wait() // how it ended is for the process itself to record
	}()
	return d, nil
}

// PID is the number of the process, its session and its group.
func (d *Detached) PID() int { return d.pid }

// Done is closed when the process has ended and is reaped.
func (d *Detached) Done() <-chan struct{} { return d.done }

// stdio unpacks the file behind a reader or writer. The parameter is any,
// since the fields of Cmd have different types.
func stdio(v any, null *os.File) (*os.File, error) {
	switch f := v.(type) {
	case nil:
		return null, nil
	case *os.File:
		if f == nil {
			return null, nil
		}
		return f, nil
	case io.Reader, io.Writer:
		return nil, fmt.Errorf("standard stream of type %T: a detached process needs a file", v)
	default:
		return nil, fmt.Errorf("standard stream of type %T", v)
	}
}
