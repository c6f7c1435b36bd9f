package inline

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/run"
)

// tips are branches, each at a commit that is called after it.
func tips(prefix string, names ...string) map[string]gitrepo.OID {
	all := map[string]gitrepo.OID{}
	for _, name := range names {
		all[name] = gitrepo.OID(prefix + name)
	}
	return all
}

// TestDecide: where a plan is worked and where that begins, whatever git notes of the
// default branch. The plan is "k", called plan.
func TestDecide(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		current      string
		here, origin []string
		cached, says string
		tracking     []string
		owner        map[string]string
		merged       []string
		wish         wish

		branch, from, slug, err string
	}{
		"the default branch": {
			current: "main", here: []string{"main"}, branch: "ralph/plan", from: "main",
		},
		"origin/HEAD out of date, origin answers": {
			current: "main", here: []string{"main", "master"}, origin: []string{"main", "master"}, cached: "master",
			says: "main", branch: "ralph/plan", from: "main",
		},
		"origin/HEAD out of date, origin is silent": {
			current: "main", here: []string{"main", "master"}, origin: []string{"main", "master"}, cached: "master",
			branch: "ralph/plan", from: "main",
		},
		"origin's own HEAD is the old branch": {
			current: "main", here: []string{"main", "master"}, origin: []string{"main", "master"}, cached: "master",
			says: "master", branch: "ralph/plan", from: "main",
		},
		"origin's default branch is not here": {
			current: "master", here: []string{"master"}, origin: []string{"master"}, cached: "master", says: "main",
			branch: "ralph/plan", from: "master",
		},
		"origin/HEAD dangles": {
			current: "develop", here: []string{"develop", "x"}, origin: []string{"develop"}, tracking: []string{"develop"},
			branch: "ralph/plan", from: "develop",
		},
		"somebody's own branch": {
			current: "mine", here: []string{"main", "mine"}, branch: "ralph/plan", from: "main",
		},
		"the plan's branch is there": {
			current: "mine", here: []string{"main", "mine", "ralph/plan"}, branch: "ralph/plan",
		},
		"the plan's branch is checked out": {
			current: "ralph/plan", here: []string{"main", "ralph/plan"}, merged: []string{"ralph/plan"}, branch: "ralph/plan",
		},
		"the plan's branch is only on origin": {
			current: "main", here: []string{"main"}, origin: []string{"main", "ralph/plan"},
			branch: "ralph/plan", from: "origin/ralph/plan",
		},
		"the plan's branch is merged": {
			current: "main", here: []string{"main", "ralph/plan"}, merged: []string{"ralph/plan"},
			branch: "ralph/plan", from: "main",
		},
		"the name belongs to another plan": {
			current: "main", here: []string{"main", "ralph/plan"}, owner: map[string]string{"ralph/plan": "o"},
			branch: "ralph/plan-2", from: "main", slug: "plan-2",
		},
		"the plan has the second branch of its name": {
			current: "main", here: []string{"main", "ralph/plan", "ralph/plan-2"}, wish: wish{last: "ralph/plan-2"},
			branch: "ralph/plan-2", slug: "plan-2",
		},
		"another plan in the same file": {
			current: "main", here: []string{"main", "ralph/plan"}, wish: wish{last: "ralph/plan", finished: true},
			branch: "ralph/plan-2", from: "main", slug: "plan-2",
		},
		"the name is held, and has no branch yet": {
			current: "main", here: []string{"main"}, owner: map[string]string{"ralph/plan": "o"},
			branch: "ralph/plan-2", from: "main", slug: "plan-2",
		},
		"the branch of the last run belongs to another plan by now": {
			current: "main", here: []string{"main", "ralph/plan"}, owner: map[string]string{"ralph/plan": "o"},
			wish: wish{last: "ralph/plan"}, branch: "ralph/plan-2", from: "main", slug: "plan-2",
		},
		"the last run worked on what is the default branch": {
			current: "main", here: []string{"main"}, wish: wish{last: "main"}, branch: "ralph/plan", from: "main",
		},
		"the last run worked on what is checked out": {
			current: "work", here: []string{"main", "work"}, wish: wish{last: "work"}, branch: "work",
		},
		"the last run worked elsewhere": {
			current: "main", here: []string{"main", "work"}, wish: wish{last: "work"}, branch: "ralph/plan", from: "main",
		},
		"detached": {here: []string{"main"}, branch: "ralph/plan", from: "main"},
		"nothing is known": {
			current: "a", here: []string{"a", "b"}, err: "the default branch is not known here, so ralph/plan cannot begin",
		},
		"named, new": {
			current: "mine", here: []string{"main", "mine"}, wish: wish{named: "new"}, branch: "new", from: "main",
		},
		"named, the default branch": {
			current: "mine", here: []string{"main", "mine"}, wish: wish{named: "main"}, err: "main is the default branch",
		},
		"named, no name": {
			current: "main", here: []string{"main"}, wish: wish{named: "a..b"}, err: "not a valid branch name",
		},
		"here": {
			current: "mine", here: []string{"main", "mine"}, wish: wish{here: true}, branch: "mine",
		},
		"here, on the default branch": {
			current: "main", here: []string{"main"}, wish: wish{here: true}, err: "--here: main is the default branch",
		},
		"here, detached": {here: []string{"main"}, wish: wish{here: true}, err: "HEAD is detached"},
		"the plan names a branch": {
			current: "mine", here: []string{"main", "mine"}, wish: wish{planned: "feature"}, branch: "feature", from: "main",
		},
		"the plan names origin's default branch": {
			current: "x", here: []string{"dev", "x"}, origin: []string{"dev"}, says: "dev", wish: wish{planned: "dev"},
			err: `"branchName" in the plan: dev is the default branch`,
		},
		"the plan names what may be the default branch": {
			current: "x", here: []string{"main", "x"}, wish: wish{planned: "master"}, err: "was or may be the default branch",
		},
		"a branch is in the way": {
			current: "main", here: []string{"main", "ralph"}, err: "there is a branch ralph, so git cannot make ralph/plan",
		},
		"branches below are in the way": {
			current: "main", here: []string{"main", "ralph/plan/x"}, err: "there is a branch ralph/plan/x",
		},
		"a branch of origin is in the way of the push": {
			current: "main", here: []string{"main"}, origin: []string{"main", "ralph"}, wish: wish{pushes: true},
			err: "origin has a branch ralph, so it cannot take ralph/plan",
		},
		"a branch of origin, and nothing is pushed": {
			current: "main", here: []string{"main"}, origin: []string{"main", "ralph"}, branch: "ralph/plan", from: "main",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := repoView{
				current: tt.current, head: gitrepo.OID(cmp.Or(tt.current, "HEAD")), origin: tt.says,
				refs: gitrepo.Branches{
					Here: tips("", tt.here...), Origin: tips("origin/", tt.origin...), Head: tt.cached, Tracking: map[string]bool{},
				},
				owner:  func(branch, _ string, _ gitrepo.OID) (string, error) { return tt.owner[branch], nil },
				merged: func(_, commit gitrepo.OID) (bool, error) { return slices.Contains(tt.merged, string(commit)), nil },
			}
			for _, branch := range tt.tracking {
				v.refs.Tracking[branch] = true
			}
			tt.wish.key, tt.wish.slug = "k", "plan"
			p, err := decide(v, tt.wish)
			if tt.err != "" || err != nil {
				if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			want := place{
				branch: tt.branch, from: tt.from, head: gitrepo.OID(cmp.Or(tt.from, tt.branch)),
				slug: cmp.Or(tt.slug, "plan"), checkedOut: tt.branch == tt.current,
			}
			_, want.base = v.defaultBranch()
			if p != want {
				t.Errorf("%+v, want %+v", p, want)
			}
		})
	}
}

