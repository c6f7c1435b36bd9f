package supervise_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/supervise"
)

// log is what a failing check of a larger module prints: mostly chatter.
func log() string {
	var b strings.Builder
	for i := range 400 {
		fmt.Fprintf(&b, "ok  \texample.com/shop/internal/package%d\t0.%03ds\n", i, i)
		if i%50 == 7 {
			fmt.Fprintf(&b, "--- FAIL: TestTotal%d (0.00s)\n    cart_test.go:%d: got %d, want 4\nFAIL\texample.com/shop/cart\t0.004s\n", i, i, i)
		}
	}
	return b.String()
}

func BenchmarkNormalise(b *testing.B) {
	text := log()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if supervise.Normalise(text).Hash == "" {
			b.Fatal("no error found")
		}
	}
}

func BenchmarkNormaliseHostile(b *testing.B) {
	text := strings.Repeat("a.b:1 ", 1<<18)
	for b.Loop() {
		supervise.Normalise(text)
	}
}

func BenchmarkClassify(b *testing.B) {
	f := supervise.Failure{Outcome: supervise.Completed, Gate: "go test", ExitCode: 1, Reason: "exited", Output: log()}
	for b.Loop() {
		if supervise.Classify(f) != supervise.FailTest {
			b.Fatal("not a test failure")
		}
	}
}
