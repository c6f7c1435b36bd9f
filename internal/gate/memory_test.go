//go:build load

package gate_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gate"
)

// TestFactsOfManyPackagesAreBounded: a stream that names ever more packages.
func TestFactsOfManyPackagesAreBounded(t *testing.T) {
	r := gate.NewReader()
	for i := range 20_000 {
		fmt.Fprintf(r, `{"Action":"fail","Package":"p%d%s","Test":"T"}`+"\n", i, strings.Repeat("x", 1000))
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	if facts := r.Facts(); facts.Failed != 20_000 {
		t.Errorf("%d failed", facts.Failed)
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	if kept := int64(before) - int64(m.HeapAlloc); kept > 4<<20 {
		t.Errorf("%d KiB were kept", kept>>10)
	}
}
