//go:build load

package agent

import (
	"io"
	"runtime"
	"testing"
)

// Memory does not grow with what an agent prints: 64 MB here, a gigabyte in
// BenchmarkGigabyte.
func TestParserMemory(t *testing.T) {
	for _, cli := range feeds {
		p := parserOf(t, cli, nil)
		half, whole := uint64(0), uint64(0)
		for _, at := range []*uint64{&half, &whole} {
			if _, err := io.CopyBuffer(struct{ io.Writer }{p}, busy(t, cli, 32<<20), make([]byte, 64<<10)); err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			*at = m.HeapAlloc
		}
		if got := p.Close(); got.Outcome != OutcomeCompleted || got.BadLines != 0 || got.ToolCalls < 1000 {
			t.Fatalf("%s: %+v", cli, got)
		}
		if grown := int64(whole) - int64(half); grown > 256<<10 {
			t.Errorf("%s: the second 32 MB left %d bytes", cli, grown)
		}
	}
}
