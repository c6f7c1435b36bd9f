package reconcile

import (
	"sync"
	"time"
)

// maxRemembered bounds how many answers are kept.
const maxRemembered = 10_000

// remembered keeps answers of GitHub for a while. The zero value is ready.
type remembered[K comparable, V any] struct {
	mu   sync.Mutex
	kept map[K]answer[V]
}

type answer[V any] struct {
	value V
	until time.Time
}

func (m *remembered[K, V]) get(key K, now time.Time) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.kept[key]
	if !ok || !now.Before(a.until) {
		return value, false
	}
	return a.value, true
}

func (m *remembered[K, V]) put(key K, value V, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil || len(m.kept) >= maxRemembered {
		m.kept = map[K]answer[V]{}
	}
	m.kept[key] = answer[V]{value, until}
}
