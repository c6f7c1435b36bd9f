package ghapp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/go-github/v60/github"
)

// Attempt is one try of GitHub's to deliver a webhook to the App.
type Attempt struct {
	ID int64
	// GUID names the event; attempts at the same event share it.
	GUID          string
	Event, Action string
	At            time.Time
	// Arrived: the App answered that it has it.
	Arrived bool
	// Code is the HTTP status that GitHub was answered with, 0 for none.
	Code int
}

// maxAttemptPages bounds how far back attempts are looked at.
const maxAttemptPages = 10

// Attempts lists GitHub's tries to deliver webhooks to the App since a time, the
// newest first, as far back as GitHub keeps them and we look.
func (a *App) Attempts(ctx context.Context, since time.Time) ([]Attempt, error) {
	ctx = WithPurpose(ctx, "missed")
	var out []Attempt
	opts := &github.ListCursorOptions{PerPage: pageSize}
	for range maxAttemptPages {
		page, resp, err := a.jwtClient.Apps.ListHookDeliveries(ctx, opts)
		if err != nil {
			return nil, wrap("list webhook deliveries", err)
		}
		for _, d := range page {
			at := d.GetDeliveredAt().Time
			if at.Before(since) {
				return out, nil
			}
			code := d.GetStatusCode()
			out = append(out, Attempt{
				ID: d.GetID(), GUID: d.GetGUID(), Event: d.GetEvent(), Action: d.GetAction(), At: at, Code: code,
				Arrived: code >= http.StatusOK && code < http.StatusMultipleChoices,
			})
		}
		if resp.Cursor == "" {
			return out, nil
		}
		opts.Cursor = resp.Cursor
	}
	return out, nil
}

// Redeliver has GitHub deliver a webhook again.
func (a *App) Redeliver(ctx context.Context, attempt int64) error {
	_, _, err := a.jwtClient.Apps.RedeliverHookDelivery(WithPurpose(ctx, "missed"), attempt)
	if _, accepted := errors.AsType[*github.AcceptedError](err); accepted {
		return nil
	}
	return wrap("redeliver a webhook", err)
}
