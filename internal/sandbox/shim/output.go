package shim

import (
	"os"
)

// cappedFile keeps the first limit bytes in a file and counts all.
type cappedFile struct {
	f     *os.File
	limit int64
	seen  int64
	kept  int64
	err   error
}

func (c *cappedFile) Write(p []byte) (int, error) {
	c.seen += int64(len(p))
	keep := p
	if room := c.limit - c.kept; int64(len(keep)) > room {
		keep = keep[:max(room, 0)]
	}
	if c.err == nil && len(keep) > 0 {
		// A full disk must not block the command: read on, drop, tell.
		var n int
		n, c.err = c.f.Write(keep)
		c.kept += int64(n)
	}
	return len(p), nil
}

func (c *cappedFile) truncated() bool { return c.kept < c.seen }

// tailFile keeps at least the last keep bytes in a file, and at most twice as
// many.
type tailFile struct {
	f    *os.File
	keep int
	buf  []byte
}

func (t *tailFile) Write(p []byte) (int, error) {
	n := len(p)
	if len(t.buf)+len(p) <= 2*t.keep {
		// What cannot be written is lost; the command goes on.
		_, _ = t.f.WriteAt(p, int64(len(t.buf)))
		t.buf = append(t.buf, p...)
		return n, nil
	}
	t.buf = append(t.buf, p...)
	t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.keep:]...)
	if t.f.Truncate(0) == nil {
		_, _ = t.f.WriteAt(t.buf, 0)
	}
	return n, nil
}
