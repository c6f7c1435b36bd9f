package host

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// NewID makes the name of a run: when it began, and enough chance that nobody
// can guess it.
func NewID(now time.Time) run.ID {
	return run.ID(now.UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:12]))
}
