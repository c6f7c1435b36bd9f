package spend_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/gateway/spend/spendtest"
	"github.com/org/ralph-action/internal/run"
)

// counting counts what is written of hosts.
type counting struct {
	spend.Ledger
	mu     sync.Mutex
	writes int
}

func (c *counting) Reach(ctx context.Context, start string, u run.HostUse) error {
	c.mu.Lock()
	c.writes++
	c.mu.Unlock()
	return c.Ledger.Reach(ctx, start, u)
}

func hostMeter(t *testing.T, dir string) (*spend.Meter, *counting) {
	t.Helper()
	c := &counting{Ledger: spendtest.Open(t, dir)}
	m := spend.NewMeter(c, nil)
	if err := m.Begin(t.Context(), spend.Start{Name: "r1-1"}); err != nil {
		t.Fatal(err)
	}
	return m, c
}

func hostReport(t *testing.T, m *spend.Meter) []run.HostUse {
	t.Helper()
	r, err := m.Report(t.Context(), "r1-1")
	if err != nil {
		t.Fatal(err)
	}
	return r.Hosts
}

// A hostile agent that asks for the same a hundred thousand times, and for many
// different hosts, is told of in full and written down in little.
func TestBlockedHostsAreBounded(t *testing.T) {
	t.Parallel()
	const maxHosts = 60 // that are kept of a start
	m, c := hostMeter(t, t.TempDir())
	for i := range 100_000 {
		if err := m.Block(t.Context(), "r1-1", "evil.example", "why"); err != nil {
			t.Fatal(err)
		}
		if i == 0 && len(hostReport(t, m)) != 1 {
			t.Error("the first time is not in the ledger at once")
		}
	}
	if c.writes > 20 {
		t.Errorf("%d writes", c.writes)
	}
	for i := range 1000 {
		if err := m.Block(t.Context(), "r1-1", fmt.Sprintf("%d.example", i), "why"); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.End(t.Context(), "r1-1"); err != nil {
		t.Fatal(err)
	}
	got := hostReport(t, m)
	if len(got) != maxHosts+1 || c.writes > 20+maxHosts+20 {
		t.Fatalf("%d hosts, %d writes", len(got), c.writes)
	}
	first, rest := got[0], got[maxHosts]
	if first.Count != 100_000 || rest.Host != run.OtherHosts || rest.Blocked != "why" || rest.Count != 1000-maxHosts+1 {
		t.Errorf("%+v, and of the others %+v", first, rest)
	}
}

func TestPassages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m, _ := hostMeter(t, dir)
	first, _, err := m.Pass(t.Context(), "r1-1", "a.example")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]run.HostUse{{Host: "a.example", Count: 1}}, hostReport(t, m)); diff != "" {
		t.Errorf("while it is open:\n%s", diff)
	}
	first.Close(10, 1000)
	// Another process takes over: what was written is taken up.
	m, _ = hostMeter(t, dir)
	second, ctx, err := m.Pass(t.Context(), "r1-1", "a.example")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-ctx.Done() // the end of the start ends the connection
		second.Close(1, 2)
	}()
	if err := m.End(t.Context(), "r1-1"); err != nil {
		t.Fatal(err)
	}
	<-closed
	// The bytes of the first were lost with the process, the connection was not.
	if diff := cmp.Diff([]run.HostUse{{Host: "a.example", Count: 2, Sent: 1, Received: 2}}, hostReport(t, m)); diff != "" {
		t.Error(diff)
	}
	if _, _, err := m.Pass(t.Context(), "r1-1", "a.example"); !errors.Is(err, spend.ErrUnknownStart) {
		t.Errorf("after the end: %v", err)
	}
	if err := m.End(t.Context(), "r1-1"); err != nil {
		t.Errorf("a second end: %v", err)
	}
}

// A connection that nobody closes does not hold up its start for ever.
func TestEndWaitsNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	m, _ := hostMeter(t, t.TempDir())
	p, open, err := m.Pass(t.Context(), "r1-1", "a.example")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	context.AfterFunc(open, func() { cancel(enough) }) // End waits for the connection
	if err := m.End(ctx, "r1-1"); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	p.Close(3, 4)
	if err := m.End(t.Context(), "r1-1"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]run.HostUse{{Host: "a.example", Count: 1, Sent: 3, Received: 4}}, hostReport(t, m)); diff != "" {
		t.Error(diff)
	}
}

// A client that goes away at once does not keep what it did out of the report.
func TestNotedWithoutTheClient(t *testing.T) {
	t.Parallel()
	m, _ := hostMeter(t, t.TempDir())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Block(gone, "r1-1", "a.example", "why"); err != nil {
		t.Fatal(err)
	}
	p, _, err := m.Pass(gone, "r1-1", "b.example")
	if err != nil {
		t.Fatal(err)
	}
	p.Close(0, 0)
	if err := m.Refuse(gone, "r1-1", spend.Refusal{Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	got, err := m.Report(t.Context(), "r1-1")
	if err != nil {
		t.Fatal(err)
	}
	want := spend.Report{
		Refused: []spend.Refusal{{Reason: "no"}},
		Hosts:   []run.HostUse{{Host: "a.example", Blocked: "why", Count: 1}, {Host: "b.example", Count: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
