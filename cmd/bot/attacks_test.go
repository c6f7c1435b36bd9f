package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/history"
	"github.com/org/ralph-action/internal/publish"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// send posts a signed webhook and gives the status of the answer.
func (st *stage) send(event, guid string, payload map[string]any) (status int) {
	st.t.Helper()
	body, err := json.Marshal(payload)
	if err != nil {
		st.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(st.t.Context(), http.MethodPost, st.hookURL+handlers.DefaultPath,
		bytes.NewReader(body))
	if err != nil {
		st.t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "X-GitHub-Event": event, "X-GitHub-Delivery": guid,
		"X-Hub-Signature-256": ghsim.Sign(st.app.WebhookSecret, body),
	} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		st.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// post delivers an event that the simulated GitHub does not cause, signed as
// GitHub would.
func (st *stage) post(s *serving, event, guid string, payload map[string]any) {
	st.t.Helper()
	if status := st.send(event, guid, payload); status != http.StatusAccepted {
		st.t.Fatalf("%s: status %d", event, status)
	}
	st.await(event+" to be dealt with", func() bool {
		d, err := s.store.Delivery(st.t.Context(), guid)
		return errors.Is(err, store.ErrNotFound) || err == nil && !d.ProcessedAt.IsZero()
	})
}

// event is the payload of the last event of a name that the simulated GitHub
// sent, to be changed and sent again.
func (st *stage) event(name string) map[string]any {
	st.t.Helper()
	for _, d := range slices.Backward(st.sim.AllDeliveries()) {
		if d.Event == name {
			var p map[string]any
			if err := json.Unmarshal(d.Payload, &p); err != nil {
				st.t.Fatal(err)
			}
			return p
		}
	}
	st.t.Fatalf("no %s was sent", name)
	return nil
}

// otherApp makes another App whose bot user may act in the repository.
func (st *stage) otherApp(slug string) ghsim.App {
	st.t.Helper()
	app, err := st.sim.CreateApp(ghsim.AppOptions{Slug: slug, Permissions: map[string]string{"issues": "write"}})
	if err != nil {
		st.t.Fatal(err)
	}
	if _, err := st.sim.Install(app.ID, person+"/"+repoOf); err != nil {
		st.t.Fatal(err)
	}
	return app
}

// noRun makes sure that nothing was started on an issue.
func (st *stage) noRun(s *serving, number int) {
	st.t.Helper()
	st.processed(s)
	if row, err := s.store.LatestRunByIssue(st.t.Context(), st.repo.NodeID, number); !errors.Is(err, store.ErrNotFound) {
		st.t.Errorf("issue %d has run %s, %v", number, row.ID, err)
	}
}

// TestA4AcceptedButNotBegun: the process dies after the 202 and before the run.
func TestA4AcceptedButNotBegun(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	hold := make(chan struct{})
	if err := st.sim.Inject(ghsim.Fault{Method: "GET", Match: "/collaborators/ada/permission$", Hold: hold}); err != nil {
		t.Fatal(err)
	}
	first := st.serve()
	issue := st.label("Say hello", threeTasks)
	if err := st.sim.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.stop()
	close(hold)
	second := st.serve()
	for _, d := range st.sim.AllDeliveries() { // GitHub's operator sends it again
		if err := st.sim.Redeliver(st.app.ID, d.ID); err != nil {
			t.Fatal(err)
		}
	}
	if state := st.ended(second.store, issue); state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(second)
	if n := st.runs(second, issue.Number); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// TestA7RepositoriesOfOthers: the operator says where the bot works.
func TestA7RepositoriesOfOthers(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{
		script: writesAll, change: func(c *config.Server) { c.People.Repositories = []string{"somebody/else"} },
	})
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	st.comment(issue.Number, person, "/ralph start")
	st.noRun(s, issue.Number)
	if said := st.said(issue.Number); len(said) != 0 {
		t.Errorf("said %q", said)
	}
	if got := st.outcomes(s); !slices.Contains(got, "the server does not work in this repository") {
		t.Errorf("outcomes: %q", got)
	}
}

// TestA7RenamedRepositoryKeepsItsRun, and one that loses the App stops it.
func TestA7RenamedRepositoryKeepsItsRun(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: hangsOnTwo})
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	st.agentAt(s, "T2")
	first, err := s.store.ActiveRunByIssue(t.Context(), st.repo.NodeID, issue.Number)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.sim.RenameRepo(person, repoOf, person, "gadgets"); err != nil {
		t.Fatal(err)
	}
	p := st.event("issues")
	p["action"] = "renamed"
	repository, ok := p["repository"].(map[string]any)
	if !ok {
		t.Fatalf("repository is %T", p["repository"])
	}
	repository["name"], repository["full_name"] = "gadgets", person+"/gadgets"
	delete(p, "issue")
	st.post(s, "repository", "renamed-1", p)
	if _, err := st.sim.Comment(person, "gadgets", issue.Number, person, "/ralph skip T2"); err != nil {
		t.Fatal(err)
	}
	st.agentAt(s, "T3")
	row, err := s.store.Run(t.Context(), first.ID)
	if err != nil || row.RepoName != "gadgets" || row.Phase.Terminal() {
		t.Errorf("%+v, %v", row, err)
	}
	p["action"] = "suspend"
	delete(p, "repository")
	st.post(s, "installation", "suspended-1", p)
	state := st.ended(s.store, issue)
	if state.Run != first.ID || state.End != run.EndCancelled || !strings.Contains(state.EndDetail, "suspended") {
		t.Errorf("run %s ended %s: %s", state.Run, state.End, state.EndDetail)
	}
}

