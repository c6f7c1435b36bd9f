package claim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// These were said with the box ticked, and the tasks landed.
func TestNotDoneAlthoughTicked(t *testing.T) {
	t.Parallel()
	for final, want := range map[string]Kind{
		"I migrated 1 of the 10 modules; nine remain, so I have not ticked the task": Partial,
		"TASK_INCOMPLETE":                         Partial,
		"Manual intervention needed to finish":    Blocked,
		"I did not finish; nine modules remain":   Partial,
		"Tests still fail, I ran out of ideas":    Failed,
		"STATUS: BLOCKED":                         Blocked,
		"RALPH_RESULT: partial: nine are left":    Partial,
		"RALPH_RESULT: blocked: no access":        Blocked,
		"RALPH_RESULT: failed":                    Failed,
		"I could not run the tests: no npm here.": Partial,
	} {
		got := Read(final, true)
		if got.Kind != want || got.Against == "" {
			t.Errorf("%q ticked: %+v, want %s with words against it", final, got, want)
		}
		if got := Read(final, false); got.Kind != want || got.Against != "" {
			t.Errorf("%q not ticked: %+v, want %s, with nothing to contradict", final, got, want)
		}
		if got := Read(final+"\n\nRALPH_RESULT: done", false); got.Kind != want || got.Against == "" {
			t.Errorf("%q and a closing line: %+v, want %s with words against it", final, got, want)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, final string
		ticked      bool
		want        Claim
	}{
		{"a tick alone", "", true, Claim{Kind: Done}},
		{"nothing", "", false, Claim{}},
		{"prose alone claims nothing", "All done, tests pass.", false, Claim{}},
		{"a closing line", "RALPH_RESULT: done", false, Claim{Kind: Done}},
		{"what was done", "RALPH_RESULT: done: all ten are migrated", false, Claim{Kind: Done}},
		{
			"a reason", "Some.\n\nRALPH_RESULT: partial: nine modules are left", false,
			Claim{Kind: Partial, Words: "nine modules are left"},
		},
		{
			"a reason against a tick", "RALPH_RESULT: blocked: no access to X", true,
			Claim{Kind: Blocked, Words: "no access to X", Against: "RALPH_RESULT: blocked: no access to X"},
		},
		{
			"the reason is in the prose", "Nine modules remain.\n\nTASK_INCOMPLETE", true,
			Claim{Kind: Partial, Words: "Nine modules remain.", Against: "TASK_INCOMPLETE"},
		},
		{
			"the words of an admission", "The **parser** is ready. The printer is not implemented yet.\n\nRALPH_RESULT: done",
			false,
			Claim{Kind: Partial, Words: "The printer is not implemented yet.", Against: "The printer is not implemented yet."},
		},
		{
			"the gravest admission", "Two modules remain. I need access to the registry. Three tests fail.", false,
			Claim{Kind: Blocked, Words: "I need access to the registry."},
		},
		{"all", "<promise>COMPLETE</promise>", false, Claim{Kind: Done, All: true}},
		{
			"all, contradicted", "Nine modules remain.\n\nRALPH_DONE", false,
			Claim{Kind: Partial, Words: "Nine modules remain.", Against: "Nine modules remain."},
		},
		{"another promise", "<promise>TASK DONE</promise>", false, Claim{Kind: Done}},
		{
			"a promise that is none", "<promise>BLOCKED: no key</promise>", true,
			Claim{Kind: Blocked, Words: "no key", Against: "<promise>BLOCKED: no key</promise>"},
		},
		{
			"of all work", "---RALPH_STATUS---\nSTATUS: COMPLETE\nEXIT_SIGNAL: true\n---END_RALPH_STATUS---", false,
			Claim{Kind: Done, All: true},
		},
		{
			"a status block with failing tests", "---RALPH_STATUS---\nSTATUS: COMPLETE\nTESTS_STATUS: FAILING\nEXIT_SIGNAL: true\n---END_RALPH_STATUS---", false,
			Claim{Kind: Failed, Against: "TESTS_STATUS: FAILING"},
		},
		{
			"the weakest of three", "TASK_COMPLETE\nRALPH_RESULT: partial: x\nTASK_FAILED", false,
			Claim{Kind: Failed, Against: "TASK_FAILED"},
		},
		{"wrapped over two lines", "I moved the parser and the printer into packages of their own, but the\nevaluator is not moved yet.", true, Claim{
			Kind:    Partial,
			Words:   "I moved the parser and the printer into packages of their own, but the evaluator is not moved yet.",
			Against: "I moved the parser and the printer into packages of their own, but the evaluator is not moved yet.",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, eol := range []string{"\n", "\r\n"} {
				got := Read(strings.ReplaceAll(tc.final, "\n", eol), tc.ticked)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%q (-want +got):\n%s", tc.final, diff)
				}
			}
		})
	}
}

