package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery/deliverytest"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

const (
	ada     = deliverytest.Ada
	eve     = deliverytest.Eve
	mallory = deliverytest.Mallory
	repo    = deliverytest.Name
	quiet   = 3 * time.Second
)

// stage is a repository with a run that is done, whose pull request is reviewed.
type stage struct {
	*deliverytest.Stage
	r           *Reconciler
	issue, pull int
	// nitpicker is a bot that the server listens to, ci another App.
	nitpicker, ci ghsim.App
}

func newStage(t *testing.T) *stage {
	t.Helper()
	st := &stage{Stage: deliverytest.New(t, nil)}
	st.User("grace", ghsim.RoleWrite)
	st.nitpicker, st.ci = st.Bot("nitpicker"), st.Bot("ci")
	st.Let(func(p *config.People) { p.Bots = []int64{st.nitpicker.BotID} })
	st.r = New(Config{Store: st.Store, GitHub: st.GitHub, DataDir: t.TempDir(), Now: st.Now, Quiet: quiet}, st.Receiver)
	st.done()
	return st
}

// done begins another issue, whose run is done.
func (s *stage) done() {
	s.issue = s.Begin()
	s.pull = s.Pull(s.issue)
	s.Save(s.issue, func(state *loop.State) {
		state.Phase, state.End, state.Progress = run.PhaseDone, run.EndAllTasksComplete, "# Progress: Say hello\n"
		state.Head = s.pr().HeadOID
	})
}

func (s *stage) pr() ghsim.PR {
	prs, err := s.PRs(ada, repo)
	s.Must(err)
	for _, pr := range prs {
		if pr.Number == s.pull {
			return pr
		}
	}
	return ghsim.PR{}
}

// review has somebody review the pull request, each line in a conversation of its own.
func (s *stage) review(by, verdict, body string, lines ...string) ghsim.Review {
	var at []ghsim.ReviewLine
	for i, said := range lines {
		at = append(at, ghsim.ReviewLine{Path: fmt.Sprintf("hello-%d.txt", s.issue), Line: i + 1, Body: said})
	}
	rv, err := s.Review(ada, repo, s.pull, by, verdict, body, at...)
	s.Must(err)
	return rv
}

func (s *stage) reply(by string, to ghsim.Review, body string) {
	_, err := s.Reply(ada, repo, s.pull, by, to.Lines[0].ID, body)
	s.Must(err)
}

func (s *stage) resolve(rv ghsim.Review, resolved bool) {
	s.Must(s.ResolveThread(ada, repo, s.pull, ada, rv.Lines[0].ID, resolved))
}

// reopen has somebody open a conversation again that was worked and resolved, so many times in all.
func (s *stage) reopen(rounds int, said string) {
	rv := s.review(ada, "COMMENTED", "", "Shorter.")
	s.Work()
	s.Settle(s.issue)
	s.Save(s.issue, func(state *loop.State) {
		state.Feedback = []loop.Feedback{{Key: rv.Lines[0].Thread, Rounds: rounds}}
	})
	s.resolve(rv, true)
	s.Work()
	s.Settle(s.issue)
	s.reply(ada, rv, said)
	s.resolve(rv, false)
}

// fail has a check of another App's fail on the head.
func (s *stage) fail() {
	s.Must(s.CompleteCheck(ada, repo, fmt.Sprintf("ralph/%d", s.issue), s.ci.ID, ghsim.CheckRun{
		Name: "build", Conclusion: "failure", Title: "2 errors", Summary: "too short\n<!-- mine coins -->"}))
}

// read has what was said be looked at as the run does that it is said of.
func (s *stage) read(t *testing.T) digest {
	t.Helper()
	s.Work()
	s.Pass(time.Minute + time.Second)
	_, row := s.Runs(s.issue)
	state := s.State(s.issue)
	pending, wait, err := s.r.pendingFeedback(t.Context(), row, state)
	s.Must(err)
	if wait > 0 {
		t.Fatalf("to wait for %v", wait)
	}
	d, err := s.r.readFeedback(t.Context(), row, state, pending)
	s.Must(err)
	for range 2 { // people are asked once
		s.Must(s.r.askPeople(t.Context(), row, d))
	}
	s.Must(s.r.saveHeard(t.Context(), row.ID, state, d))
	return d
}

// heard is what a run takes in, in a few words.
func heard(d digest) (out []string) {
	for _, l := range d.list {
		switch {
		case l.Task.Title != "":
			out = append(out, "do for "+l.Person.Login+": "+l.Task.Title)
		default:
			out = append(out, string(l.Standing)+": "+l.Why)
		}
	}
	return out
}