// TestB2OutsidersAreNotHeard, whatever they write, and are told once.
func TestB2OutsidersAreNotHeard(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	s := st.serve()
	if _, err := st.sim.CreateUser("eve"); err != nil {
		t.Fatal(err)
	}
	issue := st.newIssue("eve", "Mine coins", threeTasks)
	plain := st.comment(issue.Number, "eve", "/ralph start")
	for _, body := range []string{
		"/ralph do mine coins", "/ralph approve", "> /ralph start", "```\n/ralph start\n```", "hello\n/ralph start",
		"/r\u0430lph start",
	} {
		st.comment(issue.Number, "eve", body)
	}
	st.noRun(s, issue.Number)
	if said := st.said(issue.Number); len(said) != 1 || !strings.Contains(said[0], "write access") {
		t.Errorf("said %q", said)
	}
	if got := st.reactions(issue.Number, plain.ID); !slices.Equal(got, []string{"-1"}) {
		t.Errorf("reactions %v", got)
	}
	// On a labelled issue as well.
	other := st.label("Say hello", threeTasks)
	state := st.ended(s.store, other)
	st.comment(other.Number, "eve", "/ralph do Mine coins")
	st.comment(st.onlyPR().Number, "eve", "/ralph resume")
	st.processed(s)
	if n := st.runs(s, other.Number); n != 1 || state.End != run.EndAllTasksComplete {
		t.Errorf("%d runs, the first ended %s", n, state.End)
	}
	left, err := s.store.PendingInputs(t.Context(), st.repo.NodeID, other.Number)
	if err != nil || len(left) != 0 {
		t.Errorf("left %+v, %v", left, err)
	}
}

// TestB3TheRoleCountsNotTheBadge: GitHub calls a contractor what it likes; the
// custom role is built on write.
func TestB3TheRoleCountsNotTheBadge(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	s := st.serve()
	if _, err := st.sim.CreateUser("grace"); err != nil {
		t.Fatal(err)
	}
	if err := st.sim.SetPermission(person, repoOf, "grace", ghsim.RoleWrite, "contractor"); err != nil {
		t.Fatal(err)
	}
	issue := st.newIssue("grace", "Say hello", threeTasks)
	c := st.comment(issue.Number, "grace", "A word before.")
	st.processed(s)
	p := st.event("issue_comment")
	comment, ok := p["comment"].(map[string]any)
	if !ok {
		t.Fatalf("comment is %T", p["comment"])
	}
	comment["author_association"], comment["body"], comment["id"] = "CONTRIBUTOR", "/ralph start", c.ID
	st.post(s, "issue_comment", "b3", p)
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete || state.Subject.RequestedBy != "grace" {
		t.Errorf("ended %s, asked for by %s", state.End, state.Subject.RequestedBy)
	}
}

