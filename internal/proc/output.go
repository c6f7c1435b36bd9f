package proc

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// headBuffer keeps (or passes on) the first limit bytes and drops the rest.
type headBuffer struct {
	limit   int64
	pass    io.Writer
	kept    []byte
	seen    int64
	dropped bool
}

func (b *headBuffer) Write(p []byte) (int, error) {
	n := len(p)
	if room := b.limit - b.seen; int64(len(p)) > room {
		p = p[:room]
		b.dropped = true
	}
	b.seen += int64(len(p))
	if b.pass == nil {
		b.kept = append(b.kept, p...)
		return n, nil
	}
	if len(p) == 0 {
		return n, nil
	}
	if _, err := b.pass.Write(p); err != nil {
		return 0, err
	}
	return n, nil
}

// Tail keeps the last Limit bytes that are written to it, and up to twice that meanwhile.
type Tail struct {
	Limit int
	buf   []byte
}

func (t *Tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	// Trim only at twice the limit: each byte is then moved at most once.
	if len(t.buf) > 2*t.Limit {
		t.buf = append(t.buf[:0], t.Bytes()...)
	}
	return len(p), nil
}

// Bytes are those that are kept.
func (t *Tail) Bytes() []byte { return t.buf[max(0, len(t.buf)-t.Limit):] }

// drain copies what a child writes into sink. Nothing else touches sink until
// finish returned.
type drain struct {
	r, w *os.File
	sink io.Writer
	done chan error
}

func newDrains(sinks ...io.Writer) ([]*drain, error) {
	var drains []*drain
	for _, sink := range sinks {
		r, w, err := os.Pipe()
		if err != nil {
			for _, d := range drains {
				d.abandon()
			}
			return nil, err
		}
		drains = append(drains, &drain{r: r, w: w, sink: sink, done: make(chan error, 1)})
	}
	return drains, nil
}

func (d *drain) abandon() {
	_ = d.r.Close()
	_ = d.w.Close()
}

func (d *drain) start() {
	_ = d.w.Close() // the child has its own
	go func() {
		_, err := io.Copy(d.sink, d.r)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = d.rest()
		}
		if err != nil && !errors.Is(err, os.ErrClosed) {
			// The sink broke. Read on, so that the child ends by itself.
			_, _ = io.Copy(io.Discard, d.r)
		}
		d.done <- err
	}()
}

// maxPipe is the most that a pipe holds, unless root made it larger.
const maxPipe = 1 << 20

// rest copies what the pipe holds by now, and waits for no more. A slow sink so
// gets all that was written before the process ended, however late it is.
func (d *drain) rest() error {
	raw, err := d.r.SyscallConn()
	if err != nil {
		return err
	}
	buf, n := make([]byte, maxPipe), 0
	err = raw.Control(func(fd uintptr) {
		for n < len(buf) {
			m, err := syscall.Read(int(fd), buf[n:]) // does not block: the pipe is the poller's
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if m <= 0 { // the end, or nothing for now
				return
			}
			n += m
		}
	})
	_, writeErr := d.sink.Write(buf[:n])
	return errors.Join(err, writeErr)
}

// finish waits for the end of the output. From the time that late is closed it
// waits for no more than is there. It returns the sink's error.
func (d *drain) finish(late <-chan struct{}) error {
	defer func() { _ = d.r.Close() }()
	select {
	case err := <-d.done:
		return ignoreClosed(err)
	case <-late:
	}
	_ = d.r.SetReadDeadline(time.Unix(1, 0))
	return ignoreClosed(<-d.done)
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}
