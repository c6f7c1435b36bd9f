package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/moby/client"

	"github.com/org/ralph-action/internal/sandbox/internal/rundir"
)

// Reap removes the containers of this
// installation whose start nobody remembers. Start notes itself before its
// container is made, and Remove forgets it after the container is gone, so that
// one without a note belongs to a run whose directory was deleted.
func (s *Sandbox) Reap(ctx context.Context) (int, error) {
	if s.opts.Installation == "" {
		return 0, nil
	}
	list, err := s.engine.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", labelInstallation+"="+s.opts.Installation),
	})
	if err != nil {
		return 0, fmt.Errorf("look for containers of earlier runs: %w", unavailable(err))
	}
	var errs []error
	removed := 0
	for _, c := range list.Items {
		dir := c.Labels[labelRunDir]
		if !filepath.IsAbs(dir) {
			continue // not made by Start
		}
		noted, found, err := rundir.Dir(dir).Started()
		if err == nil && found && noted.Name == c.Labels[labelStart] {
			continue
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		if err := s.removeContainer(ctx, c.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove the container of an earlier run: %w", unavailable(err)))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}