// TestB4NamesOfBots: neither a suffix nor a name opens the door.
func TestB4NamesOfBots(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	evil := st.otherApp("evil")
	trusted := st.otherApp("renovate")
	st.config.People.Bots = []int64{trusted.BotID}
	s := st.serve()
	for _, login := range []string{"ralph-bot-bot", "renovate-bot"} { // people, named like bots
		st.user(login, ghsim.RoleTriage)
	}
	issue := st.newIssue(person, "Say hello", threeTasks)
	for _, login := range []string{evil.BotLogin, "ralph-bot-bot", "renovate-bot"} {
		st.relabel(issue, login)
		if err := st.sim.RemoveLabel(person, repoOf, issue.Number, login, "ralph"); err != nil {
			t.Fatal(err)
		}
	}
	st.comment(issue.Number, evil.BotLogin, "/ralph start")
	st.comment(issue.Number, trusted.BotLogin, "/ralph start") // it may label, not command
	// The trusted bot's name with another id.
	p := st.event("issues")
	p["action"], p["label"] = "labeled", map[string]any{"name": "ralph"}
	p["sender"] = map[string]any{"login": trusted.BotLogin, "id": evil.BotID, "type": "Bot"}
	st.post(s, "issues", "b4", p)
	st.noRun(s, issue.Number)
	said := strings.Join(st.said(issue.Number), "\n")
	if n := len(st.said(issue.Number)); n != 3 { // one for each who labelled
		t.Errorf("%d comments:\n%s", n, said)
	}
	if !strings.Contains(said, "is a bot") || strings.Count(said, "has the role `triage`") != 2 {
		t.Errorf("said:\n%s", said)
	}
}

// TestB5OwnDoingStartsNothing, and nobody talks with another bot for ever.
func TestB5OwnDoingStartsNothing(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll, change: func(c *config.Server) { c.People.CommandsPerIssue = 5 }})
	chatty := st.otherApp("chatty")
	s := st.serve()
	issue := st.newIssue(person, "Say hello", threeTasks)
	st.relabel(issue, st.app.BotLogin)
	st.comment(issue.Number, st.app.BotLogin, "/ralph start")
	st.noRun(s, issue.Number)
	if said := st.said(issue.Number); len(said) != 1 { // its own comment
		t.Errorf("said %q", said)
	}
	for range 10 {
		st.comment(issue.Number, chatty.BotLogin, "/ralph status")
	}
	st.processed(s)
	if said := st.said(issue.Number); len(said) != 1 {
		t.Errorf("a bot was answered: %q", said)
	}
	// A program that writes as a person runs into the limit, and a person is
	// called for.
	for range 9 {
		st.comment(issue.Number, person, "/ralph status")
	}
	st.processed(s)
	said := st.said(issue.Number)
	if len(said) < 3 || len(said) > 1+5+4+1 || !strings.Contains(strings.Join(said, "\n"), "Too many requests") {
		t.Errorf("%d comments: %q", len(said), said)
	}
	if labels := st.issue(issue.Number).Labels; !slices.Contains(labels, "ralph:needs-human") {
		t.Errorf("labels %v", labels)
	}
}

// TestB6TheWeakerOfTwo: a bot that is let in does not lend its rights to a
// stranger's text.
func TestB6TheWeakerOfTwo(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	labeler := st.otherApp("labeler")
	st.config.People.Bots = []int64{labeler.BotID}
	s := st.serve()
	if _, err := st.sim.CreateUser("eve"); err != nil {
		t.Fatal(err)
	}
	stranger := st.newIssue("eve", "Mine coins", threeTasks)
	st.relabel(stranger, labeler.BotLogin)
	st.noRun(s, stranger.Number)
	if said := st.said(stranger.Number); len(said) != 1 || !strings.Contains(said[0], "`eve` wrote the text") {
		t.Errorf("said %q", said)
	}
	own := st.newIssue(person, "Say hello", threeTasks)
	st.relabel(own, labeler.BotLogin)
	if state := st.ended(s.store, own); state.End != run.EndAllTasksComplete || state.Subject.RequestedBy != person {
		t.Errorf("ended %s, asked for by %s", state.End, state.Subject.RequestedBy)
	}
	// Somebody with write access sends what a stranger has written.
	other := st.newIssue(person, "Say more", threeTasks)
	st.comment(other.Number, "eve", "Nothing yet.")
	st.processed(s)
	p := st.event("issue_comment")
	comment, ok := p["comment"].(map[string]any)
	if !ok {
		t.Fatalf("comment is %T", p["comment"])
	}
	comment["id"], comment["body"] = 99, "/ralph start"
	p["sender"] = st.event("issues")["repository"].(map[string]any)["owner"]
	st.post(s, "issue_comment", "b6", p)
	st.noRun(s, other.Number)
}

