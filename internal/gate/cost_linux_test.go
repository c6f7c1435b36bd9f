//go:build load

package gate

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cost is the time that f takes of a processor: a machine that is busy with other
// things does not count.
func cost(t *testing.T, f func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now := func() time.Duration {
		var at unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
			t.Fatal(err)
		}
		return time.Duration(at.Nano())
	}
	begin := now()
	f()
	return now() - begin
}

// linear wants that twice the text costs no more than 2.6 times as much. What a
// collection of garbage adds is left out by trying again.
func linear(t *testing.T, size int, do func(size int)) {
	t.Helper()
	do(size) // expressions are compiled when they are first used
	const tries = 10
	one, two := time.Hour, time.Hour
	for range tries {
		one, two = min(one, cost(t, func() { do(size) })), min(two, cost(t, func() { do(2 * size) }))
		if two < one*26/10 {
			return
		}
	}
	t.Errorf("%d KiB cost %v, twice as much %v", size>>10, one, two)
}

// hostileFiles are those that cost most of all that was tried: for each language and
// each kind of settings, text that its expressions nearly match everywhere.
var hostileFiles = []struct{ path, unit string }{
	{"a.test.js", "os.Exit(0)\n"},
	{"a.test.js", "it("},
	{"a_test.go", "func TestMain(\n"},
	{"a_test.go", "xt.Run( exit 0 "},
	{"tests/a.py", "os._exit(0)\n"},
	{"src/a.rs", "#[tokio::test]\n"},
	{"spec/a.rb", "xit\n"},
	{"ATest.php", "function testA ( "},
	{"ATests.cs", "[Fact] "},
	{"src/test/A.java", "@RepeatedTest void "},
	{"tests/a.cpp", "TEST(A, B) "},
	{"tests/a.cpp", "\"\n"},
	{"Makefile", "SHELL = x\n"},
	{".npmrc", "\r\n"},
	{".cargo/config.toml", "[alias]\n"},
	{"pom.xml", "passWithNoTests "},
}

// TestHostileFilesCostWhatTheyAreLong: all that is done with one changed file.
func TestHostileFilesCostWhatTheyAreLong(t *testing.T) {
	t.Parallel()
	for _, tt := range hostileFiles {
		t.Run(tt.path+" "+strings.TrimSpace(tt.unit), func(t *testing.T) {
			t.Parallel()
			linear(t, 8<<10, func(size int) {
				src := bytes.Repeat([]byte(tt.unit), size/len(tt.unit))
				d := FileDiff{Path: tt.path, Old: src, New: append(bytes.Clone(src), 'z')}
				FindWeakened(t.Context(), []FileDiff{d})
				Size(t.Context(), []FileDiff{d})
				FindUntested(t.Context(), []FileDiff{d})
				LosesLines(d)
				CountTests(t.Context(), d)
			})
		})
	}
}

// TestHostileOutputCostsWhatItIsLong: all that is done with what a check printed.
func TestHostileOutputCostsWhatItIsLong(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{
		"x:1: \n", "ok 1\n", "1) a\n", "# x\n", "thread 'a' 'a' panicked\n", "Found 1 errors\n", " --> a:1:1\n", "x", "\x1b[",
		"--- FAIL: Test", `{"Action":"fail","Test":"a"}` + "\n", "error TS1",
	} {
		t.Run(strings.TrimSpace(unit), func(t *testing.T) {
			t.Parallel()
			linear(t, 16<<10, func(size int) {
				log := strings.Repeat(unit, size/len(unit))
				Excerpt(t.Context(), log)
				Read(log)
			})
		})
	}
}

// TestInspectionHearsACancel: a cancel in the middle of files that cost most ends the
// work before the next expression is tried.
func TestInspectionHearsACancel(t *testing.T) {
	t.Parallel()
	var diffs []FileDiff
	for _, tt := range hostileFiles {
		src := bytes.Repeat([]byte(tt.unit), 16<<10/len(tt.unit))
		diffs = append(diffs, FileDiff{Path: tt.path, Old: src, New: append(bytes.Clone(src), 'z')})
	}
	all := &asked{Context: t.Context(), left: 1 << 30}
	whole := cost(t, func() { FindWeakened(all, diffs); Size(all, diffs) })
	asks := 1<<30 - all.left
	if asks < 3*len(diffs) {
		t.Fatalf("the context was looked at %d times for %d files", asks, len(diffs))
	}
	half := &asked{Context: t.Context(), left: asks / 8}
	if some := cost(t, func() { FindWeakened(half, diffs); Size(half, diffs) }); some > whole/2 {
		t.Errorf("cancelled after an eighth of the work: %v of %v", some, whole)
	}
	log := strings.Repeat("x:1: \n", 30_000)
	whole = cost(t, func() { Excerpt(t.Context(), log) })
	if some := cost(t, func() { Excerpt(&asked{Context: t.Context(), left: 10}, log) }); some > whole/2 {
		t.Errorf("an excerpt that was cancelled: %v of %v", some, whole)
	}
}

// asked is a context that is cancelled once it was asked so often.
type asked struct {
	context.Context //nolint:containedctx // it is one
	left            int
}

func (a *asked) Err() error {
	if a.left--; a.left < 0 {
		return context.Canceled
	}
	return nil
}
