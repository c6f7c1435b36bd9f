package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/prompt"
	"github.com/org/ralph-action/internal/run"
)

// scripted is a run whose calls go as they are written down, and what comes of it.
type scripted struct {
	plan string // oneTask where it is ""
	tree files
	// calls are those at each task, at "verify" those that look whether it is done, and at "*" those at all
	// others. A call is edits of files, such as "a.go=text; b.go=", or "tick", and what it says behind "|".
	// The last one of a list goes on; "!" before its words has it run out of time.
	calls map[string][]string
	// checks are commands, each with what passes on which tree; none where it is nil.
	checks map[string]func(files) bool
	change func(*loop.Request)

	end   run.EndReason
	made  int // calls in all
	lands []string
	// told is what the prompt of a call says, by its number from 0; said what the run tells people.
	told map[int]string
	said string
	// keeps is a file that is kept of the last attempt for people to look at.
	keeps string
}

func (sc scripted) play(t *testing.T) {
	t.Helper()
	w := newWorld(t)
	if sc.tree != nil {
		w.landed[0].Tree = w.store(sc.tree)
	}
	made := map[string]int{}
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		key := s.TaskID
		if s.Job == prompt.JobVerify {
			key = "verify"
		}
		list, ok := sc.calls[key]
		if !ok {
			list = sc.calls["*"]
		}
		edits, words, _ := strings.Cut(list[min(made[key], len(list)-1)], "|")
		made[key]++
		for edit := range strings.SplitSeq(edits, ";") {
			switch name, content, ok := strings.Cut(strings.TrimSpace(edit), "="); {
			case ok:
				w.work[name] = strings.ReplaceAll(content, "NEW", a.Name)
			case name == "tick":
				w.work[s.ProgressPath] = strings.Replace(w.work[s.ProgressPath], "- [ ] "+s.TaskID, "- [x] "+s.TaskID, 1)
			case name == "parts":
				w.add(s, "first half", "second half")
			}
		}
		if words, late := strings.CutPrefix(words, "!"); late {
			return loop.AgentStatus{Outcome: loop.AgentTimedOut, Detail: words}
		}
		return completed(words)
	}
	plan := sc.plan
	if plan == "" {
		plan = oneTask
	}
	r := request(t, plan)
	for command := range sc.checks {
		if !strings.HasPrefix(command, "own ") {
			r.Gates = append(r.Gates, gate.Gate{Name: command, Command: command, Kind: gate.Test})
		}
	}
	w.gate = func(tree files, command string) bool { return sc.checks[command] == nil || sc.checks[command](tree) }
	if sc.change != nil {
		sc.change(&r)
	}
	s := w.drive(loop.NewState(r, w.now), nil)
	if s.End != sc.end || len(w.prompts) != sc.made {
		t.Errorf("ended %s (%s) after %d calls, want %s after %d\n%s", s.End, s.EndDetail, len(w.prompts), sc.end, sc.made,
			s.Progress)
	}
	lands := slices.DeleteFunc(taskIDs(s.Commits), func(id string) bool { return id == "" })
	if diff := cmp.Diff(sc.lands, lands); diff != "" {
		t.Error(diff)
	}
	for at, want := range sc.told {
		if at < len(w.prompts) && !strings.Contains(w.prompts[at], want) {
			t.Errorf("call %d is not told %q:\n%s", at, want, w.prompts[at])
		}
	}
	if all := s.EndDetail + s.Progress + fmt.Sprint(s.Findings); !strings.Contains(all, sc.said) {
		t.Errorf("nobody is told %q:\n%s", sc.said, all)
	}
	if n := len(w.refused); sc.keeps != "" && (n == 0 || w.trees[w.refused[n-1].To][sc.keeps] == "") {
		t.Errorf("%s is not kept of the last of %d attempts", sc.keeps, n)
	}
	if _, stray := w.trees[w.head().Tree]["stray"]; stray {
		t.Error("what only looks, splits or is taken back has landed")
	}
}

func without(name, text string) func(files) bool {
	return func(tree files) bool { return tree[name] != text }
}