// TestB7PermissionRevokedBeforePublishing stops the run before it pushes.
func TestB7PermissionRevokedBeforePublishing(t *testing.T) {
	t.Parallel()
	clock := &slowClock{}
	st := newStage(t, setting{script: writesAll})
	st.now = clock.now
	st.user("grace", ghsim.RoleWrite)
	var once sync.Once
	s := st.serveWith(func(ev run.Event) {
		if ev.Kind != run.EventAgentStarted {
			return
		}
		once.Do(func() {
			if err := st.sim.SetPermission(person, repoOf, "grace", ghsim.RoleRead); err != nil {
				t.Error(err)
			}
			clock.pass(time.Minute + time.Second)
		})
	})
	issue := st.newIssue("grace", "Say hello", threeTasks)
	st.relabel(issue, "grace")
	state := st.ended(s.store, issue)
	if state.End != run.EndCancelled || !strings.Contains(state.EndDetail, "grace") {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	if branches, err := st.sim.Branches(person, repoOf); err != nil || branches["ralph/1"] != "" {
		t.Errorf("branches %v, %v", branches, err)
	}
}

// TestB8NoAnswerIsNo: where GitHub does not say who may, nobody may, and the
// issue says so.
func TestB8NoAnswerIsNo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault ghsim.Fault
		said  string
	}{
		"403": {
			ghsim.Fault{Status: 403, Body: `{"message":"Resource not accessible by integration"}`}, "did not say",
		},
		"404":          {ghsim.Fault{Status: 404, Body: `{"message":"Not Found"}`}, "has no role"},
		"5xx for good": {ghsim.Fault{Status: 502, Body: "<html>", Times: 1000}, "did not say"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &slowClock{}
			st := newStage(t, setting{script: writesAll})
			st.now = clock.now
			tt.fault.Method, tt.fault.Match = "GET", "/collaborators/ada/permission$"
			if err := st.sim.Inject(tt.fault); err != nil {
				t.Fatal(err)
			}
			s := st.serve()
			issue := st.label("Say hello", threeTasks)
			st.await("the question to be asked", func() bool {
				return st.sim.CallCounts()["GET /repos/{owner}/{repo}/collaborators/{username}/permission"] > 0
			})
			clock.pass(10 * time.Minute)
			st.noRun(s, issue.Number)
			if said := st.said(issue.Number); len(said) != 1 || !strings.Contains(said[0], tt.said) {
				t.Errorf("said %q", said)
			}
		})
	}
	for name, fault := range map[string]ghsim.Fault{
		"5xx once":     {Status: 503, Body: "{}"},
		"dropped once": {Drop: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, setting{script: writesAll})
			fault.Method, fault.Match = "GET", "/collaborators/ada/permission$"
			if err := st.sim.Inject(fault); err != nil {
				t.Fatal(err)
			}
			s := st.serve()
			issue := st.label("Say hello", threeTasks)
			if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
				t.Errorf("ended %s: %s", state.End, state.EndDetail)
			}
			st.processed(s)
			if said := st.said(issue.Number); len(said) != 0 {
				t.Errorf("said %q", said)
			}
		})
	}
}

// TestB9LabelByAWorkflow: what GITHUB_TOKEN does comes as a bot's doing.
func TestB9LabelByAWorkflow(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	actions := st.otherApp("github-actions")
	s := st.serve()
	issue := st.newIssue(person, "Say hello", threeTasks)
	st.relabel(issue, actions.BotLogin)
	st.noRun(s, issue.Number)
	if said := st.said(issue.Number); len(said) != 1 || !strings.Contains(said[0], "is a bot") ||
		!strings.Contains(said[0], "people.bots") {
		t.Errorf("said %q", said)
	}
}

