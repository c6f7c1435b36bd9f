package ghapp

import (
	"context"
	"maps"
	"sync"
)

// CallCounts says how many requests were sent to GitHub. A repeated request
// counts each time.
type CallCounts struct {
	REST, GraphQL int
	// ByPurpose breaks the sum down by the purpose given to WithPurpose.
	// Tokens are minted under "token"; calls without a purpose are "other".
	ByPurpose map[string]int
}

// counter counts requests. The zero value is ready; it is safe for concurrent
// use.
type counter struct {
	mu     sync.Mutex
	counts CallCounts
}

// Counts returns what was counted so far.
func (c *counter) Counts() CallCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.counts
	out.ByPurpose = maps.Clone(c.counts.ByPurpose)
	if out.ByPurpose == nil {
		out.ByPurpose = map[string]int{}
	}
	return out
}

func (c *counter) add(graphQL bool, purpose string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if graphQL {
		c.counts.GraphQL++
	} else {
		c.counts.REST++
	}
	if c.counts.ByPurpose == nil {
		c.counts.ByPurpose = make(map[string]int)
	}
	c.counts.ByPurpose[purpose]++
}

type purposeKey struct{}

// WithPurpose names what the requests made under the returned context are for
// ("commit", "pr-body", …). It is counted in this process and never sent.
func WithPurpose(ctx context.Context, purpose string) context.Context {
	return context.WithValue(ctx, purposeKey{}, purpose)
}

func purposeOf(ctx context.Context) string {
	if p, ok := ctx.Value(purposeKey{}).(string); ok && p != "" {
		return p
	}
	return "other"
}
