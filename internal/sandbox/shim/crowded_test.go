package shim

import (
	"testing"

	"github.com/org/ralph-action/internal/sandbox"
)

// TestCrowdedIsToldApart: callers know by the words who is to blame for a full disk.
func TestCrowdedIsToldApart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		room room
		dir  usage
		want bool
	}{
		{room{200 << 20, 1 << 20}, unlimited(), true},
		{room{20 << 30, 1 << 20}, usage{-1, 100}, false},
	} {
		var said string
		disk{dirs: []string{t.TempDir()}, limit: tt.dir, room: func(string) (room, error) { return tt.room, nil }}.
			watch(t.Context(), func(s string) { said = s })
		st := sandbox.Status{Reason: sandbox.ReasonDiskLimit, Detail: said}
		if said == "" || st.Crowded() != tt.want {
			t.Errorf("%q: crowded %v", said, st.Crowded())
		}
	}
}