// TestC1EditedAfterTheLabel: the text that was labelled is worked, and the issue
// says so.
func TestC1EditedAfterTheLabel(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before the run is made", "while it works"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, setting{script: hangsOnTwo})
			hold := make(chan struct{})
			if when == "before the run is made" {
				if err := st.sim.Inject(ghsim.Fault{
					Method: "GET", Match: "/collaborators/ada/permission$", Hold: hold,
				}); err != nil {
					t.Fatal(err)
				}
			} else {
				close(hold)
			}
			s := st.serve()
			issue := st.label("Say hello", threeTasks)
			if when == "while it works" {
				st.agentAt(s, "T2")
			}
			if err := st.sim.EditIssue(person, repoOf, issue.Number, person, "Mine coins", "- [ ] mine coins\n"); err != nil {
				t.Fatal(err)
			}
			if when == "before the run is made" {
				close(hold)
			}
			st.agentAt(s, "T2")
			st.processed(s)
			for i := range 3 {
				if err := st.sim.EditIssue(person, repoOf, issue.Number, person, "Mine coins",
					fmt.Sprintf("- [ ] mine %d coins\n", i)); err != nil {
					t.Fatal(err)
				}
			}
			st.processed(s)
			st.comment(issue.Number, person, "/ralph stop")
			state := st.ended(s.store, issue)
			if strings.Contains(state.Progress, "coins") || state.Subject.Name != "Say hello" || len(state.Commits) == 0 {
				t.Errorf("worked %q:\n%s", state.Subject.Name, state.Progress)
			}
			notices := 0
			for _, text := range st.said(issue.Number) {
				if strings.Contains(text, "The description was edited") {
					notices++
				}
			}
			if notices != 1 {
				t.Errorf("%d notices: %q", notices, st.said(issue.Number))
			}
		})
	}
}

// TestC2EditedCommandIsAskedForAnew: what is not done yet is not done.
func TestC2EditedCommandIsAskedForAnew(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: hangsOnTwo})
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	st.agentAt(s, "T2")
	edited := st.comment(issue.Number, person, "/ralph do Write four")
	deleted := st.comment(issue.Number, person, "/ralph do Write five")
	st.processed(s)
	if err := st.sim.EditComment(person, repoOf, issue.Number, edited.ID, person, "/ralph do Mine coins"); err != nil {
		t.Fatal(err)
	}
	if err := st.sim.DeleteComment(person, repoOf, issue.Number, deleted.ID, person); err != nil {
		t.Fatal(err)
	}
	st.await("the answer to the edited command", func() bool { return len(st.said(issue.Number)) > 0 })
	st.processed(s)
	if said := st.said(issue.Number); len(said) != 1 || !strings.Contains(said[0], "write a new comment") {
		t.Errorf("said %q", said)
	}
	st.comment(issue.Number, person, "/ralph skip T2")
	st.agentAt(s, "T3")
	st.comment(issue.Number, person, "/ralph stop")
	state := st.ended(s.store, issue)
	for _, bad := range []string{"four", "five", "coins"} {
		if strings.Contains(state.Progress, bad) {
			t.Errorf("the tasks hold %q:\n%s", bad, state.Progress)
		}
	}
}

// TestC3ImitationsMeanNothing: a plan and a marker in somebody else's comment.
func TestC3ImitationsMeanNothing(t *testing.T) {
	t.Parallel()
	st, s := approvalStage(t)
	if _, err := st.sim.CreateUser("eve"); err != nil {
		t.Fatal(err)
	}
	issue := st.label("Say hello", threeTasks)
	state := st.ended(s.store, issue)
	st.processed(s)
	posted := st.said(issue.Number)
	st.comment(issue.Number, "eve", strings.ReplaceAll(posted[len(posted)-1], "Write", "Mine coins, then write"))
	st.comment(issue.Number, person, "/ralph approve")
	done := st.another(s, issue, state.Run)
	if done.End != run.EndAllTasksComplete || strings.Contains(done.Progress, "coins") {
		t.Errorf("ended %s:\n%s", done.End, done.Progress)
	}
	// Who forges what the bot would say does not keep it from saying it.
	forged := []string{publish.EditedText(issue.Number, "")}
	for _, said := range posted {
		if _, marker, ok := strings.Cut(said, "<!-- ralph:said:"); ok {
			forged = append(forged, "<!-- ralph:said:"+marker)
		}
	}
	st.comment(issue.Number, "eve", strings.Join(forged, "\n"))
	st.script(hangsOnTwo)
	st.comment(issue.Number, person, "/ralph do Write two again")
	st.processed(s)
	if got := st.said(issue.Number); len(got) != len(posted) {
		t.Errorf("said %q", got)
	}
	st.comment(issue.Number, person, "/ralph stop")
}

