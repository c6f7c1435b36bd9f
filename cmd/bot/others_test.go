package main

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// atCommit does something once, when the n-th task has landed and before
// people are shown it.
func atCommit(n int, do func()) func(run.Event) {
	var mu sync.Mutex
	return func(ev run.Event) {
		mu.Lock()
		defer mu.Unlock()
		if ev.Kind != run.EventCommitted {
			return
		}
		if n--; n == 0 {
			do()
		}
	}
}

// intact says what a run of three tasks leaves if nothing is there twice.
func (st *stage) intact(state string, want ...string) {
	st.t.Helper()
	pr := st.onlyPR()
	if diff := cmp.Diff(want, subjects(pr.Commits)); diff != "" {
		st.t.Errorf("%s: commits (-want +got):\n%s", state, diff)
	}
	for _, c := range pr.Commits {
		if c.Author == st.app.BotLogin && !c.Verified {
			st.t.Errorf("%s: commit %q is not verified", state, c.Subject)
		}
	}
	if all := st.issue(1); len(all.Reactions) != 1 {
		st.t.Errorf("%s: reactions %+v", state, all.Reactions)
	}
}

// TestH1BranchOfPeople is built upon, also where people go on pushing to it.
func TestH1BranchOfPeople(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	push := func(message, file string) {
		if _, err := st.sim.Push(person, repoOf, "ralph/1", person,
			ghsim.PushOptions{Message: message, Files: map[string]string{file: "ada's\n"}}); err != nil {
			t.Error(err)
		}
	}
	push("Begin by hand", "begun.txt")
	s := st.serveWith(atCommit(2, func() { push("Help out", "help.txt") }))
	state := st.ended(s.store, st.label("Say hello", threeTasks))
	if state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.intact("in the end", "Begin by hand", wantSubjects[0], wantSubjects[1], "Help out", wantSubjects[2],
		wantSubjects[3])
	got := st.contents("ralph/1")
	for _, name := range []string{"begun.txt", "help.txt"} {
		if got[name] != "ada's\n" {
			t.Errorf("%s is %q", name, got[name])
		}
	}
}

// TestH3Trouble: limits, failures, lost answers and tokens that end at each kind of write make nothing happen twice, and nothing
// fall away.
func TestH3Trouble(t *testing.T) {
	t.Parallel()
	const secondary = `{"message":"You have exceeded a secondary rate limit.","documentation_url":"https://docs.github.com/rest"}`
	for name, fault := range map[string]ghsim.Fault{
		"primary limit": {Status: http.StatusForbidden, Body: `{"message":"API rate limit exceeded for installation ID 1."}`,
			Header: map[string]string{
				"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": strconv.FormatInt(time.Now().Unix()+1, 10),
			}},
		"secondary limit": {Status: http.StatusForbidden, Body: secondary, Header: map[string]string{"Retry-After": "1"}},
		"answer lost":     {After: true, Drop: true},
		"tokens end":      {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, setting{script: writesAll})
			watch := func(run.Event) { st.sim.ExpireTokens() }
			if name != "tokens end" {
				watch = func(run.Event) {}
				for at, method := range map[string]string{
					"/reactions$": "POST", "/git/refs$": "POST", "^/graphql createCommit": "POST", "/pulls$": "POST",
					"/pulls/[0-9]+$": "PATCH", "/check-runs$": "POST", "/labels$": "POST", "^/graphql markPullRequestReady": "POST",
				} {
					fault.Method, fault.Match = method, at
					st.inject(fault)
				}
			}
			s := st.serveWith(watch)
			if state := st.ended(s.store, st.label("Say hello", threeTasks)); state.End != run.EndAllTasksComplete {
				t.Fatalf("ended %s: %s", state.End, state.EndDetail)
			}
			st.processed(s)
			st.intact("in the end", wantSubjects...)
			if pr := st.onlyPR(); pr.Draft || strings.Count(pr.Body, "- [x] ") != 3 {
				t.Errorf("draft %v:\n%s", pr.Draft, pr.Body)
			}
		})
	}
}

