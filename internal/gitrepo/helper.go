package gitrepo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A helper is a git process that answers one question after the other: each then costs
// microseconds, and not the start of a process. It is started when it is first needed,
// and ends when nobody has asked it for a while.
type helper struct {
	git  *Git
	call call
	// mu is held from the question to the end of the answer.
	mu      sync.Mutex
	process *process
}

// helperIdle is how long a helper waits for the next question.
const helperIdle = 10 * time.Second

// process is one life of a helper.
type process struct {
	in   *os.File
	out  *bufio.Reader
	read *io.PipeReader
	stop context.CancelFunc
	done chan struct{}
	// err is why it ended, once done is closed.
	err  error
	idle *time.Timer
}

// ask writes a question and reads the answer, all of it. Where receive fails, or ctx ends,
// the process is given up, since nobody knows what it says next.
func (h *helper) ask(ctx context.Context, question []byte, receive func(r *bufio.Reader) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := h.start(); err != nil {
		return fmt.Errorf("start git %s: %w", h.call.args[0], err)
	}
	p := h.process
	p.idle.Stop()
	cut := context.AfterFunc(ctx, p.stop)
	// At the same time, since the answer may begin before the question ends.
	sent := make(chan error, 1)
	go func() {
		_, err := p.in.Write(question)
		sent <- err
	}()
	err := receive(p.out)
	if err == nil {
		err = <-sent
	}
	if cut() && err == nil {
		p.idle.Reset(helperIdle)
		return nil
	}
	h.end()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.err != nil {
		err = p.err
	}
	return fmt.Errorf("git %s: %w", h.call.args[0], err)
}

func (h *helper) start() error {
	if h.process != nil {
		return nil
	}
	in, w, err := os.Pipe()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	r, out := io.Pipe()
	p := &process{in: w, out: bufio.NewReaderSize(r, 1<<16), read: r, stop: stop, done: make(chan struct{})}
	c := h.call
	c.stdin, c.stdout = in, out
	go func() {
		defer close(p.done)
		_, p.err = h.git.run(ctx, c)
		_ = in.Close()
		_ = out.CloseWithError(p.err) // it never fails
	}()
	p.idle = time.AfterFunc(helperIdle, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.process == p {
			h.end()
		}
	})
	h.process = p
	h.git.running.Store(h, nil)
	return nil
}

// end ends the process, if there is one. The caller holds h.mu.
func (h *helper) end() {
	p := h.process
	if p == nil {
		return
	}
	h.process = nil
	h.git.running.Delete(h)
	p.idle.Stop()
	_ = p.in.Close()
	_ = p.read.CloseWithError(io.ErrClosedPipe) // it never fails
	p.stop()
	<-p.done
}
