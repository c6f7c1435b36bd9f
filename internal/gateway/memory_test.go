//go:build load

package gateway

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// Attack: many of the largest requests at once, of several runs. The process holds a
// few; the others wait, and all are answered.
func TestLargestRequestsAtOnceFitInMemory(t *testing.T) { //nolint:paralleltest // it measures the process
	const runs, each, most = 16, 4, 280 << 20
	body := []byte(`{"model":"claude-sonnet-4-5","max_tokens":1,"system":"` + strings.Repeat("x", maxRequest-60) + `"}`)
	// The first to arrive wait until the gateway holds all that it will.
	var arrived sync.WaitGroup
	arrived.Add(2)
	var first atomic.Int32
	back := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if first.Add(1) <= 2 {
			arrived.Done()
			arrived.Wait()
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, answers[0].answer)
	})
	shared := NewInFlight()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	for range runs {
		tr := try(t, back, run.ProviderAnthropic, 0, func(c *Config) { c.InFlight = shared })
		for range each {
			all.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tr.url+messagesPath, strings.NewReader(""))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("X-Api-Key", runToken)
				req.Body, req.ContentLength = &sent{body: bytes.NewReader(body), release: func() {}}, int64(len(body))
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Error(resp.Status)
				}
			})
		}
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	// What was taken from the system is not given back: it tells the most there was.
	if took := after.HeapSys - before.HeapSys; took > most {
		t.Errorf("the heap grew by %d MiB for %d requests of %d MiB", took>>20, runs*each, maxRequest>>20)
	}
}
