package loop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/loop"
)

const oneTask = "- [ ] Migrate the ten modules\n"

// tickT1 ticks the box of T1 as an agent does.
func tickT1(w *world, s loop.State) {
	w.work[s.ProgressPath] = strings.Replace(w.work[s.ProgressPath], "- [ ] T1", "- [x] T1", 1)
}

// A box that is ticked beside words that say otherwise is not believed.
func TestWordsAgainstATick(t *testing.T) {
	t.Parallel()
	for _, final := range []string{
		"I migrated 1 of the 10 modules; nine remain, so I have not ticked the task",
		"TASK_INCOMPLETE",
		"Manual intervention needed to finish",
		"I did not finish; nine modules remain",
		"Tests still fail, I ran out of ideas",
		"STATUS: BLOCKED",
		"VERIFICATION_FAIL: 3 tests failed",
	} {
		t.Run(final, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.agent = func(w *world, s loop.State, _ loop.AgentStart) loop.AgentStatus {
				w.work["mod"] = fmt.Sprint(len(w.prompts))
				tickT1(w, s)
				return completed(final)
			}
			s := w.drive(loop.NewState(request(t, oneTask), w.now), nil)
			if s.End.Complete() || len(s.Commits) > 0 {
				t.Errorf("ended %s with %d commits", s.End, len(s.Commits))
			}
		})
	}
}
