package inline

import (
	"cmp"
	"maps"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gitrepo"
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
	type notes = map[string]gitrepo.BranchNote
	mine := gitrepo.BranchNote{Plan: "k", Base: "main"}
	other := gitrepo.BranchNote{Plan: "o", Base: "main"}
	for name, tt := range map[string]struct {
		current      string
		here, origin []string
		cached, says string
		tracking     []string
		notes        notes
		bound        map[gitrepo.OID]string
		wish         wish

		branch, from string
		fresh        bool
		left, err    string
	}{
		"the default branch": {
			current: "main", here: []string{"main"}, branch: "ralph/plan", from: "main", fresh: true,
		},
		"origin/HEAD out of date, origin answers": {
			current: "main", here: []string{"main", "master"}, origin: []string{"main", "master"}, cached: "master",
			says: "main", tracking: []string{"main", "master"}, branch: "ralph/plan", from: "main", fresh: true,
		},
		"origin/HEAD out of date, origin is silent": {
			current: "main", here: []string{"main", "master"}, origin: []string{"main", "master"}, cached: "master",
			tracking: []string{"main", "master"}, branch: "ralph/plan", from: "main", fresh: true,
		},
		"origin's own HEAD is the old branch": {
			current: "main", here: []string{"main", "master"}, origin: []string{"main", "master"}, cached: "master",
			says: "master", tracking: []string{"main"}, branch: "ralph/plan", from: "main", fresh: true,
		},
		"origin's default branch is not here": {
			current: "master", here: []string{"master"}, origin: []string{"master"}, cached: "master", says: "main",
			tracking: []string{"master"}, branch: "ralph/plan", from: "master", fresh: true,
		},
		"origin/HEAD dangles": {
			current: "develop", here: []string{"develop", "x"}, origin: []string{"develop"}, tracking: []string{"develop"},
			branch: "ralph/plan", from: "develop", fresh: true,
		},
		"somebody's own branch": {
			current: "mine", here: []string{"main", "mine"}, branch: "ralph/plan", from: "mine", fresh: true,
		},
		"somebody's own branch, the plan's is there": {
			current: "mine", here: []string{"main", "mine", "ralph/plan"}, notes: notes{"ralph/plan": mine},
			branch: "ralph/plan", from: "main",
		},
		"the plan's branch": {
			current: "ralph/plan", here: []string{"main", "ralph/plan"}, notes: notes{"ralph/plan": mine}, branch: "ralph/plan",
		},
		"the plan's branch of another name": {
			current: "work/d", here: []string{"main", "work/d"}, notes: notes{"work/d": mine}, branch: "work/d",
		},
		"the plan's branch became the default one": {
			current: "main", here: []string{"main", "x"}, notes: notes{"main": mine},
			branch: "ralph/plan", from: "main", fresh: true,
		},
		"another plan's branch": {
			current: "ralph/other", here: []string{"main", "ralph/other"}, notes: notes{"ralph/other": other},
			branch: "ralph/plan", from: "main", fresh: true, left: "ralph/other",
		},
		"another plan's branch, origin/HEAD out of date": {
			current: "ralph/other", here: []string{"main", "master", "ralph/other"}, origin: []string{"main", "master"},
			cached: "master", notes: notes{"ralph/other": other},
			branch: "ralph/plan", from: "main", fresh: true, left: "ralph/other",
		},
		"another plan's branch, begun on somebody's": {
			current: "ralph/other", here: []string{"main", "mine", "ralph/other"}, cached: "main", origin: []string{"main"},
			notes:  notes{"ralph/other": {Plan: "o", Base: "mine"}},
			branch: "ralph/plan", from: "mine", fresh: true, left: "ralph/other",
		},
		"another plan's branch, what it began from is gone": {
			current: "ralph/other", here: []string{"dev", "ralph/other"}, origin: []string{"dev", "old"}, cached: "old",
			says: "dev", notes: notes{"ralph/other": {Plan: "o", Base: "mine"}},
			branch: "ralph/plan", from: "dev", fresh: true, left: "ralph/other",
		},
		"another plan's branch, of another clone": {
			current: "ralph/other", here: []string{"ralph/other"}, origin: []string{"dev", "ralph/other"}, cached: "dev",
			tracking: []string{"ralph/other"}, branch: "ralph/plan", from: "origin/dev", fresh: true, left: "ralph/other",
		},
		"another plan's branch, and nothing is known": {
			current: "ralph/other", here: []string{"a", "b", "ralph/other"}, err: "neither the branch that it was begun from",
		},
		"the name belongs to another plan": {
			current: "main", here: []string{"main", "ralph/plan"}, notes: notes{"ralph/plan": other},
			branch: "ralph/plan-2", from: "main", fresh: true,
		},
		"the name belongs to another plan, its file says": {
			current: "main", here: []string{"main", "ralph/plan"}, bound: map[gitrepo.OID]string{"ralph/plan": "o"},
			branch: "ralph/plan-2", from: "main", fresh: true,
		},
		"the name belonged to another plan that was merged": {
			current: "main", here: []string{"main", "ralph/plan"},
			bound:  map[gitrepo.OID]string{"ralph/plan": "o", "main": "o"},
			branch: "ralph/plan", from: "main",
		},
		"detached": {here: []string{"main"}, err: "HEAD is detached"},
		"detached, named": {
			here: []string{"main"}, wish: wish{named: "new"}, branch: "new", from: "HEAD", fresh: true,
		},
		"named, new": {
			current: "mine", here: []string{"main", "mine"}, wish: wish{named: "new"}, branch: "new", from: "mine", fresh: true,
		},
		"named, new, on another plan's branch": {
			current: "ralph/other", here: []string{"main", "ralph/other"}, notes: notes{"ralph/other": other},
			wish: wish{named: "new"}, branch: "new", from: "main", fresh: true, left: "ralph/other",
		},
		"named, the default branch": {
			current: "mine", here: []string{"main", "mine"}, wish: wish{named: "main"}, branch: "main", from: "main",
		},
		"named, no name": {
			current: "main", here: []string{"main"}, wish: wish{named: "a..b"}, err: "not a valid branch name",
		},
		"here": {
			current: "main", here: []string{"main"}, wish: wish{here: true}, branch: "main",
		},
		"the plan names a branch": {
			current: "mine", here: []string{"main", "mine"}, wish: wish{planned: "feature"},
			branch: "feature", from: "mine", fresh: true,
		},
		"the plan names origin's default branch": {
			current: "x", here: []string{"dev", "x"}, origin: []string{"dev"}, says: "dev", wish: wish{planned: "dev"},
			err: "is the default branch",
		},
		"the plan names what may be the default branch": {
			current: "master", here: []string{"main", "master"}, origin: []string{"main", "master"}, cached: "master",
			wish: wish{planned: "main"}, err: "is, was or may be the default branch",
		},
		"the plan names a branch of a usual name where origin has another": {
			current: "dev", here: []string{"dev"}, origin: []string{"dev"}, says: "dev", wish: wish{planned: "trunk"},
			branch: "trunk", from: "dev", fresh: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := repoView{
				current: tt.current, head: gitrepo.OID(cmp.Or(tt.current, "HEAD")), notes: tt.notes, origin: tt.says,
				refs: gitrepo.Branches{
					Here: tips("", tt.here...), Origin: tips("origin/", tt.origin...), Head: tt.cached, Tracking: map[string]bool{},
				},
				bound: func(commit gitrepo.OID, _ string) (src, key string, err error) {
					return tt.bound[commit], tt.bound[commit], nil
				},
			}
			for _, branch := range tt.tracking {
				v.refs.Tracking[branch] = true
			}
			before := maps.Clone(tt.notes)
			tt.wish.key, tt.wish.slug = "k", "plan"
			p, err := decide(v, tt.wish)
			if tt.err != "" || err != nil {
				if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if p.branch != tt.branch || p.fresh != tt.fresh || p.left != tt.left {
				t.Errorf("on %s, fresh %t, left %q; want %s, %t, %q", p.branch, p.fresh, p.left, tt.branch, tt.fresh, tt.left)
			}
			from := gitrepo.OID(tt.from)
			if p.branch == v.current {
				from = v.head
			}
			name := strings.TrimPrefix(tt.from, "origin/")
			if name == "HEAD" { // it has none
				name = ""
			}
			if p.base != from || p.baseName != name {
				t.Errorf("begins from %q at %q, want %q", p.baseName, p.base, tt.from)
			}
			if p.fresh && p.note == nil || p.note != nil && p.fresh && p.note.Base != p.baseName {
				t.Errorf("noted %+v", p.note)
			}
			if diff := gocmp.Diff(before, tt.notes); diff != "" {
				t.Errorf("the notes were changed:\n%s", diff)
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
				Here: tips("", "main", "dev"), Origin: tips("", "dev", "x"), Tracking: map[string]bool{"dev": true},
			}}, "dev",
		},
		"of two usual names the one that is checked out": {
			repoView{current: "master", refs: gitrepo.Branches{
				Here: tips("", "main", "master"), Origin: tips("", "main", "master"), Tracking: map[string]bool{"master": true},
			}}, "master",
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
		"what plans began from": {
			repoView{refs: gitrepo.Branches{Here: tips("", "x", "ralph/y")}, notes: map[string]gitrepo.BranchNote{
				"ralph/y": {Plan: "y", Base: "x"},
			}}, "x",
		},
		"none": {repoView{current: "x", refs: gitrepo.Branches{Here: tips("", "x", "y")}}, ""},
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
	noted := func(base string) map[string]gitrepo.BranchNote {
		return map[string]gitrepo.BranchNote{"ralph/x": {Plan: "x", Base: base}}
	}
	for name, tt := range map[string]struct {
		v    repoView
		want Bases
	}{
		"no remote": {
			repoView{refs: gitrepo.Branches{Here: tips("", "main", "mine")}, notes: noted("mine")}, Bases{"mine", "mine"},
		},
		"a branch of origin": {
			repoView{refs: gitrepo.Branches{
				Here: tips("", "main"), Origin: tips("", "main", "dev"), Head: "main",
			}, notes: noted("dev")}, Bases{"origin/dev", "dev"},
		},
		"a branch of one's own": {
			repoView{refs: gitrepo.Branches{
				Here: tips("", "main", "mine"), Origin: tips("", "main"), Head: "main",
			}, notes: noted("mine")}, Bases{"mine", "main"},
		},
		"nothing noted": {
			repoView{refs: gitrepo.Branches{Here: tips("", "main", "ralph/x")}}, Bases{"main", "main"},
		},
		"nothing known": {repoView{refs: gitrepo.Branches{Here: tips("", "a", "ralph/x")}}, Bases{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := gocmp.Diff(tt.want, tt.v.bases("ralph/x")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
