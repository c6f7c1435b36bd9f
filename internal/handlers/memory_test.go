//go:build load

package handlers_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

// Attack: two thousand connections, each with most of a large body that nobody has
// signed. The server holds a few of them, and answers afterwards.
func TestUnsignedBodiesFitInMemory(t *testing.T) { //nolint:paralleltest // it measures the process
	const strangers, length, most = 2000, 1<<20 - 1, 200 << 20
	for name, header := range map[string]string{
		"with a length":   fmt.Sprintf("Content-Length: %d\r\n\r\n", length+1),
		"without":         fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", length+1),
		"of a known form": fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", length+1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				f := flood(t, strangers, header, strings.Repeat("x", length))
				runtime.ReadMemStats(&after)
				if took := int64(after.HeapSys+after.StackSys) - int64(before.HeapSys+before.StackSys); took > most {
					t.Errorf("%d connections take %d MiB", strangers, took>>20)
				}
				// Time-outs make room for whoever comes with a signature.
				f.all.Wait()
				f.ping(t)
				f.end(t)
			})
		})
	}
}
