package action

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/reconcile"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

const (
	restoredOwner  = "ada"
	restoredName   = "widgets"
	restoredTitle  = "Say hello"
	restoredText   = "In two files."
	restoredBranch = "ralph/1"
)

// left is a repository with an issue that earlier jobs may have worked, and a job
// that knows nothing of them.
type left struct {
	*ghsim.Sim
	t    *testing.T
	job  *job
	repo *ghapp.Repo
	// others is the repository as another bot sees it.
	others *ghapp.Repo
	issue  ghsim.Issue
	in     handlers.Subject
}

func newLeft(t *testing.T) *left { return newLeftAt(t, nil) }

// newLeftAt is newLeft by a clock of GitHub's.
func newLeftAt(t *testing.T, now func() time.Time) *left {
	t.Helper()
	sim := ghsimtest.Start(t, ghsim.Options{Clock: now})
	l := &left{Sim: sim, t: t}
	_, err := sim.CreateUser(restoredOwner)
	l.must(err)
	repo, err := sim.CreateRepo(restoredOwner, restoredName,
		ghsim.RepoOptions{Files: map[string]string{"README.md": "# Widgets\n"}})
	l.must(err)
	l.issue, err = sim.CreateIssue(restoredOwner, restoredName, restoredOwner, restoredTitle, restoredText)
	l.must(err)
	connect := func(slug string) (*ghapp.App, int64, int64) {
		bot, err := sim.CreateApp(ghsim.AppOptions{Slug: slug, Permissions: ghapp.Permissions()})
		l.must(err)
		installation, err := sim.Install(bot.ID, restoredOwner+"/"+restoredName)
		l.must(err)
		app, err := ghapp.New(ghapp.Config{
			APIURL: sim.URL() + "/api/v3/", GraphQLURL: sim.URL() + "/api/graphql", WebURL: sim.URL(), AppID: bot.ID,
			PrivateKey: bot.PrivateKeyPEM, WriteEvery: time.Microsecond,
		})
		l.must(err)
		return app, bot.ID, installation.ID
	}
	app, bot, installation := connect("ralph")
	other, _, elsewhere := connect("copycat")
	l.others = other.Repo(elsewhere, restoredOwner, restoredName)
	git, err := gitrepo.New("")
	l.must(err)
	dir := t.TempDir()
	st, err := store.Open(t.Context(), filepath.Join(dir, "ralph.db"))
	l.must(err)
	t.Cleanup(func() { l.must(st.Close()) })
	limits := func(l run.Limits) run.Limits { return l.WithDefaults(run.DefaultLimits()) }
	l.job = newJob(
		delivery.Config{
			Store: st, GitHub: app, Now: time.Now, AgentName: "script", People: config.DefaultPeople(),
			Decoder: handlers.Decoder{Label: "ralph", App: bot}, Limits: limits,
		},
		reconcile.Config{Store: st, GitHub: app, Git: git, DataDir: dir, Now: time.Now,
			AgentName: "script", Limits: limits},
	)
	t.Cleanup(func() { l.must(l.job.close(context.WithoutCancel(t.Context()))) })
	l.repo = app.Repo(installation, restoredOwner, restoredName)
	l.in = handlers.Subject{Owner: restoredOwner, Repo: restoredName, RepoNode: repo.NodeID,
		Installation: installation, Issue: l.issue.Number, IssueNode: l.issue.NodeID}
	return l
}

func (l *left) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// file is a progress file bound to key, with two tasks of which so many are done.
func (l *left) file(key string, done int) string {
	l.t.Helper()
	p, err := plan.FromIssue(restoredTitle, restoredText)
	l.must(err)
	doc := progress.New(restoredTitle, progress.Binding{Key: key, PlanSHA256: p.SHA256})
	for i, title := range []string{"Write one", "Write two"} {
		id, err := doc.AddTask(run.Task{Title: title, Priority: 1})
		l.must(err)
		if i < done {
			l.must(doc.Tick(id))
		}
	}
	return string(doc.Bytes())
}