// TestDefaultBranch: what counts before what.
func TestDefaultBranch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		v    repoView
		want string
	}{
		"origin says": {
			repoView{origin: "a", refs: gitrepo.Branches{Here: tips("", "a", "b", "main"), Head: "b"}}, "a",
		},
		"origin says what is not here": {
			repoView{origin: "a", refs: gitrepo.Branches{Here: tips("", "b", "main"), Head: "b"}}, "b",
		},
		"what origin said": {
			repoView{current: "main", refs: gitrepo.Branches{
				Here: tips("", "main"), Origin: tips("", "b", "main"), Head: "b", Tracking: map[string]bool{"main": true},
			}}, "b",
		},
		"checked out and tracked": {
			repoView{current: "dev", refs: gitrepo.Branches{
				Here: tips("", "dev"), Origin: tips("", "dev", "x"), Tracking: map[string]bool{"dev": true},
			}}, "dev",
		},
		"of two usual names the one that is checked out": {
			repoView{current: "master", refs: gitrepo.Branches{Here: tips("", "main", "master")}}, "master",
		},
		"a tracked branch beside a usual name is work": {
			repoView{current: "topic", refs: gitrepo.Branches{
				Here: tips("", "topic"), Origin: tips("", "main", "topic"), Tracking: map[string]bool{"topic": true},
			}}, "main",
		},
		"a plan's branch that was pushed": {
			repoView{current: "ralph/x", refs: gitrepo.Branches{
				Here: tips("", "ralph/x", "y"), Origin: tips("", "ralph/x"), Tracking: map[string]bool{"ralph/x": true},
			}}, "",
		},
		"a usual name": {repoView{current: "x", refs: gitrepo.Branches{Here: tips("", "trunk", "x")}}, "trunk"},
		"the only one": {repoView{current: "x", refs: gitrepo.Branches{Here: tips("", "x")}}, "x"},
		"none":         {repoView{current: "x", refs: gitrepo.Branches{Here: tips("", "x", "y")}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, tip := tt.v.defaultBranch(); got != tt.want || (tip == "") != (tt.want == "") {
				t.Errorf("%q at %q, want %q", got, tip, tt.want)
			}
		})
	}
}

