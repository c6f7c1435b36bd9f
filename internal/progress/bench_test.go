package progress

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/text"
)

// many is a document with n tasks in phases of twenty, each with one line of
// acceptance criteria.
func many(tb testing.TB, n int) []byte {
	tb.Helper()
	var b strings.Builder
	for i := range n {
		if i%20 == 0 {
			fmt.Fprintf(&b, "\n### Phase %d: Part of the work\n", i/20+1)
		}
		fmt.Fprintf(&b, "- [ ] T%d (P2) Do number %d of many things\n  - Accept: `go test ./p%d` passes\n", i+1, i, i)
	}
	d := New("large", Binding{Key: "plan:large"})
	if err := d.SetSection(SectionTasks, b.String()); err != nil {
		tb.Fatal(err)
	}
	if len(d.tasks) != n {
		tb.Fatalf("%d tasks, want %d", len(d.tasks), n)
	}
	return d.Bytes()
}

// BenchmarkParse is measured against goldmark's own parse of the same bytes in
// the same run: by its default parser, and by the one without inlines that
// Parse is built on. The metrics x-goldmark and x-blocks are how many times as
// long Parse takes.
func BenchmarkParse(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		src := many(b, n)
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			var ours, whole, blocks time.Duration
			for b.Loop() {
				ours += timed(b, func() {
					if _, err := Parse(src); err != nil {
						b.Fatal(err)
					}
				})
				whole += timed(b, func() { goldmark.DefaultParser().Parse(text.NewReader(src)) })
				blocks += timed(b, func() { blockTree(src) })
			}
			b.ReportMetric(0, "ns/op") // of all three together
			b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N), "ns/parse")
			b.ReportMetric(float64(ours)/float64(whole), "x-goldmark")
			b.ReportMetric(float64(ours)/float64(blocks), "x-blocks")
		})
	}
}

// timed runs f in a clean heap, so that nobody pays for another's garbage.
func timed(b *testing.B, f func()) time.Duration {
	b.Helper()
	runtime.GC()
	start := b.Elapsed()
	f()
	return b.Elapsed() - start
}