func (l *left) push(message string, files map[string]string, gone ...string) {
	l.t.Helper()
	_, err := l.Push(restoredOwner, restoredName, restoredBranch, restoredOwner,
		ghsim.PushOptions{Message: message, Files: files, Delete: gone})
	l.must(err)
}

const restoredFile = ".ralph/1/progress.md"

func (l *left) own() string { return "issue:" + l.issue.NodeID }

// restored is what a job takes for the last run.
func (l *left) restored(in handlers.Subject) (store.Run, loop.State, bool) {
	l.t.Helper()
	row, _, found, err := l.job.lastRun(l.t.Context(), in)
	l.must(err)
	if !found {
		return row, loop.State{}, false
	}
	s, err := loop.Decode(row.State)
	l.must(err)
	return row, s, true
}

// TestRestore: what is left of a run is its branch; what is not bound to the issue
// is nothing of ours.
func TestRestore(t *testing.T) {
	t.Parallel()
	// one leaves a commit with a progress file that is bound to a key, with so many tasks done.
	one := func(path, key string, done int) func(l *left) {
		return func(l *left) { l.push("One", map[string]string{path: l.file(cmp.Or(key, l.own()), done)}) }
	}
	then := func(first func(l *left), message string, files map[string]string, gone ...string) func(l *left) {
		return func(l *left) { first(l); l.push(message, files, gone...) }
	}
	work, whole := one(restoredFile, "", 1), one(restoredFile, "", 2)
	for name, c := range map[string]struct {
		leave func(l *left)
		end   run.EndReason // "" where nothing is found
		text  string        // of the plan
	}{
		"nothing":             {leave: func(*left) {}},
		"a branch of people":  {leave: func(l *left) { l.push("Help", map[string]string{"x": "y"}) }},
		"work":                {leave: work, end: run.EndCancelled, text: restoredText},
		"a plan":              {leave: one(restoredFile, "", 0), end: run.EndCancelled, text: restoredText},
		"all of it":           {leave: whole, end: run.EndAllTasksComplete, text: restoredText},
		"bound elsewhere":     {leave: one(restoredFile, "issue:I_other", 2)},
		"bound to a plan":     {leave: one(restoredFile, "plan:1", 2)},
		"bound to nothing":    {leave: func(l *left) { l.push("One", map[string]string{restoredFile: "# Progress: x\n\n- [x] T1 x\n"}) }},
		"of another's folder": {leave: one(".ralph/2/progress.md", "", 2)},
		"removed at the end": {
			leave: then(whole, "Close", map[string]string{"x": "y"}, restoredFile), end: run.EndAllTasksComplete, text: restoredText,
		},
		"broken since": {
			leave: then(work, "Break", map[string]string{restoredFile: "\xff\x00"}), end: run.EndCancelled, text: restoredText,
		},
		"overwritten by somebody's": {
			leave: func(l *left) { work(l); one(restoredFile, "issue:I_other", 2)(l) }, end: run.EndCancelled, text: restoredText,
		},
		"too long ago": {leave: func(l *left) {
			then(work, "Remove", map[string]string{"x": "0"}, restoredFile)(l)
			for n := range host.MaxRestored {
				l.push("More", map[string]string{"x": fmt.Sprint(n + 1)})
			}
		}},
		"another text since": {leave: func(l *left) {
			work(l)
			l.must(l.EditIssue(restoredOwner, restoredName, l.issue.Number, restoredOwner, restoredTitle, "Mine coins."))
		}, end: run.EndCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeft(t)
			c.leave(l)
			row, s, found := l.restored(l.in)
			if found != (c.end != "") {
				t.Fatalf("found %v: %+v", found, row)
			}
			if !found {
				return
			}
			if s.End != c.end || row.EndReason != c.end || !s.Phase.Terminal() || s.Branch != restoredBranch ||
				s.BaseBranch != "main" || s.PullRequest != nil || row.PullNumber != 0 {
				t.Errorf("ended %s in %s on %s, pull request %d", s.End, s.Phase, s.Branch, row.PullNumber)
			}
			if s.Plan.Text != c.text || s.Plan.SHA256 == "" || s.Subject.Name != restoredTitle ||
				s.Subject.Key != l.own() {
				t.Errorf("the plan %+v of %+v", s.Plan, s.Subject)
			}
		})
	}
}