// TestBases: what finished work is compared with, and where it may be merged.
func TestBases(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		refs gitrepo.Branches
		want Bases
	}{
		"here":          {gitrepo.Branches{Here: tips("", "main", "ralph/x")}, Bases{"main", "main"}},
		"on origin":     {gitrepo.Branches{Here: tips("", "ralph/x"), Origin: tips("", "main"), Head: "main"}, Bases{"origin/main", "main"}},
		"nothing known": {gitrepo.Branches{Here: tips("", "a", "ralph/x")}, Bases{}},
	} {
		if got := (repoView{refs: tt.refs}).bases("ralph/x"); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// TestIsAnother: the plan that stands in a file is another than the finished one where it
// has another title and other content, and lacks a task.
func TestIsAnother(t *testing.T) {
	t.Parallel()
	planOf := func(title string, tasks ...string) plan.Plan {
		p := plan.Plan{Title: title, SHA256: title + strings.Join(tasks, "\n")}
		for _, task := range tasks {
			p.Tasks = append(p.Tasks, run.Task{Title: task})
		}
		return p
	}
	last := planOf("Inches", "one", "two")
	for name, tt := range map[string]struct {
		p    plan.Plan
		want bool
	}{
		"the same":          {planOf("Inches", "one", "two"), false},
		"one more task":     {planOf("Inches", "one", "two", "three"), false},
		"another title":     {planOf("Feet", "two", "three"), true},
		"another name":      {planOf("Link", "one", "two", "three"), false},
		"nothing in common": {planOf("Yards", "three"), true},
		"no tasks":          {planOf("Yards"), true},
	} {
		if got := isAnother(tt.p, last); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
