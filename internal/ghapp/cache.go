package ghapp

import (
	"sync"
	"time"
)

// maxCached bounds how many answers are kept.
const maxCached = 10_000

// Cache keeps answers of GitHub for a while. The zero value is ready.
type Cache[K comparable, V any] struct {
	mu   sync.Mutex
	kept map[K]cached[V]
}

type cached[V any] struct {
	value V
	until time.Time
}

// Get returns the answer under key, if there is one that still holds.
func (c *Cache[K, V]) Get(key K, now time.Time) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.kept[key]
	if !ok || !now.Before(a.until) {
		return value, false
	}
	return a.value, true
}

// Put keeps an answer until then.
func (c *Cache[K, V]) Put(key K, value V, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= maxCached {
		c.kept = map[K]cached[V]{}
	}
	c.kept[key] = cached[V]{value, until}
}