func with(name, text string) func(files) bool {
	return func(tree files) bool { return tree[name] == text }
}

// TestWhatCallsComeTo: what a call leaves and says decides what follows.
func TestWhatCallsComeTo(t *testing.T) {
	t.Parallel()
	const done, complete = "|RALPH_RESULT: done", run.EndAllTasksComplete
	base := files{"a.go": "package a\n\nfunc A() {}\n", "README": "hello"}
	look := func(answer string) map[string][]string {
		return map[string][]string{"T1": {"|It is in a.go.\n\nRALPH_RESULT: done"}, "verify": {"stray=x|" + answer}}
	}
	for name, sc := range map[string]scripted{
		"partial work stays, and uses no attempt": {
			calls: map[string][]string{"T1": {
				"m1=x|RALPH_RESULT: partial: 2 modules are left", "m2=x|RALPH_RESULT: partial: 1 module is left", "m3=x" + done,
			}},
			end: complete, made: 3, lands: []string{"T1"}, told: map[int]string{1: "2 modules are left", 2: "1 module is left"},
			said: "continues; left: 2 modules are left",
		},
		"partial work is split, then a person is asked": {
			calls: map[string][]string{"*": {"m=NEW; stray=x|RALPH_RESULT: partial: the hard half"}, "T1": {
				"m=1|RALPH_RESULT: partial: the hard half", "parts",
			}},
			change: func(r *loop.Request) { r.Limits.PartialCalls = 1 },
			end:    run.EndAwaitingPerson, made: 4, told: map[int]string{2: "the hard half"}, said: "needs a person: ", keeps: "m",
		},
		"half a plan is no plan": {
			plan:  "Say hello in two files.\n",
			calls: map[string][]string{"": {"parts|!it took too long", "parts|planned"}, "*": {"a=NEW" + done}},
			end:   complete, made: 4, lands: []string{"T1", "T2"},
		},
		"half a split is no split": {
			calls: map[string][]string{"T1": {
				"|RALPH_RESULT: failed: this task is too large for one call", "parts|!late", "parts|!late", "parts|!late", "a=NEW" + done,
			}},
			end: complete, made: 5, lands: []string{"T1"},
		},
		"partial, and nothing was changed": {
			calls: map[string][]string{"T1": {"|RALPH_RESULT: partial: all of it"}}, end: run.EndBlocked, made: 3,
		},
		"blocked: the others go on, and a person is asked": {
			plan: threeTasks, calls: map[string][]string{"T1": {"|RALPH_RESULT: blocked: the password"}, "*": {"a=NEW" + done}},
			end: run.EndAwaitingPerson, made: 3, lands: []string{"T2", "T3"}, said: "T1 needs a person: the password",
		},
		"blocked by something else that is large, broken or dear": {
			plan: "- [ ] one\n- [ ] two\n- [ ] three\n- [ ] four\n", calls: map[string][]string{
				"T1": {"|RALPH_RESULT: blocked: the payment sandbox seems to be broken, somebody has to restart it"},
				"T2": {"|RALPH_RESULT: blocked: the licence costs too much, who decides?"},
				"T3": {"|RALPH_RESULT: blocked: the change needs a fixture that is too large to download without network"},
				"T4": {"|RALPH_RESULT: failed: the lock file seems to be broken", "a=x" + done},
			},
			end: run.EndAwaitingPerson, made: 5, lands: []string{"T4"}, said: "T2 needs a person: the licence",
		},
		"blocked, for the task is too large": {
			calls: map[string][]string{"T1": {"|RALPH_RESULT: blocked: this should be split into two", "parts"}, "*": {"m=NEW" + done}},
			end:   complete, made: 4, lands: []string{"T2", "T3"}, said: "said that the task is too large: this should be split",
		},
		"a question in prose is shown to people": {
			calls: map[string][]string{"T1": {"|Which of the two registries is meant?"}}, end: run.EndBlocked, made: 3,
			told: map[int]string{1: "Nobody answers questions while you work"}, said: "It said: Which of the two registries is meant?",
		},
		"a look that runs out of time is none": {
			tree: base, calls: map[string][]string{
				"T1": {"|It is in a.go.\n\nRALPH_RESULT: done"}, "verify": {"|!no output for 10m", "|1. no: B\n\nRALPH_VERIFY: not agreed: B",
					"|1. yes: a.go:3 declares it\n\nRALPH_VERIFY: agreed"},
			},
			end: complete, made: 6, lands: []string{"T1"}, said: "was already done",
		},
		"what is begun is kept for the person who is asked": {
			calls: map[string][]string{"T1": {"a=x|RALPH_RESULT: blocked: the password", "b=y|RALPH_RESULT: blocked: the password"}},
			end:   run.EndAwaitingPerson, made: 2, said: "T1 needs a person: the password", keeps: "b",
		},
		"failed work does not land": {
			calls: map[string][]string{"T1": {"a=x|RALPH_RESULT: failed: I do not see why", "a=y" + done}},
			end:   complete, made: 2, lands: []string{"T1"}, told: map[int]string{1: "I do not see why"},
		},
		"what is claimed is judged by the checks, whatever else it tells": {
			calls: map[string][]string{"T1": {"a=x; tick|The old tests still fail. Shall I go on?\n\nRALPH_RESULT: done"}},
			end:   complete, made: 1, lands: []string{"T1"},
		},
		"a call that does nothing has fixed nothing": {
			checks: map[string]func(files) bool{"suite": without("a", "bad")},
			calls:  map[string][]string{"T1": {"a=bad" + done, "|!no output for 10m", "a=good" + done}},
			end:    complete, made: 3, lands: []string{"T1"}, told: map[int]string{1: "output of suite", 2: "output of suite"},
		},
		"a task's own check": {
			plan: "- [ ] one\n- [ ] two\n", checks: map[string]func(files) bool{"own accept": with("a", "right"), "suite": nil},
			change: func(r *loop.Request) { r.Plan.Tasks[0].Checks = []string{"own accept"} },
			calls:  map[string][]string{"T1": {"a=wrong" + done, "a=right" + done}, "T2": {"a=any" + done}},
			end:    complete, made: 3, lands: []string{"T1", "T2"}, told: map[int]string{1: "output of own accept"},
		},
		"done already": {
			tree: base, calls: look("1. yes: a.go:3 declares it\n\nRALPH_VERIFY: agreed"), checks: map[string]func(files) bool{"suite": nil},
			end: complete, made: 2, lands: []string{"T1"}, told: map[int]string{1: "1. Migrate the ten modules"},
			said: "was already done: a.go:3 declares it",
		},
		"done already, shown by a command": {
			tree: base, calls: look("1. yes: `go vet ./...` prints nothing at 12:30\n\nRALPH_VERIFY: agreed"),
			end: complete, made: 2, lands: []string{"T1"},
		},
		"who looks objects, twice": {
			tree: base, calls: look("1. no: only B is there\n\nRALPH_VERIFY: not agreed: only B is there"),
			end: run.EndAwaitingPerson, made: 5, told: map[int]string{2: "only B is there"}, said: "Is it done?",
		},
		"no such file": {
			tree: base, calls: look("1. yes: `no/where.go:9`\n\nRALPH_VERIFY: agreed"), end: run.EndAwaitingPerson, made: 5,
		},
		"no such line": {
			tree: base, calls: look("1. yes: a.go:300\n\nRALPH_VERIFY: agreed"), end: run.EndAwaitingPerson, made: 5,
		},
		"no evidence": {tree: base, calls: look("1. yes: I am sure\n\nRALPH_VERIFY: agreed"), end: run.EndAwaitingPerson, made: 5},
		"no answer":   {tree: base, calls: look("Looks good to me!"), end: run.EndAwaitingPerson, made: 5},
		"unfinished work is not done by words": {
			calls: map[string][]string{
				"T1":     {"a=1|RALPH_RESULT: partial: B", done, "a=2" + done},
				"verify": {"|1. no: B is missing\n\nRALPH_VERIFY: not agreed: B is missing"},
			},
			end: complete, made: 4, lands: []string{"T1"}, told: map[int]string{3: "B is missing"},
		},
		"what was taken back is looked at": {
			tree: base, checks: map[string]func(files) bool{"suite": without("README", "bad")},
			calls: map[string][]string{
				"T1": {"README=bad" + done, "README=hello" + done}, "verify": {"|1. yes: a.go:1\n\nRALPH_VERIFY: agreed"},
			},
			end: complete, made: 3, lands: []string{"T1"},
		},
		"far from what the task names, and claimed again": {
			plan: "- [ ] Make sub/code.go faster\n", tree: files{"sub/code.go": "x\n"},
			calls: map[string][]string{"T1": {"other=NEW" + done}, "verify": {"|1. yes: sub/code.go:1\n\nRALPH_VERIFY: agreed"}},
			end:   complete, made: 3, lands: []string{"T1"}, told: map[int]string{1: "nothing near what the task names"},
		},
		"far from what the task names, and not claimed again": {
			plan: "- [ ] Make sub/code.go faster\n", tree: files{"sub/code.go": "x\n"},
			calls: map[string][]string{"T1": {"other=1" + done, "|I looked at it."}}, end: run.EndBlocked, made: 6,
		},
		"near what the task names": {
			plan: "- [ ] Make sub/code.go faster\n", tree: files{"sub/code.go": "x\n"},
			calls: map[string][]string{"T1": {"sub/more.go=1" + done}}, end: complete, made: 1, lands: []string{"T1"},
		},
		"a fix comes before the check that asked for it": {
			plan: "- [ ] (P1) [VERIFY] Quality checkpoint\n- [ ] (P1) one\n", checks: map[string]func(files) bool{"own one": with("fixed", "x")},
			change: func(r *loop.Request) { r.Plan.Tasks[0].Checks = []string{"own one"} },
			calls:  map[string][]string{"T3": {"fixed=x" + done}, "*": {"a=NEW" + done}},
			end:    complete, made: 2, lands: []string{"T3", "T1", "T2"},
		},
		"what the host finds and nobody fixes": {
			plan: "- [ ] one\n- [ ] [VERIFY] Quality checkpoint\n", checks: map[string]func(files) bool{"own one": with("fixed", "x")},
			change: func(r *loop.Request) { r.Plan.Tasks[1].Checks = []string{"own one"} },
			calls:  map[string][]string{"T1": {"a=1" + done}, "*": {"fixed=no" + done}},
			end:    run.EndBlocked, made: 13, lands: []string{"T1"}, said: "Fix what T2 found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc.play(t)
		})
	}
}

