package transcript

import (
	"bytes"
	"fmt"
	"io"
)

// ends passes on the first HeadSize bytes of a text and the last TailSize, both
// at ends of lines where there are any, and says between them how much is left
// out.
type ends struct {
	w    io.Writer
	head int
	// full: the head is closed, all goes to the tail. whole: it ends in a whole line.
	full, whole bool
	tail        []byte
	cut         int64
}

func (e *ends) Write(p []byte) (int, error) {
	n := len(p)
	if !e.full {
		keep := p[:min(len(p), HeadSize-e.head)]
		if e.head+len(keep) == HeadSize {
			e.full = true
			// What is left of the line goes with the tail.
			if at := bytes.LastIndexByte(keep, '\n'); at >= 0 || e.whole {
				keep = keep[:at+1]
			}
		}
		if _, err := e.w.Write(keep); err != nil {
			return 0, err
		}
		e.head += len(keep)
		e.whole = bytes.HasSuffix(keep, []byte("\n"))
		p = p[len(keep):]
	}
	e.tail = append(e.tail, p...)
	// Trimmed at twice the size only: each byte is then moved at most once.
	if len(e.tail) > 2*TailSize {
		e.trim()
	}
	return n, nil
}

func (e *ends) trim() {
	out := len(e.tail) - TailSize
	if at := bytes.IndexByte(e.tail[out-1:], '\n'); at >= 0 && at < TailSize/2 {
		out += at
	}
	e.cut += int64(out)
	e.tail = append(e.tail[:0], e.tail[out:]...)
}

// finish passes on the tail and gives the number of bytes left out.
func (e *ends) finish() (int64, error) {
	if len(e.tail) > TailSize {
		e.trim()
	}
	if e.cut > 0 {
		if _, err := fmt.Fprintf(e.w, "\n[%d bytes are left out here]\n", e.cut); err != nil {
			return e.cut, err
		}
	}
	_, err := e.w.Write(e.tail)
	return e.cut, err
}
