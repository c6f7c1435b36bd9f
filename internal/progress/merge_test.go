package progress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/run"
)

// edits is a list of replacements, old and new by turns.
type edits []string

func (e edits) apply(t *testing.T, s string) string {
	t.Helper()
	for pair := range slices.Chunk(e, 2) {
		if !strings.Contains(s, pair[0]) {
			t.Fatalf("%q is not in the document", pair[0])
		}
		s = strings.Replace(s, pair[0], pair[len(pair)-1], 1)
	}
	return s
}

// hostDid is what the host does when it lands T2.
var hostDid = edits{
	"- [ ] T2", "- [x] T2",
	"- one\n", "- one\n- of the host\n",
	"This Iteration\n", "This Iteration\n- T2 Wire the flag\n",
	"### Iteration 4\n- Tried: a\n- Result: b\n- Next: c\n", "",
	"| T1 | |\n", "| T1 | |\n| 2 | 2026-11-20 11:00:00Z | 1m0s | T2 | |\n",
}

// What people do to the file while the host lands T2, and what comes of it:
// the person's file with hostDid done to it, but for what result says.
func TestMerge(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		host      edits // besides hostDid
		human     edits
		result    edits // done to the person's file in place of hostDid
		changes   []ChangeKind
		conflicts []string
	}{
		{name: "ticks", human: edits{"- [ ] T3", "- [x] T3"}, changes: []ChangeKind{ChangeTicked}},
		{
			name: "ticks what is done meanwhile", human: edits{"- [ ] T2", "- [X] T2"}, result: hostDid[2:],
			changes: []ChangeKind{ChangeTicked},
		},
		{name: "unticks", human: edits{"- [x] T1", "- [ ] T1"}, changes: []ChangeKind{ChangeUnticked}},
		{name: "skips", human: edits{"suite\n", "suite (skipped: later)\n"}, changes: []ChangeKind{ChangeSkipped}},
		{name: "skips what is done meanwhile", human: edits{
			"the flag\n", "the flag (skipped: later)\n",
		}, result: hostDid[2:], changes: []ChangeKind{ChangeSkipped},
			conflicts: []string{`T2 "Wire the flag": you and the run changed it at the same time; yours was kept.`}},
		{name: "rewords", human: edits{"whole suite", "fast suite"}, changes: []ChangeKind{ChangeReworded}},
		{name: "rewords what is done meanwhile", human: edits{
			"Wire the flag", "Wire it",
		}, changes: []ChangeKind{ChangeReworded},
			conflicts: []string{
				`T2 "Wire the flag": you changed it while it was being done; your wording was kept, and it counts as done.`,
			}},
		{
			name:    "reorders",
			human:   edits{"- [ ] T2 (P1) Wire the flag\n", "", "suite\n", "suite\n- [ ] T2 (P1) Wire the flag\n"},
			changes: []ChangeKind{ChangeOrder},
		},
		{name: "adds", human: edits{"suite\n", "suite\n* [ ] Tidy up\n  with care\n"}, changes: []ChangeKind{ChangeAdded}},
		{name: "adds with the id of the host's", host: edits{
			"suite\n", "suite\n- [ ] T4 Tidy up\n",
		}, human: edits{"suite\n", "suite\n- [ ] T4 Write docs\n"},
			result:  append(edits{"suite\n- [ ] T4 Write", "suite\n- [ ] T4 Tidy up\n- [ ] T5 Write"}, hostDid...),
			changes: []ChangeKind{ChangeAdded}},
		{name: "pushes onto a landing that the host has lost", host: edits{
			"suite\n", "suite\n- [ ] T4 Tidy up\n- [ ] T5 Sweep\n",
		}, human: edits{"suite\n", "suite\n- [ ] T4 Tidy up\n- [ ] T6 Sweep\n- [ ] T5 Write docs\n"},
			result:  append(edits{"T6 Sweep", "T5 Sweep", "T5 Write", "T7 Write"}, hostDid...),
			changes: []ChangeKind{ChangeAdded}},
		{name: "adds another task of the same title", host: edits{
			"suite\n", "suite\n- [ ] T4 Tidy up\n  - Accept: b\n- [ ] T5 Sweep\n",
		}, human: edits{"suite\n", "suite\n- [ ] Tidy up\n\n### Last\n- [ ] Sweep\n"},
			result:  append(edits{"suite\n", "suite\n- [ ] T4 Tidy up\n  - Accept: b\n- [ ] T5 Sweep\n"}, hostDid...),
			changes: []ChangeKind{ChangeAdded, ChangeAdded}},
		{name: "the host adds to a phase", host: edits{
			"suite\n", "suite\n- [ ] T4 a\n  - Accept: b\n- [ ] T5 c\n\n### Last\n- [ ] T6 d\n",
		}, human: edits{"Some prose.", "Any prose."},
			result: append(edits{"suite\n", "suite\n- [ ] T4 a\n  - Accept: b\n- [ ] T5 c\n\n### Last\n- [ ] T6 d\n"},
				hostDid...), changes: []ChangeKind{ChangeSection}},
		{
			name: "deletes", human: edits{"- [ ] T3 (P2) [VERIFY] Run the whole suite\n", ""},
			changes: []ChangeKind{ChangeRemoved},
		},
		{name: "deletes what is done meanwhile", human: edits{
			"- [ ] T2 (P1) Wire the flag\n", "",
		}, result: hostDid[2:], changes: []ChangeKind{ChangeRemoved},
			conflicts: []string{`T2 "Wire the flag": you removed it while the run changed it; it stays removed, and what was done stays on the branch.`}},
		{name: "ticks what the host gives up", host: edits{
			"suite\n", "suite (blocked: why)\n",
		}, human: edits{"- [ ] T3", "- [x] T3"}, changes: []ChangeKind{ChangeTicked},
			conflicts: []string{
				`T3 "Run the whole suite": you and the run changed it at the same time; yours was kept.`,
			}},
		{
			name: "the host gives up", host: edits{"suite\n", "suite (blocked: why)\n"}, human: edits{"(P2)", "(P3)"},
			result: append(edits{"suite\n", "suite (blocked: why)\n"}, hostDid...), changes: []ChangeKind{ChangeReworded},
		},
		{
			name: "learns", human: edits{"- one\n", "- one\n- of a person\n"},
			result: append(slices.Clone(hostDid), "- one\n- of the host\n- of a person\n",
				"- one\n- of a person\n- of the host\n"),
			changes: []ChangeKind{ChangeSection},
		},
		{
			name: "corrects what was learned", human: edits{"- one\n", "- no\n"},
			result:  append(edits{"- no\n", "- no\n- of the host\n"}, hostDid.without("- one\n")...),
			changes: []ChangeKind{ChangeSection},
		},
		{name: "edits what the host clears", human: edits{
			"Result: b", "Result: x",
		}, result: hostDid.without("### Iteration 4\n- Tried: a\n- Result: b\n- Next: c\n"), changes: []ChangeKind{
			ChangeSection,
		},
			conflicts: []string{"Recent Attempts: you and the run changed it at the same time; yours was kept."}},
		{name: "sets a status", human: edits{"IN_PROGRESS", "RALPH_DONE"}, changes: []ChangeKind{ChangeSection}},
		{
			name: "sets a status that the host sets", host: edits{"IN_PROGRESS", "RALPH_DONE"},
			human: edits{"IN_PROGRESS", "PAUSED"}, result: append(edits{"PAUSED", "RALPH_DONE"}, hostDid...),
			changes: []ChangeKind{ChangeSection},
		},
		{name: "writes into the log", human: edits{"| T1 | |\n", "| T1 | |\n| - | - | - | - | by hand |\n"},
			result: append(hostDid.without("| T1 | |\n"), "by hand |\n",
				"by hand |\n| 2 | 2026-11-20 11:00:00Z | 1m0s | T2 | |\n"), changes: []ChangeKind{ChangeSection}},
		{
			name: "adds a section", human: edits{"## Learnings", "## Ideas\n- [ ] none\n\n## Learnings"},
			changes: []ChangeKind{ChangeSection},
		},
		{name: "removes a section the host wrote into", human: edits{
			"## Learnings\n- one\n\n", "",
		}, result: hostDid.without("- one\n"), changes: []ChangeKind{ChangeSection},
			conflicts: []string{"Learnings: you and the run changed it at the same time; yours was kept."}},
		{name: "another title", human: edits{"Progress: Add", "Progress: Drop"}, changes: []ChangeKind{ChangeSection}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			host := append(slices.Clone(hostDid), tc.host...).apply(t, sample(false))
			human := tc.human.apply(t, sample(false))
			if tc.result == nil {
				tc.result = hostDid
			}
			want := tc.result.apply(t, human)
			for _, crlf := range []bool{false, true} {
				if crlf { // the person's editor; the host's own file has newlines
					human, want = strings.ReplaceAll(human, "\n", "\r\n"), strings.ReplaceAll(want, "\n", "\r\n")
				}
				m := Merge(parse(t, sample(false)), parse(t, host), parse(t, human))
				if diff := cmp.Diff(want, string(m.Doc.Bytes())); diff != "" {
					t.Errorf("crlf %v (-want +got):\n%s", crlf, diff)
				}
				for _, c := range m.Changes {
					if now, _ := m.Doc.Task(c.TaskID); c.Kind == ChangeAdded && c.TaskID != "" && plain(now.Title) != c.Text {
						t.Errorf("%s is said to be %q, and is %q", c.TaskID, c.Text, now.Title)
					}
				}
				if diff := cmp.Diff(tc.changes, changeKinds(m.Changes)); diff != "" {
					t.Errorf("changes (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.conflicts, m.Conflicts); diff != "" {
					t.Errorf("conflicts (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// without leaves out the replacement of old.
func (e edits) without(old string) edits {
	var out edits
	for pair := range slices.Chunk(e, 2) {
		if pair[0] != old {
			out = append(out, pair...)
		}
	}
	return out
}

func changeKinds(cs []Change) []ChangeKind {
	var out []ChangeKind
	for _, c := range cs {
		out = append(out, c.Kind)
	}
	return out
}

// What one side did not touch is the other's to the byte.
func TestMergeOfOneSide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := mustParse(t, sample(rapid.Bool().Draw(t, "crlf")))
		src := string(base.Bytes())
		for range rapid.IntRange(0, 4).Draw(t, "edits") {
			src = hostileEdit(t, src)
		}
		other, err := Parse([]byte(src))
		if err != nil {
			return
		}
		for name, m := range map[string]Merged{
			"human only": Merge(base, base, other), "host only": Merge(base, other, base),
			"both alike": Merge(base, other, other),
		} {
			if string(m.Doc.Bytes()) != src || len(m.Conflicts) > 0 {
				t.Fatalf("%s: %v\n%s", name, m.Conflicts, cmp.Diff(src, string(m.Doc.Bytes())))
			}
		}
	})
}

// No tick is made up, and no task is lost that nobody removed.
func TestMergeIsSafe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := mustParse(t, sample(rapid.Bool().Draw(t, "crlf")))
		if rapid.Bool().Draw(t, "other document") {
			base = someDoc(t)
		}
		side := func(label string) *Doc {
			src := string(base.Bytes())
			for range rapid.IntRange(1, 3).Draw(t, label) {
				src = hostileEdit(t, src)
			}
			d, err := Parse([]byte(src))
			if err != nil {
				return base.Clone()
			}
			return d
		}
		host, human := side("host"), side("human")
		m := Merge(base, host, human)
		merged(t, base, host, human, m)
	})
}