// TestRestoreApproval: what the bot's own newest commit tells holds, and what
// others write in the same words does not.
func TestRestoreApproval(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("0a", 32)
	const run = "feat: write one\n\nRalph-Run: r-1"
	approved := run + "\nRalph-Approved-Plan: " + hash + "\nRalph-Approved-By: grace"
	for name, c := range map[string]struct {
		leave func(l *left)
		by    string
	}{
		"the bot's own": {by: "grace", leave: func(l *left) {
			l.push("Help", map[string]string{restoredFile: l.file(l.own(), 1)})
			l.commit(l.repo, approved)
			l.push("More by hand", map[string]string{"x": "y"})
		}},
		"of an earlier run": {leave: func(l *left) {
			l.push("Help", map[string]string{restoredFile: l.file(l.own(), 1)})
			l.commit(l.repo, approved)
			l.commit(l.repo, run)
		}},
		"a person's": {leave: func(l *left) { l.push(approved, map[string]string{restoredFile: l.file(l.own(), 1)}) }},
		"another bot's": {leave: func(l *left) {
			l.push("Help", map[string]string{restoredFile: l.file(l.own(), 1)})
			l.commit(l.others, approved)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeft(t)
			c.leave(l)
			_, s, found := l.restored(l.in)
			if !found || (s.Approved == hash) != (c.by != "") || s.ApprovedBy != c.by {
				t.Errorf("found %v: %q is approved by %q", found, s.Approved, s.ApprovedBy)
			}
		})
	}
}

// commit has a bot make a commit on the branch.
func (l *left) commit(repo *ghapp.Repo, message string) {
	l.t.Helper()
	at, err := repo.Branch(l.t.Context(), restoredBranch)
	l.must(err)
	headline, body, _ := strings.Cut(message, "\n\n")
	_, err = repo.CreateCommit(l.t.Context(), ghapp.CommitInput{
		Branch: restoredBranch, ExpectedHead: at.OID, Headline: headline, Body: body,
		Additions: []ghapp.FileAddition{{Path: "y", Content: []byte(message + at.OID)}},
	})
	l.must(err)
}

// pull opens a pull request from the branch: the bot's own, or another bot's.
func (l *left) pull(ours bool, body string) ghapp.PR {
	l.t.Helper()
	repo := l.others
	if ours {
		repo = l.repo
	}
	pr, err := repo.CreatePR(l.t.Context(), ghapp.PRInput{Title: restoredTitle, Head: restoredBranch, Base: "main",
		Body: body})
	l.must(err)
	return pr
}

// The pull request counts if it is our own, whichever of the two an event names.
func TestRestorePullRequest(t *testing.T) {
	t.Parallel()
	for _, ours := range []bool{true, false} {
		l := newLeft(t)
		l.push("One", map[string]string{restoredFile: l.file(l.own(), 1)})
		pr := l.pull(ours, "Closes #1")
		ofIssue, s, found := l.restored(l.in)
		if !found || (ofIssue.PullNumber == pr.Number) != ours || (s.PullRequest != nil) != ours {
			t.Errorf("ours %v: of the issue: found %v, pull request %d", ours, found, ofIssue.PullNumber)
		}
		in := l.in
		in.Issue, in.IssueNode, in.Pull = 0, "", pr.Number
		if ofPull, _, found := l.restored(in); found != ours || found && ofPull.IssueNumber != l.issue.Number {
			t.Errorf("ours %v: of the pull request: found %v, issue %d", ours, found, ofPull.IssueNumber)
		}
		in.Pull = 4711
		if _, _, found := l.restored(in); found {
			t.Error("found something of a pull request that is not there")
		}
	}
}

