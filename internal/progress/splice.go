package progress

import (
	"fmt"
	"slices"
)

// patch replaces src[start:stop] of a document by text. Where start equals
// stop, text is put in.
type patch struct {
	start, stop int
	text        string
}

// patch makes many replacements in one go and parses the result once. The
// ranges are those of the document as it is, in any order; insertions at one
// place come out in the order they are given, and before a replacement that
// starts there. Ranges that overlap or lie outside are an error. On error d is
// as before.
func (d *Doc) patch(ps ...patch) error {
	src, err := patched(d.src, ps)
	if err != nil || len(ps) == 0 {
		return err
	}
	return d.replace(src)
}

// patched is src with the replacements made.
func patched(src []byte, ps []patch) ([]byte, error) {
	ps = slices.Clone(ps)
	slices.SortStableFunc(ps, func(a, b patch) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return a.stop - b.stop
	})
	size, at := len(src), 0
	for _, p := range ps {
		if p.start < at || p.stop < p.start || p.stop > len(src) {
			return nil, fmt.Errorf("progress: patch of bytes %d to %d behind byte %d of %d", p.start, p.stop, at, len(src))
		}
		size += len(p.text) - (p.stop - p.start)
		at = p.stop
	}
	out := make([]byte, 0, size)
	at = 0
	for _, p := range ps {
		out = append(append(out, src[at:p.start]...), p.text...)
		at = p.stop
	}
	return append(out, src[at:]...), nil
}