func merged(t interface {
	Helper()
	Fatalf(string, ...any)
}, base, host, human *Doc, m Merged) {
	t.Helper()
	got, err := Parse(m.Doc.Bytes())
	if err != nil {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff(got.Tasks(), m.Doc.Tasks()); diff != "" {
		t.Fatalf("the tasks in memory are others (-bytes +memory):\n%s", diff)
	}
	doneGot, doneMost := 0, 0
	titles := make(map[string]int)
	for _, task := range got.tasks {
		titles[task.Title]++
		if task.Status == run.TaskDone {
			doneGot++
		}
	}
	for _, d := range []*Doc{host, human} {
		for _, task := range d.tasks {
			if task.Status == run.TaskDone {
				doneMost++
			}
		}
	}
	if doneGot > doneMost {
		t.Fatalf("%d ticks out of %d:\n%s", doneGot, doneMost, got.Bytes())
	}
	known := make(map[string]bool)
	for _, d := range []*Doc{host, human} {
		for _, task := range d.tasks {
			if task.Status == run.TaskDone {
				known[task.Title], known[task.ID] = true, true
			}
		}
	}
	for _, task := range got.tasks {
		if task.Status == run.TaskDone && !known[task.Title] && !known[task.ID] {
			t.Fatalf("nobody ticked %q:\nhost:\n%s\nhuman:\n%s\ngot:\n%s", task.Title, host.Bytes(), human.Bytes(), got.Bytes())
		}
	}
	toHost, _ := match(base.tasks, host.tasks)
	toHuman, added := match(base.tasks, human.tasks)
	for i := range base.tasks {
		if toHost[i] < 0 || toHuman[i] < 0 {
			continue
		}
		if title := human.tasks[toHuman[i]].Title; titles[title] == 0 && titles[host.tasks[toHost[i]].Title] == 0 {
			t.Fatalf("%q is lost:\nhost:\n%s\nhuman:\n%s\ngot:\n%s", title, host.Bytes(), human.Bytes(), got.Bytes())
		}
	}
	// What the person wrote is there, or a sentence says why not.
	for _, c := range Diff(human, m.Doc).Changes {
		if string(human.src) == string(base.src) {
			break // the host's version as it is
		}
		for _, mine := range m.Changes {
			if c.TaskID != "" && c.TaskID == mine.TaskID && c.Kind == ChangeReworded && mine.Kind == ChangeReworded {
				t.Fatalf("%v of a task that a person changed:\n%s", c, got.Bytes())
			}
		}
		if c.Kind == ChangeRemoved {
			t.Fatalf("%v, which the person had:\n%s", c, got.Bytes())
		}
	}
	for _, i := range added {
		if titles[human.tasks[i].Title] == 0 {
			t.Fatalf("what a person added, %q, is lost:\n%s", human.tasks[i].Title, got.Bytes())
		}
	}
	for _, c := range m.Conflicts {
		if c == "" || strings.ContainsAny(c, "\r\n`<>") {
			t.Fatalf("conflict %q", c)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte(sample(false)), []byte(strings.Replace(sample(false), "[ ]", "[x]", 1)), []byte(sample(true)))
	f.Add([]byte("- [ ] T1 a\n"), []byte("- [x] T1 a\n- [ ] T2 b\n"), []byte("```\n- [ ] T1 a\n"))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		var docs []*Doc
		for _, src := range [][]byte{a, b, c} {
			d, err := Parse(src)
			if err != nil {
				return
			}
			docs = append(docs, d)
		}
		m := Merge(docs[0], docs[1], docs[2])
		merged(t, docs[0], docs[1], docs[2], m)
	})
}

