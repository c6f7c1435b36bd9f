package store_test

import (
	"testing"
	"time"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

func TestBacklog(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	createRun(t, st, aRun("r-1", 1))
	for i := range 3 {
		deliver(t, st, store.Delivery{GUID: string(rune('a' + i)), Event: "push", ReceivedAt: t0().Add(time.Duration(i) * time.Minute)},
			time.Time{})
	}
	b, err := st.Backlog(t.Context())
	if err != nil || b.Waiting != 3 || !b.Oldest.Equal(t0()) || b.Runs[run.PhaseQueued] != 1 || b.Bytes == 0 {
		t.Errorf("%+v, %v", b, err)
	}
}