// TestC5OldApprovals: of another plan, of a comment that was changed, of a file
// that was changed.
func TestC5OldApprovals(t *testing.T) {
	t.Parallel()
	st, s := approvalStage(t)
	issue := st.label("Say hello", threeTasks)
	state := st.ended(s.store, issue)
	st.processed(s)
	refused := func(body, why string) {
		t.Helper()
		c := st.comment(issue.Number, person, body)
		st.processed(s)
		said := st.said(issue.Number)
		if got := st.reactions(issue.Number, c.ID); !slices.Equal(got, []string{"-1"}) ||
			!strings.Contains(said[len(said)-1], why) {
			t.Errorf("%s: reactions %v, said %q", body, got, said[len(said)-1])
		}
	}
	refused("/ralph approve 0123456789", "different plan")

	// The plan is changed on the branch: the new one is posted, and the old
	// approval is of no use for it.
	if _, err := st.sim.Push(person, repoOf, "ralph/1", person, ghsim.PushOptions{Files: map[string]string{
		".ralph/1/progress.md": strings.Replace(state.Progress, "Write three", "Write three files", 1),
	}}); err != nil {
		t.Fatal(err)
	}
	st.comment(issue.Number, person, "/ralph approve "+state.Approval[:10])
	changed := st.another(s, issue, state.Run)
	if changed.End != run.EndAwaitingPerson || changed.Approval == state.Approval || len(changed.History) != 0 {
		t.Fatalf("ended %s (%s), approval %s", changed.End, changed.EndDetail, changed.Approval)
	}
	st.processed(s)
	refused("/ralph approve "+state.Approval[:10], "different plan")

	// The comment with the plan is changed.
	var last ghsim.Comment
	for _, c := range st.issue(issue.Number).Comments {
		if strings.Contains(c.Body, "Here is the plan") {
			last = c
		}
	}
	if err := st.sim.EditComment(person, repoOf, issue.Number, last.ID, person,
		strings.Replace(last.Body, "three files", "three poems", 1)); err != nil {
		t.Fatal(err)
	}
	refused("/ralph approve", "was edited or deleted")
	st.comment(issue.Number, person, "/ralph plan")
	posted := st.another(s, issue, changed.Run)
	if posted.Approval != changed.Approval {
		t.Errorf("ended %s, approval %s", posted.End, posted.Approval)
	}
	st.comment(issue.Number, person, "/ralph approve "+posted.Approval[:10])
	if done := st.another(s, issue, posted.Run); done.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", done.End, done.EndDetail)
	}
}

// TestC6IssueTakenAway: transferred, deleted or locked (as one that becomes a
// discussion is) while the run works. What is done stays.
func TestC6IssueTakenAway(t *testing.T) {
	t.Parallel()
	for action, do := range map[string]func(sim *ghsim.Sim, issue int) error{
		"transferred": func(sim *ghsim.Sim, issue int) error {
			return sim.TransferIssue(person, repoOf, issue, person, "elsewhere")
		},
		"locked":  func(sim *ghsim.Sim, issue int) error { return sim.LockIssue(person, repoOf, issue, person, true) },
		"deleted": func(sim *ghsim.Sim, issue int) error { return sim.DeleteIssue(person, repoOf, issue, person) },
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, setting{script: hangsOnTwo})
			if _, err := st.sim.CreateRepo(person, "elsewhere", ghsim.RepoOptions{}); err != nil {
				t.Fatal(err)
			}
			s := st.serve()
			issue := st.label("Say hello", threeTasks)
			st.agentAt(s, "T2")
			if err := do(st.sim, issue.Number); err != nil {
				t.Fatal(err)
			}
			state := st.ended(s.store, issue)
			if state.End != run.EndCancelled || !strings.Contains(state.EndDetail, action) || len(state.Commits) == 0 {
				t.Errorf("ended %s (%s) with %d commits", state.End, state.EndDetail, len(state.Commits))
			}
			if got := st.contents("ralph/1")["one.txt"]; got != "1\n" {
				t.Errorf("the branch has %q", got)
			}
		})
	}
}

