//go:build postgres

package handlers_test

import (
	"context"
	"testing"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/org/ralph-action/internal/store/pgtest"
	"github.com/org/ralph-action/internal/store/queue"
)

// BenchmarkWebhookToPostgres is BenchmarkWebhook there; the bar is 0.8.
func BenchmarkWebhookToPostgres(b *testing.B) {
	open := func(b *testing.B) *system {
		b.Helper()
		return newSystemOn(b, pgtest.Start(b).URL(b), queue.Options{Node: "n"})
	}
	benchWebhooks(b, open, func(b *testing.B) func(context.Context, int) error {
		b.Helper()
		client, err := river.NewClient(riverpgxv5.New(open(b).store.Connections()), &river.Config{})
		if err != nil {
			b.Fatal(err)
		}
		return func(ctx context.Context, i int) error {
			_, err := client.Insert(ctx, benchArgs{GUID: guid(i)}, nil)
			return err
		}
	})
}