// TestWhatToolsMakeIsLeftOut: it fails nothing, and is named once, for people and for the next call.
func TestWhatToolsMakeIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tools = []string{"node_modules", "env", "a", "b", "c", "d"}
	var notices []string
	w.agent = func(w *world, s loop.State, a loop.AgentStart) loop.AgentStatus {
		if strings.Contains(a.Prompt, "left out of the work: node_modules (of a tool), env") {
			notices = append(notices, s.TaskID)
		}
		w.work["src/"+s.TaskID+".txt"] = "done"
		return claimed()
	}
	s := w.drive(loop.NewState(request(t, threeTasks), w.now), nil)
	if s.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", s.End, s.EndDetail)
	}
	var told []string
	for _, f := range s.Findings {
		if f.Rule == "left_out" {
			told = append(told, f.Text)
		}
	}
	want := []string{
		"left out of the work: node_modules (of a tool), env (of a tool), a (of a tool), b (of a tool), c (of a tool) and 1 more",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	if len(notices) != 1 || notices[0] != "T2" {
		t.Errorf("the calls at %q were told", notices)
	}
	if slices.ContainsFunc(s.History, func(l loop.Iteration) bool { return l.Note != "" }) {
		t.Errorf("an attempt failed: %+v", s.History)
	}
}

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