// Each signal counts in the forms that agents write it in, and as no mention.
func TestSignals(t *testing.T) {
	t.Parallel()
	signals := map[string]Kind{
		"RALPH_RESULT: done": Done, "ralph_result: DONE": Done, "RALPH_RESULT:done": Done,
		"TASK_COMPLETE": Done, "ALL_TASKS_COMPLETE": Done, "RALPH_DONE": Done, "LOOP_COMPLETE": Done,
		"<promise>COMPLETE</promise>": Done, "VERIFICATION_PASS": Done, "<<<RALPHEX:ALL_TASKS_DONE>>>": Done,
		"Status: COMPLETE": Done, "STATUS: BLOCKED": Blocked, "Status: in progress": Partial,
		"TASK_INCOMPLETE": Partial, "TASK_FAILED": Failed, "VERIFICATION_FAIL": Failed,
		"VERIFICATION_FAIL: 3 of them": Failed, "<<<RALPHEX:TASK_FAILED>>>": Failed,
		"RALPH_RESULT: partial: x": Partial, "RALPH_RESULT: blocked": Blocked, "RALPH_RESULT: failed - x": Failed,
	}
	for s, kind := range signals {
		for _, form := range []string{
			"%", "\n%\n", "x\n\n% \r\n", "**%**", "`%`", "**`%`**", "- %", "* **%**", "✅ %", "  %", "%\n\nThank you!",
			"```\nx\n```\n%",
		} {
			if got := Read(strings.ReplaceAll(form, "%", s), false); got.Kind != kind {
				t.Errorf("%q in %q: %q, want %q", s, form, got.Kind, kind)
			}
		}
		for _, form := range []string{
			"```\n%\n```", "~~~\n%\n~~~", "> %", "<!-- % -->", "<!--\n%\n-->", "the word %, when it is time", "“%”", `"%"`,
			"\n    %\n", "I will only write this once all is well:\n\n%",
		} {
			if got := Read(strings.ReplaceAll(form, "%", s), false); got.Kind != None {
				t.Errorf("%q in %q: %q, want nothing", s, form, got.Kind)
			}
		}
		if long := s + strings.Repeat("\n\nHere is what I thought about it, in some detail, and at a length that is no sign-off.", 5); kind == Done && Read(long, false).Kind != None {
			t.Errorf("%q far from the end counts", s)
		}
		if open := "```\n" + s; kind == Done && Read(open, false).Kind != None {
			t.Errorf("%q behind an open fence counts", s)
		}
	}
	for _, final := range []string{
		"RALPH_RESULT: done | partial: x", "RALPH_RESULT: <done>", "RALPH_RESULT: done?", "RALPH_RESULT: unsure",
		"RALPH_RESULT:",
		"RALPH_DONE_NOT", "ralph_done", "TASK_COMPLETE: no, wait", "I will not output <promise>COMPLETE</promise>",
		"I never print: <promise>COMPLETE</promise>", "The marker is `<promise>COMPLETE</promise>",
		"`RALPH_RESULT: done` — when it holds",
	} {
		if got := Read(final, false); got.Kind == Done {
			t.Errorf("%q reads as done", final)
		}
	}
}

// ours are the texts that an agent may repeat: our prompts and their goldens.
func ours(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"../prompt/PROMPT_*.md", "../prompt/testdata/*.golden"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) < 5 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out[file] = string(b)
		}
	}
	return out
}

// An agent that repeats its prompt claims nothing, whole or line by line.
func TestOurWordsClaimNothing(t *testing.T) {
	t.Parallel()
	for file, text := range ours(t) {
		texts := append(strings.SplitAfter(text, "\n"), text)
		for i, part := range texts {
			if Read(part, false).Kind == Done {
				t.Errorf("%s:%d: %q reads as done", file, i+1, part)
			}
			for n := range 4 {
				if ReadVerification(part, n).Agreed {
					t.Errorf("%s:%d: %q reads as agreed to %d criteria", file, i+1, part, n)
				}
			}
		}
	}
}