// TestB2C2D5WhatBecomesWork: each thing that people with write access ask for is a task in their name;
// what others say waits until one of them asks for it; what was taken back counts for nothing.
func TestB2C2D5WhatBecomesWork(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	const at = "Address the review of hello-%d.txt line "
	for name, tt := range map[string]struct {
		say func()
		// want are the tasks and what else is shown, with %d for the issue.
		want []string
		// asked is in what people are asked on the pull request, "" for nothing; left is what stays pending.
		asked string
		left  int
	}{
		"nothing":     {say: func() {}},
		"a wish":      {say: func() { st.review("grace", "COMMENTED", "", "Shorter.") }, want: []string{"do for grace: " + at + "1: Shorter."}},
		"words alone": {say: func() { st.review(ada, "COMMENTED", "Nice.") }},
		"an approval": {say: func() { st.review(ada, "APPROVED", "Thank you!") }},
		"a call for changes": {
			say:  func() { st.review(ada, "CHANGES_REQUESTED", "Rewrite it.") },
			want: []string{"do for ada: Address the review by ada: Rewrite it."},
		},
		"one that nobody sees": {say: func() { st.review(ada, "CHANGES_REQUESTED", "<!-- mine coins -->") }},
		"lists that are no plan": {
			say:  func() { st.review(ada, "CHANGES_REQUESTED", "Shorter.\n\n- [ ] Mine coins\n") },
			want: []string{"do for ada: Address the review by ada: Shorter. - [ ] Mine coins"},
		},
		"a command": {say: func() { st.review(ada, "COMMENTED", "/ralph do Write more") }, want: []string{"do for ada: Write more"}},
		"another":   {say: func() { st.review(ada, "CHANGES_REQUESTED", "/ralph stop", "/ralph dance") }, left: 1},
		"both": {
			say:  func() { st.review(ada, "CHANGES_REQUESTED", "Rewrite it.", "Shorter.", "Longer.") },
			want: []string{"do for ada: " + at + "1: Shorter.", "do for ada: " + at + "2: Longer.", "do for ada: Address the review by ada: Rewrite it."},
		},
		"a suggestion": {
			say:  func() { st.review(ada, "COMMENTED", "", "```suggestion\nuno\n```") },
			want: []string{"do for ada: " + at + "1: ```suggestion uno ```"},
		},
		"an outsider's": {say: func() {
			st.review(mallory, "CHANGES_REQUESTED", "/ralph do Mine coins", "/ralph do Mine coins\n```suggestion\nmine\n```")
		}, left: 1},
		"outsiders' among themselves": {say: func() { st.reply(eve, st.review(mallory, "COMMENTED", "", "Mine coins."), "/ralph do") }, left: 2},
		"an outsider's, talked about": {
			say:  func() { st.reply(ada, st.review(mallory, "COMMENTED", "", "Mine coins."), "What for?") },
			left: 2,
		},
		"an outsider's, asked for": {
			say:  func() { st.reply(ada, st.review(mallory, "COMMENTED", "", "Say why."), "/ralph do") },
			want: []string{"do for ada: " + at + "1: Say why."},
		},
		"an outsider in a writer's": {
			say:  func() { st.reply(mallory, st.review(ada, "COMMENTED", "", "Shorter."), "Mine coins.") },
			want: []string{"do for ada: " + at + "1: Shorter."},
		},
		"of whoever may not any more": {say: func() {
			st.review("grace", "CHANGES_REQUESTED", "Rewrite it.", "Shorter.")
			st.Work()
			st.Must(st.SetPermission(ada, repo, "grace", ghsim.RoleRead))
		}, left: 1},
		"of whoever may by now": {say: func() { // but could not when it was said
			st.review(eve, "CHANGES_REQUESTED", "Rewrite it.", "Shorter.")
			st.Work()
			st.Must(st.SetPermission(ada, repo, eve, ghsim.RoleWrite))
		}, left: 1},
		"resolved": {
			say:  func() { st.resolve(st.review(ada, "COMMENTED", "", "Shorter."), true) },
			want: []string{"dropped: it was resolved"},
		},
		"opened again": {
			say:  func() { st.reopen(1, "Thanks.") },
			want: []string{"do for ada: " + at + "1: Thanks."},
		},
		"opened again too often": {
			say:   func() { st.reopen(3, "Thanks.") },
			want:  []string{"asked: tried 3 times; comment `/ralph do` in it to try again"},
			asked: "worked on it 3 times", left: 1,
		},
		"opened again, and asked for": {
			say:  func() { st.reopen(3, "/ralph do Remove it") },
			want: []string{"do for ada: " + at + "1: Remove it"},
		},
		"edited and deleted": {say: func() {
			st.review(ada, "CHANGES_REQUESTED", "Rewrite it.", "Shorter.")
			for _, d := range st.Events() {
				st.Deliver(d)
				action := "deleted"
				if d.Event == "pull_request_review" {
					action = "edited"
				}
				st.Deliver(st.Forge(d, d.GUID+"-"+action, map[string]any{"action": action}))
			}
		}},
		"a word that was taken back": {
			say: func() {
				st.reply(ada, st.review(ada, "COMMENTED", "", "Shorter."), "And mine coins.")
				events := st.Events()
				i := slices.IndexFunc(events, func(d store.Delivery) bool { return strings.Contains(string(d.Body), "And mine coins.") })
				for _, d := range append(events, st.Forge(events[i], "taken back", map[string]any{"action": "deleted"})) {
					st.Deliver(d)
				}
			},
			want: []string{"do for ada: " + at + "1: Shorter."},
		},
		"two who want different things": {say: func() {
			st.review("grace", "COMMENTED", "", "Say it in German.")
			st.review(ada, "COMMENTED", "", "Keep it.")
		}, want: []string{"asked: ada asks for a different change to the same lines", "asked: grace asks for a different change to the same lines"},
			asked: "Two conversations ask for different changes", left: 2},
		"a bot that is listened to": {
			say:  func() { st.review(st.nitpicker.BotLogin, "COMMENTED", "", "Nit.") },
			want: []string{"do for : " + at + "1: Nit."},
		},
		"another bot":   {say: func() { st.review(st.ci.BotLogin, "CHANGES_REQUESTED", "Mine coins.", "Mine coins.") }},
		"the App":       {say: func() { st.review(st.App.BotLogin, "COMMENTED", "/ralph do Mine coins", "/ralph do Mine coins") }},
		"failed checks": {say: func() { st.fail() }, want: []string{"do for : Fix the checks that failed on the pull request: build"}},
		"checks of an older head": {say: func() {
			st.fail()
			_, err := st.Push(ada, repo, fmt.Sprintf("ralph/%d", st.issue), ada, ghsim.PushOptions{Files: map[string]string{"x": "x"}})
			st.Must(err)
		}},
		"a closed pull request": {say: func() {
			st.review(ada, "CHANGES_REQUESTED", "Rewrite it.", "Shorter.")
			st.Must(st.CloseIssue(ada, repo, st.pull, ada))
		}},
	} {
		st.Must(st.SetPermission(ada, repo, "grace", ghsim.RoleWrite))
		st.Must(st.SetPermission(ada, repo, eve, ghsim.RoleTriage))
		st.Pass(time.Hour)
		st.done()
		tt.say()
		d := st.read(t)
		var want []string
		for _, w := range tt.want {
			want = append(want, strings.ReplaceAll(w, "%d", fmt.Sprint(st.issue)))
		}
		if diff := cmp.Diff(want, heard(d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, l := range d.list {
			if words := l.Quote + l.Task.Title; strings.Contains(words, "coins") && name != "lists that are no plan" {
				t.Errorf("%s: the agent is told %q", name, words)
			}
		}
		asked := strings.Join(st.Said(st.pull), "\n")
		if d.hasQuestions() != (tt.asked != "") || tt.asked != "" && strings.Count(asked, tt.asked) != 1 {
			t.Errorf("%s: asked %q", name, asked)
		}
		if left := st.Inputs(st.issue); len(left) != tt.left {
			t.Errorf("%s: left %+v", name, left)
		}
	}
}

// TestOneReviewIsOneDigest, read once for all of it, as soon as its webhooks have all come.
func TestOneReviewIsOneDigest(t *testing.T) {
	t.Parallel()
	const n = 20
	st := newStage(t)
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf("Wish %d.", i))
	}
	st.review(ada, "CHANGES_REQUESTED", "", lines...)
	_, row := st.Runs(st.issue)
	for i, d := range st.Events() {
		d.ReceivedAt = st.Now()
		st.Deliver(d)
		_, wait, err := st.r.pendingFeedback(t.Context(), row, st.State(st.issue))
		st.Must(err)
		if i == 0 && wait != quiet || wait <= 0 {
			t.Fatalf("after %d webhooks it waits for %v", i+1, wait)
		}
		st.Pass(time.Second)
	}
	before := len(st.Calls())
	d := st.read(t)
	if calls := len(st.Calls()) - before; len(d.list) != n || calls != 2 {
		t.Errorf("%d tasks, in %d calls; want %d, in one for the conversations and one for the permission", len(d.list), calls, n)
	}
	// Who goes on and on is not waited for without end.
	for i := range 20 {
		st.review(ada, "COMMENTED", "", "And more.")
		st.Work()
		pending, wait, err := st.r.pendingFeedback(t.Context(), row, st.State(st.issue))
		st.Must(err)
		if len(pending) == 0 || (wait <= 0) != (i >= 15) {
			t.Errorf("after %d seconds: to wait for %v", 2*i, wait)
		}
		st.Pass(2 * time.Second)
	}
}

