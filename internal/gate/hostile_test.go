package gate_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
)

// allocated is how many bytes f allocates. Tests that ask for it are not parallel.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// manyTargets is a Makefile with one rule of many targets and a long recipe, about
// size bytes in all.
func manyTargets(size int, recipe string) string {
	var b strings.Builder
	b.WriteString("test test lint ")
	for i := 0; b.Len() < size/2; i++ {
		fmt.Fprintf(&b, "%x ", i)
	}
	b.WriteString(":\n")
	b.WriteString(strings.Repeat("\t"+recipe+"\n", size/2/(len(recipe)+2)))
	return b.String()
}

// TestMakefilesCostWhatTheyAreLong: neither targets times recipes nor lines times
// lines.
func TestMakefilesCostWhatTheyAreLong(t *testing.T) {
	const size = 128 << 10
	for name, src := range map[string]string{
		"many targets, one long line":  manyTargets(size, strings.Repeat("x", size/2-3)),
		"many targets, many lines":     manyTargets(size, "a"),
		"one target, many lines":       "test:\n" + strings.Repeat("\ta\n", size/3),
		"one target, many rules":       strings.Repeat("test: a\n", size/8),
		"one target, many times named": strings.Repeat("test ", size/10) + ":\n" + strings.Repeat("\ta\n", size/6),
	} {
		for what, f := range map[string]func(){
			"Detect": func() {
				if gates := gate.Detect(root(tree{"Makefile": src})); len(gates) == 0 {
					t.Errorf("%s: no check is found", name)
				}
			},
		} {
			if n := allocated(f); n > 128*size {
				t.Errorf("%s of %s: %d KiB for %d KiB", what, name, n>>10, len(src)>>10)
			}
		}
	}
}