// TestI7PullRequestClosed stops the run, and so does one that is merged; only the
// latter has its lessons told to later agents.
func TestI7PullRequestClosed(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"closed", "merged"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, setting{script: hangsOnTwo})
			s := st.serve()
			issue := st.label("Say hello", threeTasks)
			st.agentAt(s, "T2")
			if how == "merged" { // GitHub merges no draft, but what people make of it may be none
				if err := st.sim.SetHook(st.app.ID, "", ""); err != nil {
					t.Fatal(err)
				}
			}
			if err := st.sim.CloseIssue(person, repoOf, st.onlyPR().Number, person); err != nil {
				t.Fatal(err)
			}
			if how == "merged" {
				st.hook(s.addr)
				p := st.event("pull_request")
				pull, ok := p["pull_request"].(map[string]any)
				if !ok {
					t.Fatalf("pull_request is %T", p["pull_request"])
				}
				p["action"], pull["merged"] = "closed", true
				st.post(s, "pull_request", "i7", p)
			}
			state := st.ended(s.store, issue)
			if state.End != run.EndCancelled || !strings.Contains(state.EndDetail, "the pull request was "+how) {
				t.Errorf("ended %s: %s", state.End, state.EndDetail)
			}
			st.processed(s)
			if labels := st.issue(issue.Number).Labels; !slices.Contains(labels, "ralph:paused") {
				t.Errorf("labels %v", labels)
			}
			node, err := s.store.RepoNode(t.Context(), person, repoOf)
			if err != nil {
				t.Fatal(err)
			}
			all, err := s.store.AllLessons(t.Context(), node)
			if err != nil || len(all) != 1 {
				t.Fatalf("lessons %v, %v", all, err)
			}
			told, err := s.store.Lessons(node).Similar(t.Context(), history.Query{Title: all[0].Title}, 5)
			if err != nil || (len(told) == 1) != (how == "merged") {
				t.Errorf("told %v, %v", told, err)
			}
		})
	}
}

// TestI7StopByCommand: see TestStopAndResume for what follows.
func TestI7StopByCommand(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: hangsOnTwo})
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	st.agentAt(s, "T2")
	st.comment(st.onlyPR().Number, person, "/ralph stop")
	state := st.ended(s.store, issue)
	if state.End != run.EndCancelled || len(state.Commits) == 0 {
		t.Errorf("ended %s with %d commits", state.End, len(state.Commits))
	}
}

// TestMissedWebhooksAreFetched: what GitHub could not deliver while the server
// was away is asked for at its next start.
func TestMissedWebhooksAreFetched(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	first := st.serve()
	one := st.label("Say one", "- [ ] Write one\n")
	if state := st.ended(first.store, one); state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(first)
	first.stop()
	two := st.label("Say two", "- [ ] Write two\n") // nobody listens
	if err := st.sim.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := st.serve()
	st.await("a run of the second issue", func() bool { return st.runs(second, two.Number) == 1 })
	if state := st.ended(second.store, two); state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(second)
	if st.runs(second, one.Number) != 1 || st.runs(second, two.Number) != 1 {
		t.Errorf("%d and %d runs", st.runs(second, one.Number), st.runs(second, two.Number))
	}
	again := 0
	for _, d := range st.sim.AllDeliveries() {
		if d.Redelivery {
			again++
			if d.Event == "issues" && d.Action == "opened" {
				t.Errorf("%s %s was asked for and is of no use", d.Event, d.Action)
			}
		}
	}
	if again == 0 {
		t.Error("nothing was delivered again")
	}
}

// TestC4DescriptionsOfPeople: what people write around the task list stays to
// the byte, and a list that lost its end is not written over.
func TestC4DescriptionsOfPeople(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: hangsOnTwo})
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	st.agentAt(s, "T2")
	pr := st.onlyPR()
	const before, after = "Hello @reviewers,\r\n\r\n| a | b |\r\n\r\n", "\r\n\r\n<!-- mine -->  \r\nbye"
	if err := st.sim.EditIssue(person, repoOf, pr.Number, person, "", before+pr.Body+after); err != nil {
		t.Fatal(err)
	}
	st.script("model: scripted\ntasks:\n  three: [{files: {three.txt: \"3\\n\"}, say: done}]\ndefault: [{misbehave: hang}]\n")
	st.comment(issue.Number, person, "/ralph skip T2")
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	body := st.onlyPR().Body
	if !strings.HasPrefix(body, before) || !strings.HasSuffix(body, after) ||
		!strings.Contains(body, "- [x] T3 Write three") {
		t.Errorf("the description:\n%q", body)
	}
}
