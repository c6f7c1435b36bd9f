package host

import (
	"context"
	"errors"
	"testing"

	"github.com/org/ralph-action/internal/gitrepo"
)

// The result of a fetch is for those who asked while it was under way.
func TestFreshIsFresh(t *testing.T) {
	t.Parallel()
	life, stop := context.WithCancel(t.Context())
	m := NewMirrors(life, nil, t.TempDir())
	updates := 0
	update := func(context.Context) (*gitrepo.Repo, error) {
		updates++ // one fetch at a time
		return nil, nil
	}
	impatient, giveUp := context.WithCancel(t.Context())
	giveUp()
	early, late := &MirrorSource{Node: "R"}, &MirrorSource{Node: "R"}
	leave := func() { // a fetch whose result early does not wait for
		t.Helper()
		ended := make(chan struct{})
		_, err := m.fresh(impatient, early, func(ctx context.Context) (*gitrepo.Repo, error) {
			<-ended
			return update(ctx)
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		close(ended)
		m.Wait()
	}
	leave()
	for n, asker := range []*MirrorSource{early, early} {
		if _, err := m.fresh(t.Context(), asker, update); err != nil || updates != n+1 {
			t.Errorf("asking again: %d fetches, %v, want %d", updates, err, n+1)
		}
	}
	leave()
	before := updates
	if _, err := m.fresh(t.Context(), late, update); err != nil || updates != before+1 {
		t.Errorf("what was done before the asking was handed out: %d fetches after %d, %v", updates, before, err)
	}
	// A fetch ends with the process.
	stop()
	if _, err := m.fresh(t.Context(), late, func(ctx context.Context) (*gitrepo.Repo, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
