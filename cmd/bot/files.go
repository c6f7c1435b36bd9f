//go:build unix

package main

import (
	"context"
	"time"

	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/blob"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/store"
)

// elsewhere is where a server's files are that outlive its machine; nothing where they stay in
// data_dir. st is nil where the database is not open.
func elsewhere(cfg config.Server, st *store.Store, now func() time.Time) (to transcript.Elsewhere, err error) {
	if cfg.DatabaseURL == "" || st == nil {
		return to, nil
	}
	to.Files, to.Gone = blob.Seal(st.Blobs(now), nil), st.Gone
	return to, nil
}

// readElsewhere is elsewhere for a command beside the server. What it opens for that is closed
// by end.
func readElsewhere(ctx context.Context, cfg config.Server) (to transcript.Elsewhere, end func() error, err error) {
	end = func() error { return nil }
	if cfg.DatabaseURL == "" {
		return to, end, nil
	}
	st, err := openServerStore(ctx, cfg)
	if err != nil {
		return to, end, err
	}
	to, err = elsewhere(cfg, st, time.Now)
	return to, st.Close, err
}
