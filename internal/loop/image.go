package loop

import (
	"context"
	"fmt"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// Image is one that has to be built before anything of the run can be started.
// The run is begun with its name, which stands for what it is made of.
type Image struct {
	Name string
	// Tree is the default branch's, as it was when the run began.
	Tree string
}

// imagePause is how often a build is looked at.
const imagePause = 2 * time.Second

// image waits until the image that the run began with is there. Without it
// nothing can be started, so that the run ends where it cannot be built.
func (e *Engine) image(ctx context.Context, s *State) (Next, error) {
	status, err := e.Runner.BuildImage(ctx, *s, *s.Build)
	switch {
	case err != nil:
		return Next{}, fmt.Errorf("build the image: %w", err)
	case e.overdue(*s):
		return e.finish(s, run.EndDeadline, "")
	case status.Running:
		return Next{Kind: Sleep, Until: e.Now().Add(imagePause)}, nil
	case status.Failed != "":
		return e.finish(s, run.EndFailed, "the image of the development container could not be built: "+
			oneLine(status.Failed, 800))
	}
	return e.prepare(ctx, s)
}
