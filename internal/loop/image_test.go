package loop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

func (w *world) needsImage(looks ...loop.ImageStatus) {
	w.settings.Image = "made:1"
	w.build = &loop.Image{Name: "made:1", Tree: "tree of the default branch"}
	w.builds = looks
}

// TestImageIsBuiltFirst: nothing is started before the image is there, wherever
// the process dies meanwhile, and what is built is what the run began with.
func TestImageIsBuiltFirst(t *testing.T) {
	t.Parallel()
	for crashAt := range 8 {
		w := newWorld(t)
		w.needsSetup()
		w.needsImage(loop.ImageStatus{Running: true}, loop.ImageStatus{Running: true}, loop.ImageStatus{Running: true})
		began := w.now
		s := w.drive(loop.NewState(request(t, threeTasks), w.now), func(step int) bool {
			if len(w.builds) > 0 && (len(w.checks) > 0 || len(w.agents) > 0) {
				t.Error("something was started while the image was built")
			}
			// The default branch moves on.
			w.build = &loop.Image{Name: "made:2", Tree: "another"}
			w.settings.Image = w.build.Name
			return step == crashAt
		})
		want := "made:1"
		if crashAt == 0 {
			want = "made:2" // nothing was stored of what it had seen
		}
		if s.End != run.EndAllTasksComplete || s.Image != want {
			t.Errorf("crash at step %d: ended %s in %s, want %s: %s", crashAt, s.End, s.Image, want, s.EndDetail)
		}
		for _, b := range w.built {
			if b != *s.Build {
				t.Errorf("crash at step %d: %+v was built", crashAt, b)
			}
		}
		if w.now.Sub(began) < 3*time.Second {
			t.Error("nobody waited for the build")
		}
	}
}

func TestImageCannotBeBuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.needsImage(loop.ImageStatus{Running: true}, loop.ImageStatus{Failed: "RUN make:\nno such file"})
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	if s.End != run.EndFailed || !strings.Contains(s.EndDetail, "could not be built: RUN make: no such file") {
		t.Errorf("ended %s: %s", s.End, s.EndDetail)
	}
	if len(w.agents) != 0 {
		t.Error("an agent was started without an image")
	}
}

// TestImageInTime: a build that never ends does not outlast the run.
func TestImageInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 1000 {
		w.builds = append(w.builds, loop.ImageStatus{Running: true})
	}
	w.needsImage(w.builds...)
	r := request(t, threeTasks)
	r.Limits.RunTimeout = time.Minute
	if s := w.drive(loop.NewState(r, w.now), nil); s.End != run.EndDeadline {
		t.Errorf("ended %s: %s", s.End, s.EndDetail)
	}
}
