package gate

import (
	"bytes"
	"context"
	"hash/maphash"
)

// Size says how much a change comes to: lines that are new, lines that are
// gone, and tests that are new. A line that moved counts as neither. A
// cancelled context ends it.
func Size(ctx context.Context, diffs []FileDiff) (added, removed, tests int) {
	seed := maphash.MakeSeed()
	for _, d := range diffs {
		if ctx.Err() != nil {
			break
		}
		lines := make(map[uint64]int)
		count := func(src []byte, by int) {
			for line := range bytes.Lines(src) {
				if line = bytes.TrimSpace(line); len(line) > 0 {
					lines[maphash.Bytes(seed, line)] += by
				}
			}
		}
		count(d.New, 1)
		count(d.Old, -1)
		for _, n := range lines {
			if n > 0 {
				added += n
			} else {
				removed -= n
			}
		}
		if l := testLanguage(d.Path); l != nil {
			tests += max(0, len(l.tests(ctx, d.Path, d.New))-len(l.tests(ctx, d.Path, d.Old)))
		}
	}
	return added, removed, tests
}
