package handlers_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/store"
)

// BenchmarkWebhook measures webhooks over loopback HTTP, each of them verified,
// deduplicated, on disk, and answered; and the same rows stored without HTTP in the
// same kind of file. The webhook benchmarks report webhooks/s ÷ inserts/s as "ratio",
// taken in turns so that both see the same machine; the bar is 0.5.
func BenchmarkWebhook(b *testing.B) {
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("insert/clients=%d", clients), func(b *testing.B) {
			insert := insertRow(b)
			b.ResetTimer()
			took := spend(b, clients, 0, b.N, insert)
			b.ReportMetric(float64(b.N)/took.Seconds(), "inserts/s")
		})
		b.Run(fmt.Sprintf("webhook/clients=%d", clients), func(b *testing.B) {
			post, insert := webhook(b, newSystem(b), clients), insertRow(b)
			var posting, inserting time.Duration
			b.ResetTimer()
			const turn = 100
			for i := 0; i < b.N; i += turn {
				n := min(turn, b.N-i)
				posting += spend(b, clients, i, n, post)
				b.StopTimer()
				inserting += spend(b, clients, i, n, insert)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N)/posting.Seconds(), "webhooks/s")
			b.ReportMetric(inserting.Seconds()/posting.Seconds(), "ratio")
		})
	}
}

// spend calls f n times, counting from first, from a number of clients, and
// says how long that took.
func spend(b *testing.B, clients, first, n int, f func(ctx context.Context, i int) error) time.Duration {
	b.Helper()
	begin := time.Now()
	g, ctx := errgroup.WithContext(b.Context())
	for c := range clients {
		g.Go(func() error {
			for i := c; i < n; i += clients {
				if err := f(ctx, first+i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

// webhook returns a function that delivers the issues event number i.
func webhook(b *testing.B, s *system, clients int) func(ctx context.Context, i int) error {
	b.Helper()
	h, err := handlers.New(handlers.Config{Secrets: []string{secret}, Inbox: s.store, Queue: s.queue})
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(h)
	b.Cleanup(srv.Close)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	b.Cleanup(client.CloseIdleConnections)
	body := payload(b, "issues.labeled", nil)
	signed := delivery("issues", "", body)
	return func(ctx context.Context, i int) error {
		req := signed.with("X-GitHub-Delivery", guid(i))
		req.body = bytes.NewReader(body)
		status, err := req.do(ctx, client, srv.URL)
		if err == nil && status != http.StatusAccepted {
			err = fmt.Errorf("status %d", status)
		}
		return err
	}
}

// insertRow returns a function that stores the delivery number i.
func insertRow(b *testing.B) func(ctx context.Context, i int) error {
	b.Helper()
	s := newSystem(b)
	body := payload(b, "issues.labeled", nil)
	return func(ctx context.Context, i int) error {
		return s.store.InTx(ctx, func(tx *store.Tx) error {
			_, err := s.store.InsertDelivery(ctx, tx, store.Delivery{GUID: guid(i), Event: "issues", Body: body, ReceivedAt: now()})
			return err
		})
	}
}

// guid has the length of GitHub's.
func guid(n int) string { return fmt.Sprintf("72d3162e-cc78-11e3-81ab-%012x", n) }