// Boxes that people tick or empty where the list is shown.
func TestMergeTicks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		host   edits
		ticks  map[string]bool
		result edits // done to the host's file
		told   []string
	}{
		{name: "nothing"},
		{
			name: "ticks", ticks: map[string]bool{"T2": true, "T9": true}, result: edits{"[ ] T2", "[x] T2"},
			told: []string{`Taken in: T2 "Wire the flag" ticked.`},
		},
		{name: "ticks what is done", host: edits{"[ ] T2", "[x] T2"}, ticks: map[string]bool{"T2": true}},
		{
			name: "unticks", ticks: map[string]bool{"T1": false, "T2": false}, result: edits{"[x] T1", "[ ] T1"},
			told: []string{`Taken in: T1 "Serialise the report" unticked.`},
		},
		{
			name: "ticks what is given up meanwhile", host: edits{"the flag\n", "the flag (blocked: why)\n"},
			ticks: map[string]bool{"T2": true}, result: edits{"[ ] T2", "[x] T2"},
			told: []string{`Taken in: T2 "Wire the flag" ticked.`},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			host := tc.host.apply(t, sample(false))
			m := MergeTicks(parse(t, host), tc.ticks)
			if diff := cmp.Diff(tc.result.apply(t, host), string(m.Doc.Bytes())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.told, m.Sentences()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	base := parse(t, sample(false))
	host, human := base.Clone(), parse(t, edits{
		"- [ ] T3", "- [x] T3", "the flag", "it, as @you say", "IN_PROGRESS",
		"PAUSED",
	}.apply(t, sample(false)))
	if err := host.Tick("T2"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`Taken in: T2 "Wire the flag" reworded; T3 "Run the whole suite" ticked; section "Status" changed.`,
		`T2 "Wire the flag": you changed it while it was being done; your wording was kept, and it counts as done.`,
	}
	if diff := cmp.Diff(want, Merge(base, host, human).Sentences()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	many := Merged{Changes: slices.Repeat([]Change{{ChangeMoved, "", "a"}}, maxListed+2)}
	if got := many.Sentences(); len(got) != 1 || !strings.HasSuffix(got[0], `; "a" moved; 2 more.`) {
		t.Error(got)
	}
}

// C4, E1: what is said of people's edits, in which there may be anything, acts
// on nobody and closes no island.
func TestSentencesAreInert(t *testing.T) {
	t.Parallel()
	for _, attack := range attacks {
		base := parse(t, "## Tasks\n- [ ] T1 a "+attack+"\n- [ ] T2 b "+attack+"\n\n## Learnings\n- a\n")
		host := parse(t, "## Tasks\n- [x] T1 a "+attack+"\n- [x] T2 b "+attack+"\n\n## Learnings\n- b\n")
		human := parse(t, "## Status\n"+attack+"\n\n## Tasks\n- [ ] T2 c "+attack+"\n- [x] d "+attack+
			"\n\n## Learnings\n- c\n\n## New "+attack+"\n")
		m := Merge(base, host, human)
		if len(m.Conflicts) < 2 || len(m.Changes) < 5 {
			t.Errorf("%q: %v", attack, m.Sentences())
		}
		inert(t, m.Sentences())
		inert(t, MergeTicks(host, map[string]bool{"T1": false, "T2": false}).Sentences())
	}
}

// The largest documents, made to cost much, are merged in a moment.
func TestMergeIsLinear(t *testing.T) {
	t.Parallel()
	repeat := func(head, format string) func(int) string {
		return func(n int) string {
			var b strings.Builder
			b.WriteString(head)
			for i := range n {
				fmt.Fprintf(&b, format, i+1)
			}
			return b.String()
		}
	}
	tests := []struct {
		name              string
		base, host, human func(n int) string
	}{
		{
			"other lines", repeat("## Learnings\n", "- a %d\n"), repeat("## Learnings\n", "- b %d\n"),
			repeat("## Learnings\n", "- c %d\n"),
		},
		{
			"equal lines", repeat("## Learnings\n", "- a%.0d\n"), repeat("## Learnings\n- b\n", "- a%.0d\n\n"),
			repeat("## Learnings\n", "- a%.0d\n- b\n"),
		},
		{
			"equal tasks", repeat("## Tasks\n", "- [ ] T%d a\n"), repeat("## Tasks\n", "- [x] T%d a\n"),
			repeat("## Tasks\n", "- [ ] a%.0d\n"),
		},
		{
			"all tasks new", repeat("## Tasks\n", "- [ ] T%d a\n"), repeat("## Tasks\n", "- [ ] b%d\n"),
			repeat("## Tasks\n", "- [ ] c%d\n"),
		},
		{"sections", repeat("", "## a%d\nb\n"), repeat("", "## a%d\nc\n"), repeat("", "## a%d\n\n")},
		{
			"rows", repeat("## Iteration Log\n", "| %d |\n"), repeat("## Iteration Log\n", "| x%d |\n"),
			repeat("## Iteration Log\n", "| y%d |\n"),
		},
	}
	for _, tc := range tests {
		base, host, human := parse(t, tc.base(huge)), parse(t, tc.host(huge)), parse(t, tc.human(huge))
		Merge(base, host, human)
	}
}
