package prompt

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadVerification(t *testing.T) {
	t.Parallel()
	met := func(evidence string) Answer { return Answer{Met: true, Evidence: evidence} }
	for _, tc := range []struct {
		name, final string
		want        Verification
	}{
		{
			"agreed", "I read the code.\n\n1. yes: `internal/x.go:12` returns the list\n2. yes: go test ./x passes\n\nRALPH_VERIFY: agreed",
			Verification{Agreed: true, Answers: []Answer{met("`internal/x.go:12` returns the list"), met("go test ./x passes")}},
		},
		{
			"other forms", "**1) YES** - x.go:12\n- criterion 2: yes, x_test.go:3 shows it\n\n**VERIFICATION_PASS**",
			Verification{Agreed: true, Answers: []Answer{met("x.go:12"), met("x_test.go:3 shows it")}},
		},
		{
			"a table", "| # | Met | Evidence |\n|---|---|---|\n| 1 | yes | x.go:1 |\n| 2 | ✅ yes | x.go:2 |\n\n`RALPH_VERIFY: agreed`",
			Verification{Agreed: true, Answers: []Answer{met("x.go:1"), met("x.go:2")}},
		},
		{
			"evidence below", "1. Yes\n   x.go:12 returns it\n2. Yes (help text): x.go:20\nRALPH_VERIFY: agreed.",
			Verification{Agreed: true, Answers: []Answer{met("x.go:12 returns it"), met("(help text): x.go:20")}},
		},
		{
			"a list of other things", "1. No other caller exists.\n2. Nothing else uses it.\n\n1. yes: x.go:1\n2. yes: x.go:2\n\nRALPH_VERIFY: agreed",
			Verification{Agreed: true, Answers: []Answer{met("x.go:1"), met("x.go:2")}},
		},
		{
			"a no", "1. yes: x.go:12\n2. no: there is no test\n\nRALPH_VERIFY: agreed",
			Verification{
				Answers: []Answer{met("x.go:12"), {Evidence: "there is no test"}}, Objection: "Criterion 2: there is no test",
			},
		},
		{
			"not agreed", "1. yes: x.go:12\n2. no: no test\n\nRALPH_VERIFY: not agreed: the flag has no test",
			Verification{Answers: []Answer{met("x.go:12"), {Evidence: "no test"}}, Objection: "the flag has no test"},
		},
		{
			"failed", "1. yes: a.go\n2. yes: b.go\n\nVERIFICATION_FAIL: it panics",
			Verification{Answers: []Answer{met("a.go"), met("b.go")}, Objection: "it panics"},
		},
		{
			"no closing line", "1. yes: a.go\n2. yes: b.go",
			Verification{Answers: []Answer{met("a.go"), met("b.go")}, Objection: "The closing line is missing."},
		},
		{
			"two closing lines", "1. yes: a.go\n2. yes: b.go\n\nRALPH_VERIFY: agreed\nRALPH_VERIFY: not agreed",
			Verification{
				Answers: []Answer{met("a.go"), met("b.go")}, Objection: "The closing line does not agree, and gives no reason.",
			},
		},
		{
			"one answer is missing", "2. yes: b.go\n\nRALPH_VERIFY: agreed",
			Verification{Answers: []Answer{{}, met("b.go")}, Objection: "Criterion 1 was not answered."},
		},
		{
			"no evidence", "1. yes\n2. yes: b.go\n\nRALPH_VERIFY: agreed",
			Verification{Answers: []Answer{{Met: true}, met("b.go")}, Objection: "Criterion 1 was answered without evidence."},
		},
		{
			"answered twice", "1. no: not there\n1. yes: a.go\n2. yes: b.go\n\nRALPH_VERIFY: agreed",
			Verification{Answers: []Answer{{Evidence: "not there"}, met("b.go")}, Objection: "Criterion 1: not there"},
		},
		{
			"another signal", "1. yes: a.go\n2. yes: b.go\n\nRALPH_RESULT: blocked: no key\nRALPH_VERIFY: agreed",
			Verification{Answers: []Answer{met("a.go"), met("b.go")}, Objection: "no key"},
		},
		{
			"quoted and fenced", "> 1. yes: a.go\n\n```\n2. yes: b.go\nRALPH_VERIFY: agreed\n```",
			Verification{Answers: []Answer{{}, {}}, Objection: "Criterion 1 was not answered."},
		},
		{"nothing", "", Verification{Answers: []Answer{{}, {}}, Objection: "Criterion 1 was not answered."}},
		{
			"a third no", "1. yes: a.go\n2. yes: b.go\n3. no: c is not there\n\nRALPH_VERIFY: agreed",
			Verification{Answers: []Answer{met("a.go"), met("b.go")}, Objection: "Criterion 3: c is not there"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, ReadVerification(tc.final, 2)); diff != "" {
				t.Errorf("%q (-want +got):\n%s", tc.final, diff)
			}
		})
	}
	if v := ReadVerification("RALPH_VERIFY: agreed", 0); v.Agreed || v.Objection == "" || len(v.Answers) != 0 {
		t.Errorf("agreed to nothing: %+v", v)
	}
	if v := ReadVerification("1. yes: a.go\nRALPH_VERIFY: agreed", -3); v.Agreed {
		t.Errorf("agreed to less than nothing: %+v", v)
	}
}

func FuzzReadVerification(f *testing.F) {
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