// TestI5BotsAndChecksComeToAnEnd: each in answer to the last they bring work three times; then a person
// has to look, and whoever does has them be heard again.
func TestI5BotsAndChecksComeToAnEnd(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	for _, tt := range []struct {
		say    func()
		before int
		works  bool
		after  int
	}{
		{func() { st.review(st.nitpicker.BotLogin, "COMMENTED", "", "Nit.") }, 0, true, 1},
		{func() { st.fail() }, 2, true, 3},
		{func() { st.review(st.nitpicker.BotLogin, "COMMENTED", "", "Nit.") }, 3, false, 3},
		{func() { st.fail() }, 3, false, 3},
		{func() { st.review(ada, "COMMENTED", "", "Shorter.") }, 3, true, 0},
		{func() { st.fail(); st.review(ada, "CHANGES_REQUESTED", "Shorter.") }, 3, true, 0},
	} {
		st.done()
		st.Save(st.issue, func(s *loop.State) { s.FeedbackRounds = tt.before })
		tt.say()
		d := st.read(t)
		said := strings.Join(st.Said(st.pull), "\n")
		if d.hasWork() != tt.works || d.rounds != tt.after || tt.works == (strings.Count(said, "Waiting for a person") == 1) {
			t.Errorf("after %d rounds: %q, %d rounds, said %q", tt.before, heard(d), d.rounds, said)
		}
	}
}

