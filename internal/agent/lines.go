package agent

import "bytes"

// lines cuts what an agent prints into lines, in bounded memory, and counts them
// in a Result.
type lines struct {
	res  *Result
	take func(line []byte) // is given each line that is not blank, trimmed

	part []byte // the start of a line whose end has not come yet
	over bool   // the line at hand is too long; drop the rest of it
}

// Write implements io.Writer; it takes everything and never fails.
func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			l.keep(b)
			break
		}
		l.finish(b[:end])
		b = b[end+1:]
	}
	return n, nil
}

// keep remembers the start of a line, as far as the limit allows.
func (l *lines) keep(b []byte) {
	switch {
	case l.over:
	case len(l.part)+len(b) > maxLine:
		l.drop()
		l.over = true
	default:
		l.part = append(l.part, b...)
	}
}

// drop counts a line that is too long and forgets it.
func (l *lines) drop() {
	l.part = nil
	l.res.Lines++
	l.res.BadLines++
	l.res.Truncated = true
}

// finish handles the line that ends with b.
func (l *lines) finish(b []byte) {
	switch {
	case l.over:
		l.over = false
	case len(l.part)+len(b) > maxLine:
		l.drop()
	case len(l.part) > 0:
		l.part = append(l.part, b...)
		l.whole(l.part)
		l.part = l.part[:0]
		if cap(l.part) > 1<<20 {
			l.part = nil // one long line should not cost memory for ever
		}
	default:
		l.whole(b)
	}
}

func (l *lines) whole(b []byte) {
	if b = bytes.TrimSpace(b); len(b) > 0 {
		l.res.Lines++
		l.take(b)
	}
}