func TestOnlyTheEndIsRead(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("This line says nothing of interest.\n", maxMessage/30)
	if got := Read("Nine modules remain.\n"+filler+"RALPH_RESULT: done", false); got.Kind != Done {
		t.Errorf("the beginning of a long message counts: %+v", got)
	}
	if got := Read("```\n"+filler+"```\nNine modules remain.\n```\nx\n```\nRALPH_RESULT: done",
		false); got.Kind != Partial {
		t.Errorf("a code block that the end begins in turns code and prose around: %+v", got)
	}
	if got := Read(filler+"Nine modules remain.\nRALPH_RESULT: done", false); got.Kind != Partial {
		t.Errorf("the end of a long message does not count: %+v", got)
	}
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                         "",
		"a\nb\tc":                  "a b c",
		"\x1b[31mred\x00":          "[31mred",
		"\xff":                     "\uFFFD",
		strings.Repeat("ä", 8):     strings.Repeat("ä", 8),
		strings.Repeat("ä", 9):     "ääääää…",
		"a\u2028b\u202ec":          "a bc",
		strings.Repeat("x ", 1000): "x x x x x x x…",
	} {
		if got := oneLine(in, 16); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", in, got, want)
		}
	}
}

// checkLine finds what must not come back from outside text.
func checkLine(t *testing.T, what, text string, limit int) {
	t.Helper()
	if len(text) > limit || !utf8.ValidString(text) || strings.TrimSpace(text) != text {
		t.Errorf("%s: %q has %d bytes", what, text, len(text))
	}
	if strings.ContainsFunc(text, unicode.IsControl) || strings.ContainsAny(text, "\n\r\u2028\u2029") {
		t.Errorf("%s: %q is not one plain line", what, text)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"RALPH_RESULT: done", "I did not finish; nine modules remain", "```\nx", "<!-- x", "| a | b |\n|---|---|\n| ❌ | c |",
		"- [x] a\n- [ ] b", "---RALPH_STATUS---\nSTATUS: BLOCKED\n---END_RALPH_STATUS---", "„nicht“ 'fertig' `x", "尚未完成",
		"\xff\xfe",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, final string, ticked bool) {
		c := Read(final, ticked)
		checkLine(t, "Words", c.Words, maxWords)
		checkLine(t, "Against", c.Against, maxAgainst)
		switch {
		case c.Kind == None && ticked:
			t.Errorf("%q: a tick is a claim", final)
		case (c.Kind == Done || c.Kind == None) && (c.Words != "" || c.Against != ""):
			t.Errorf("%q: %+v", final, c)
		case c.All && c.Kind != Done:
			t.Errorf("%q: all is complete, and yet %+v", final, c)
		case ticked && c.Kind != Done && c.Against == "":
			t.Errorf("%q: the tick is contradicted by nothing: %+v", final, c)
		}
	})
}

func FuzzReadVerdict(f *testing.F) {
	for _, seed := range []string{
		"1. yes: x.go:1\nRALPH_VERIFY: agreed", "1) NO - x\nRALPH_VERIFY: not agreed: x", "VERIFICATION_PASS",
		"**1. yes**\n   x", "99999. yes: x",
	} {
		f.Add(seed, 2)
	}
	f.Fuzz(func(t *testing.T, final string, n int) {
		n = max(-1, min(n, 50))
		v := ReadVerification(final, n)
		checkLine(t, "Objection", v.Objection, maxObjection)
		if v.Agreed != (v.Objection == "") || len(v.Answers) != max(0, n) || v.Agreed && n < 1 {
			t.Errorf("%q: %+v", final, v)
		}
		for _, a := range v.Answers {
			checkLine(t, "Evidence", a.Evidence, maxEvidence)
			if v.Agreed && (!a.Met || a.Evidence == "") {
				t.Errorf("%q: agreed without evidence: %+v", final, v)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	long := strings.Repeat("I moved the parser behind an interface, and `go test ./...` passes; see internal/parse/parse.go.\n\n", 200)
	for name, final := range map[string]string{"short": "I moved the parser.\n\nRALPH_RESULT: done", "long": long} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(min(len(final), maxMessage)))
			for b.Loop() {
				Read(final, true)
			}
		})
	}
}