// What was said is told by the list in our pull request's description. A line
// that leads to no conversation, or a text that imitates the list, tells nothing.
func TestRestoreFeedback(t *testing.T) {
	t.Parallel()
	view := publish.View{IssueNumber: 1, PullNumber: 2, Phase: run.PhaseDone, End: run.EndAllTasksComplete,
		Said: []publish.Said{
			{Where: "x line 1", By: "ada", Comment: 4711, TaskID: "T3"},
			{By: "ada", Review: 42, TaskID: "T4", OID: strings.Repeat("a", 40)},
		}}
	want := []loop.Feedback{{Key: "review:42", By: "ada", Standing: loop.FeedbackTask, TaskID: "T4",
		Commit: strings.Repeat("a", 40), Rounds: 1}}
	for name, c := range map[string]struct {
		body func(rendered string) string
		want []loop.Feedback
	}{
		"as it was rendered":   {body: func(s string) string { return s }, want: want},
		"with people's words":  {body: func(s string) string { return "Hello.\n\n" + s + "\n\nBye." }, want: want},
		"only outside":         {body: func(s string) string { return s[strings.Index(s, "\n")+1 : strings.LastIndex(s, "\n")] }},
		"nothing of ours":      {body: func(string) string { return "Closes #1" }},
		"a line taken away":    {body: func(s string) string { return strings.Replace(s, "review-42", "review-x", 1) }},
		"a number of no sense": {body: func(s string) string { return strings.Replace(s, "review-42", "review-99999999999999999999", 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeft(t)
			l.push("One", map[string]string{"x": "1\n", restoredFile: l.file(l.own(), 1)})
			v := view
			v.RepoURL = l.repo.HTMLURL()
			body, err := publish.Body("", v)
			if err != nil {
				t.Fatal(err)
			}
			l.pull(true, c.body(body))
			_, s, found := l.restored(l.in)
			if diff := gocmp.Diff(c.want, s.Feedback); !found || diff != "" {
				t.Errorf("found %v; (-want +got):\n%s", found, diff)
			}
		})
	}
}

// TestRestoreQuestions: the bot's last ones count, with what was said since, before
// the command, and was not edited. Who copies the bot's words asks nothing.
func TestRestoreQuestions(t *testing.T) {
	t.Parallel()
	var seconds atomic.Int64
	l := newLeftAt(t, func() time.Time { return time.Now().Add(time.Duration(seconds.Add(2)) * time.Second) })
	say := func(repo *ghapp.Repo, text string) int64 {
		t.Helper()
		c, err := repo.Comment(t.Context(), l.issue.Number, text)
		l.must(err)
		return c.ID
	}
	person := func(text string) ghsim.Comment {
		t.Helper()
		c, err := l.Comment(restoredOwner, restoredName, l.issue.Number, restoredOwner, text)
		l.must(err)
		return c
	}
	asked := func(before int64) (loop.State, []string, bool) {
		t.Helper()
		row, answers, found, err := l.job.waitingRun(t.Context(),
			handlers.CommandIntent{Subject: l.in, Comment: handlers.Comment{ID: before}},
			l.job.newState(l.in.Issue, l.in.IssueNode), time.Time{})
		l.must(err)
		if !found {
			return loop.State{}, nil, false
		}
		s, err := loop.Decode(row.State)
		l.must(err)
		var said []string
		for _, c := range answers {
			said = append(said, c.Body)
		}
		return s, said, true
	}
	const never = 1 << 60
	mark := "\n\n<!-- ralph:said:" + strings.Repeat("0", 24) + " -->"
	text := publish.QuestionsText(nil, []string{"Which `file`?", "Why?"}, 0, "")
	for _, forged := range []string{publish.QuestionsText(nil, nil, 0, "") + mark, text, text + mark + "\n\nmore",
		"> " + text + mark} {
		say(l.repo, forged)
	}
	say(l.others, text+mark)
	person(text + mark)
	if s, _, found := asked(never); found {
		t.Fatalf("asked %q", s.Questions)
	}
	say(l.repo, text+mark)
	person("One.")
	changed := person("Remove all.")
	l.must(l.EditComment(restoredOwner, restoredName, l.issue.Number, changed.ID, restoredOwner, "Remove nothing."))
	say(l.others, "I am a bot.")
	person(text + mark)
	last := person("/ralph start")
	person("Too late.")
	s, said, found := asked(last.ID)
	if diff := gocmp.Diff([]string{"Which `file`?", "Why?"}, s.Questions); !found || diff != "" ||
		s.End != run.EndAwaitingPerson || !s.Phase.Terminal() {
		t.Errorf("found %v, ended %s in %s; %s", found, s.End, s.Phase, diff)
	}
	if diff := gocmp.Diff([]string{"One.", text + mark}, said); diff != "" {
		t.Error(diff)
	}
}

// TestRestoreAnswers: what people said since the questions answers them, also beside what is nearly a
// command, to which an earlier job has replied, also where an earlier run has left a branch, and
// also where GitHub fails in between, however old the answers are. What goes on with work reads none.
func TestRestoreAnswers(t *testing.T) {
	t.Parallel()
	work := func(l *left) {
		l.push("feat: one\n\nRalph-Run: r-1", map[string]string{restoredFile: l.file(l.own(), 1)})
	}
	none := func(*left) {}
	for name, c := range map[string]struct {
		before, after func(*left)
		say           string
		want          []string
	}{
		"no branch":  {before: none, after: none, say: "/ralph start", want: []string{"One.", "Two.\n /ralph resume", "Three."}},
		"a branch":   {before: work, after: none, say: "/ralph plan", want: []string{"One.", "Two.\n /ralph resume", "Three."}},
		"worked now": {before: none, after: work, say: "/ralph start"},
		"goes on":    {before: work, after: none, say: "/ralph retry"},
		"a person has pushed since": {before: work, say: "/ralph start", want: []string{"One.", "Two.\n /ralph resume", "Three."},
			after: func(l *left) { l.push("Help", map[string]string{"x": "y"}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seconds atomic.Int64
			l := newLeftAt(t, func() time.Time { return time.Now().Add(time.Duration(seconds.Add(2)) * time.Second) })
			_, err := l.CreateUser("grace")
			l.must(err)
			l.must(l.SetPermission(restoredOwner, restoredName, "grace", ghsim.RoleWrite))
			c.before(l)
			pub := publish.Publisher{GitHub: l.repo, Effects: l.job.deliveries.Comments.Effects, Issue: l.issue.Number}
			_, err = pub.CommentQuestions(t.Context(), []string{"Why?"}, 0)
			l.must(err)
			person := func(login, text string) ghsim.Comment {
				t.Helper()
				c, err := l.Comment(restoredOwner, restoredName, l.issue.Number, login, text)
				l.must(err)
				return c
			}
			person(restoredOwner, "One.")
			person(restoredOwner, "Two.\n /ralph resume")
			person(restoredOwner, " /ralph resume")
			person("grace", "Three.")
			c.after(l)
			last := person(restoredOwner, c.say)
			ev := l.commented(last)
			l.job.deliveries.Authorizer.Now = func() time.Time { return time.Now().Add(time.Hour) }
			l.must(l.Inject(ghsim.Fault{Match: "/collaborators/grace/", Status: http.StatusServiceUnavailable}))
			failed := l.job.restore(t.Context(), "d", ev)
			if (failed != nil) != (c.want != nil) {
				t.Errorf("without an answer from GitHub: %v", failed)
			}
			l.must(l.job.restore(t.Context(), "d", ev))
			left, err := l.job.store.PendingInputs(t.Context(), l.in.RepoNode, l.issue.Number, store.InputAnswer)
			l.must(err)
			var got []string
			for _, in := range left {
				got = append(got, in.Text)
			}
			if diff := gocmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// commented is the event of a comment of the owner's on the issue.
func (l *left) commented(c ghsim.Comment) event {
	l.t.Helper()
	owner := object{"login": restoredOwner, "id": 7, "type": "User"}
	body, err := json.Marshal(object{
		"action": "created", "sender": owner, "installation": object{"id": l.in.Installation},
		"issue": object{"number": l.issue.Number, "node_id": l.in.IssueNode, "title": restoredTitle, "body": restoredText,
			"state": "open", "user": owner},
		"comment":    object{"id": c.ID, "body": c.Body, "user": owner},
		"repository": object{"node_id": l.in.RepoNode, "name": restoredName, "owner": owner},
	})
	l.must(err)
	ev, err := parseEvent("issue_comment", body)
	l.must(err)
	return ev
}