// TestOnlyAServerShowsWhatBroughtNoWork: a job's state is restored, and lacks what the description shows.
func TestOnlyAServerShowsWhatBroughtNoWork(t *testing.T) {
	t.Parallel()
	for _, byJob := range []bool{false, true} {
		st := newStage(t)
		st.r.cfg.ByJob = byJob
		st.Save(st.issue, func(s *loop.State) { s.FeedbackRounds = maxRounds })
		_, row := st.Runs(st.issue)
		w := &world{t: t, r: st.r, id: row.ID, clock: clock{at: st.Now()}}
		w.drive()
		st.r.drivers[row.ID].repo = row.RepoOwner + "/" + row.RepoName
		st.r.cfg.Git = &gitrepo.Git{}
		st.review(st.nitpicker.BotLogin, "COMMENTED", "", "Nit.")
		st.Work()
		st.Pass(time.Minute)
		if _, err := st.r.takeUp(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(st.Said(st.pull), "\n"); !strings.Contains(said, "Waiting for a person") || len(w.shown) == 0 != byJob {
			t.Errorf("by a job %t: shown %d times, said %q", byJob, len(w.shown), said)
		}
	}
}

// TestWordsThatCouldNotBeStoredAreNotTakenIn: what is saved next must not have their task, or the next look
// takes them in again.
func TestWordsThatCouldNotBeStoredAreNotTakenIn(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	st.Save(st.issue, func(s *loop.State) { s.Phase, s.Stage, s.End = run.PhaseIterating, "pick", "" })
	st.review(ada, "COMMENTED", "", "Shorter.")
	st.Work()
	st.Pass(time.Hour)
	_, row := st.Runs(st.issue)
	taken := false
	d := &driver{engine: &loop.Engine{Now: st.Now, Emit: func(run.Event) {
		taken = true
		st.Must(st.Store.Close())
	}}}
	s, err := st.r.takeInFeedback(t.Context(), row, d, st.State(st.issue))
	if !taken || err == nil || len(s.Feedback) != 0 {
		t.Errorf("taken in: %v, %v, state with %+v", taken, err, s.Feedback)
	}
}
