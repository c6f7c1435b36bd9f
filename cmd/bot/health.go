package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// probeTime is how long a probe of the database may take.
	probeTime = 3 * time.Second
	// maxWait is how long a webhook waits at most to be dealt with where all is well.
	maxWait = 5 * time.Minute
)

// health answers whether the process is alive and whether it does its work: restart it
// where it is not alive, look at it where it is not ready.
func (a *app) health(mux *http.ServeMux) {
	var probing sync.Mutex // whoever asks often does not wear out the disk
	var fine time.Time
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		probing.Lock()
		defer probing.Unlock()
		if time.Since(fine) < time.Second {
			_, _ = io.WriteString(w, "ready\n")
			return
		}
		if troubles := a.troubles(r.Context()); len(troubles) > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "not ready: "+strings.Join(troubles, ", ")+"\n")
			return
		}
		fine = time.Now()
		_, _ = io.WriteString(w, "ready\n")
	})
}

// troubles names what keeps the server from its work. Strangers can read it, so the
// log has the details.
func (a *app) troubles(ctx context.Context) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if err := a.store.Writable(ctx); err != nil {
		a.log.Error().Err(err).Msg("not ready: webhooks are refused until the database can be written")
		names = append(names, "database")
	}
	if why := a.room().LacksDisk(); why != "" { // nothing is started either
		a.log.Error().Str("lacks", why).Msg("not ready: the disk of the data directory is nearly full")
		names = append(names, "disk")
	}
	oldest, err := a.store.OldestWaiting(ctx)
	if waits := a.deliveries.Now().Sub(oldest); err == nil && !oldest.IsZero() && waits > maxWait {
		a.log.Error().Dur("waits", waits).Msg("not ready: webhooks wait too long")
		names = append(names, fmt.Sprintf("the oldest webhook waits for %s", waits.Round(time.Minute)))
	}
	return names
}
