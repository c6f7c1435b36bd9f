//go:build load

package gate

import (
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
				Excerpt(log)
				Read(log)
			})
		})
	}
}