// TestH4PeopleAndRules: what people and GitHub do to the branch and the pull
// request while a run is at work ends it, or is taken in; nothing is forced.
func TestH4PeopleAndRules(t *testing.T) {
	t.Parallel()
	const refusal = `{"data":{"createCommitOnBranch":null},"errors":[{"type":"UNPROCESSABLE","path":["createCommitOnBranch"],` +
		`"message":"Repository rule violations found\n\nCommits must have valid @ada fixes #1 signatures."}]}`
	for name, c := range map[string]struct {
		do     func(*stage)
		end    run.EndReason
		detail string
		// commits are those of the first task and what came of the rest.
		commits []string
	}{
		"a ruleset": {func(st *stage) {
			st.inject(ghsim.Fault{Match: "^/graphql createCommit", Times: 20, Status: 200, Body: refusal})
		}, run.EndAwaitingPerson, "Repository rule violations found", []string{wantSubjects[0]}},
		"the pull request is closed": {func(st *stage) {
			if err := st.sim.CloseIssue(person, repoOf, 2, person); err != nil {
				st.t.Error(err)
			}
		}, run.EndCancelled, "was closed", []string{wantSubjects[0]}}, // what a closed one shows
		"the branch is deleted": {func(st *stage) {
			if err := st.sim.DeleteBranch(person, repoOf, "ralph/1", person); err != nil {
				st.t.Error(err)
			}
		}, run.EndCancelled, "was ", nil}, // deleted, or the pull request closed with it: whichever is seen first
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, setting{script: writesAll})
			var once sync.Once
			s := st.serveWith(func(ev run.Event) {
				if ev.Kind == run.EventAgentStarted {
					st.clock.pass(showEvery)
				}
				if ev.Kind == run.EventAgentStarted && ev.TaskID == "T2" {
					once.Do(func() { c.do(st) })
				}
			})
			issue := st.label("Say hello", threeTasks)
			state := st.ended(s.store, issue)
			if state.End != c.end || !strings.Contains(state.EndDetail, c.detail) {
				t.Fatalf("ended %s: %s, want %s: %s", state.End, state.EndDetail, c.end, c.detail)
			}
			st.processed(s)
			branches, err := st.sim.Branches(person, repoOf)
			if err != nil {
				t.Fatal(err)
			}
			if (name == "the branch is deleted") != (branches["ralph/1"] == "") {
				t.Errorf("branches %v", branches)
			}
			if c.commits != nil {
				st.intact(name, c.commits...)
			}
			said := st.issue(issue.Number).Comments
			if len(said) != 1 || strings.Contains(said[0].Body, "@ada fixes #1") {
				t.Errorf("people are told: %+v", said)
			}
		})
	}
}

// TestDefaultBranchIsRenamed while a run is at work: with its pull request it goes on, and before that it ends
// with what helps.
func TestDefaultBranchIsRenamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		task string // at which it is renamed
		end  run.EndReason
	}{"before there is a pull request": {"T1", run.EndFailed}, "afterwards": {"T2", run.EndAllTasksComplete}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, setting{script: writesAll})
			var once sync.Once
			s := st.serveWith(func(ev run.Event) {
				if ev.Kind != run.EventAgentStarted || ev.TaskID != c.task {
					return
				}
				once.Do(func() {
					if err := st.sim.RenameBranch(person, repoOf, "main", person, "trunk"); err != nil {
						t.Error(err)
					}
				})
			})
			issue := st.label("Say hello", threeTasks)
			state := st.ended(s.store, issue)
			st.processed(s)
			if state.End != c.end {
				t.Fatalf("ended %s: %s", state.End, state.EndDetail)
			}
			if c.end != run.EndAllTasksComplete {
				said := st.issue(issue.Number).Comments
				if len(said) != 1 || !strings.Contains(said[0].Body, "`/ralph resume`") || strings.Count(said[0].Body, "`main`") != 1 {
					t.Errorf("people are told %+v", said)
				}
				st.comment(issue.Number, person, "/ralph resume")
				if state = st.another(s, issue, state.Run); state.End != run.EndAllTasksComplete {
					t.Fatalf("then ended %s: %s", state.End, state.EndDetail)
				}
				st.processed(s)
			}
			st.intact(name, wantSubjects...)
			if pr := st.onlyPR(); pr.Base != "trunk" || pr.Draft {
				t.Errorf("into %s, draft %v", pr.Base, pr.Draft)
			}
		})
	}
}

// showEvery is more than the pause between two updates of what people see.
const showEvery = 16 * time.Second

func (st *stage) inject(f ghsim.Fault) {
	if err := st.sim.Inject(f); err != nil {
		st.t.Error(err)
	}
}
