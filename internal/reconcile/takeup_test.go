package reconcile

import (
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery/deliverytest"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// TestWhatEndedRunsAreAsked is done by another run where the last one ended in a way that lets it, in the
// name of somebody who may still ask; otherwise people are told, and reviews wait.
func TestWhatEndedRunsAreAsked(t *testing.T) {
	t.Parallel()
	const ada, name = deliverytest.Ada, deliverytest.Name
	st := deliverytest.New(t, nil)
	st.User("grace", ghsim.RoleWrite)
	bot := st.Bot("nitpicker")
	st.Let(func(p *config.People) { p.Bots = []int64{bot.BotID} })
	r := New(Config{Store: st.Store, GitHub: st.GitHub, DataDir: t.TempDir(), Now: st.Now}, st.Receiver)
	review := func(by string) func(issue, pull int) {
		return func(_, pull int) {
			_, err := st.Review(ada, name, pull, by, "CHANGES_REQUESTED", "Make it blue.",
				ghsim.ReviewLine{Path: "README.md", Line: 1, Body: "Shorter."})
			st.Must(err)
		}
	}
	for about, tt := range map[string]struct {
		end run.EndReason
		ask func(issue, pull int)
		// loses is who has no write access any more once the run has ended.
		loses string
		// runs is on whose behalf another run begins, "" for none; said is what people are told on the
		// issue or the pull request, and left what waits for a run.
		runs, said string
		left       int
	}{
		"a command": {end: run.EndAllTasksComplete, runs: ada, left: 1, ask: func(issue, _ int) {
			st.Say(ada, issue, "/ralph do Write four")
		}},
		"one of somebody who lost access, and another": {
			end: run.EndAllTasksComplete, loses: "grace", runs: ada, said: "you no longer have write access", left: 1,
			ask: func(issue, _ int) {
				st.Say("grace", issue, "/ralph do Write four")
				st.Say(ada, issue, "/ralph do Write five")
			},
		},
		"one of somebody who lost access": {
			end: run.EndBudgetExhausted, loses: "grace", said: "you no longer have write access",
			ask: func(issue, _ int) { st.Say("grace", issue, "/ralph budget +5") },
		},
		"a command, and the run was stopped": {end: run.EndCancelled, said: "the run ended before I could do that", ask: func(issue, _ int) {
			st.Say(ada, issue, "/ralph do Write four")
		}},
		"a review":                                  {end: run.EndAllTasksComplete, ask: review("grace"), runs: "grace", left: 2},
		"a review, and the run was stopped":         {end: run.EndCancelled, ask: review(ada), said: "`/ralph resume`", left: 2},
		"a bot's review":                            {end: run.EndAllTasksComplete, ask: review(bot.BotLogin), runs: ada, left: 2},
		"a bot's review, and tasks are left":        {end: run.EndBlocked, ask: review(bot.BotLogin), left: 2},
		"a bot's review, and whoever began may not": {end: run.EndAllTasksComplete, ask: review(bot.BotLogin), loses: "grace", left: 2},
	} {
		st.Must(st.SetPermission(ada, name, "grace", ghsim.RoleWrite))
		st.Pass(time.Hour)
		issue := st.Write("Say hello", deliverytest.Text).Number
		by := ada
		if strings.Contains(about, "whoever began") {
			by = tt.loses
		}
		st.PutLabel(by, issue)
		st.Work()
		pull := st.Pull(issue)
		tt.ask(issue, pull)
		st.Work()
		if tt.loses != "" {
			st.Must(st.SetPermission(ada, name, tt.loses, ghsim.RoleRead))
		}
		st.Pass(2 * time.Minute)
		st.Save(issue, func(s *loop.State) {
			s.Phase, s.End, s.Progress = run.PhasePaused, tt.end, "# Progress: Say hello\n\n## Tasks\n\n- [ ] T1 Write one\n"
		})
		_, row := st.Runs(issue)
		for range 2 {
			if _, err := r.takeUp(t.Context(), row); err != nil {
				t.Fatalf("%s: %v", about, err)
			}
		}
		runs := ""
		if n, _ := st.Runs(issue); n > 1 {
			runs = st.State(issue).Subject.RequestedBy
		}
		if left := st.Inputs(issue); runs != tt.runs || len(left) != tt.left {
			t.Errorf("%s: a run for %q, want %q; left %+v", about, runs, tt.runs, left)
		}
		if tt.end == run.EndCancelled && len(st.Said(issue)) == 0 {
			issue = pull // where reviews are answered
		}
		st.SaysOnce(issue, tt.said, about)
	}
}
