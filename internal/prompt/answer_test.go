package prompt

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// Each signal counts in the forms that agents write it in, and not where it is quoted or spoken of.
func TestSignals(t *testing.T) {
	t.Parallel()
	for s, kind := range map[string]ClaimKind{
		"RALPH_RESULT: done": ClaimDone, "ralph_result: DONE": ClaimDone, "RALPH_RESULT:done: all ten": ClaimDone,
		"TASK_COMPLETE": ClaimDone, "ALL_TASKS_COMPLETE": ClaimDone, "RALPH_DONE": ClaimDone, "LOOP_COMPLETE": ClaimDone,
		"<promise>COMPLETE</promise>": ClaimDone, "<promise>TASK DONE</promise>": ClaimDone,
		"VERIFICATION_PASS": ClaimDone, "<<<RALPHEX:ALL_TASKS_DONE>>>": ClaimDone, "Status: COMPLETE": ClaimDone,
		"STATUS: BLOCKED": ClaimBlocked, "Status: in progress": ClaimPartial, "TASK_INCOMPLETE": ClaimPartial,
		"TASK_FAILED": ClaimFailed, "VERIFICATION_FAIL": ClaimFailed, "VERIFICATION_FAIL: 3 of them": ClaimFailed,
		"<<<RALPHEX:TASK_FAILED>>>": ClaimFailed, "TESTS_STATUS: FAILING": ClaimFailed,
		"<promise>BLOCKED: no key</promise>": ClaimBlocked,
		"RALPH_RESULT: partial: x":           ClaimPartial, "RALPH_RESULT: blocked": ClaimBlocked,
		"RALPH_RESULT: failed - x": ClaimFailed,
	} {
		for _, form := range []string{
			"%", "\n%\n", "x\n\n% \r\n", "**%**", "`%`", "- %", "* **%**", "✅ %", "  %", "%\n\nThank you!", "```\nx\n```\n%",
		} {
			if got := ReadClaim(strings.ReplaceAll(form, "%", s), ""); got.Kind != kind {
				t.Errorf("%q in %q: %+v, want %q", s, form, got, kind)
			}
		}
		for _, form := range []string{
			"```\n%\n```", "~~~\n%\n~~~", "````\n```\n%\n````", "> %", "the word %, when it is time", "“%”", `"%"`, "- [ ] %",
			"| a | % |",
		} {
			if got := ReadClaim(strings.ReplaceAll(form, "%", s), ""); got.Kind != ClaimNone {
				t.Errorf("%q in %q: %+v, want nothing", s, form, got)
			}
		}
		if long := s + strings.Repeat("\n\nAnd then.", maxLinesDone); kind == ClaimDone && ReadClaim(long, "").Kind != ClaimNone {
			t.Errorf("%q far from the end counts", s)
		}
	}
	for _, final := range []string{
		"RALPH_RESULT: done | partial: x", "RALPH_RESULT: <done>", "RALPH_RESULT: done?", "RALPH_RESULT: unsure",
		"RALPH_RESULT:", "RALPH_DONE_NOT", "ralph_done", "TASK_COMPLETE: no, wait", "All done, tests pass.", "",
		"I will not output <promise>COMPLETE</promise>", "The marker is `<promise>COMPLETE</promise>`",
	} {
		if got := ReadClaim(final, ""); got.Kind != ClaimNone {
			t.Errorf("%q reads as %+v", final, got)
		}
	}
}

func TestReadClaim(t *testing.T) {
	t.Parallel()
	const status = "---RALPH_STATUS---\nSTATUS: %\nTASKS_COMPLETED_THIS_LOOP: 1\nTESTS_STATUS: PASSING\nEXIT_SIGNAL: true\n" +
		"RECOMMENDATION: ask for the key\n---END_RALPH_STATUS---"
	for final, want := range map[string]Claim{
		"<promise>COMPLETE</promise>":                          {Kind: ClaimDone, All: true},
		"<promise>NOT DONE</promise>":                          {Kind: ClaimPartial},
		"<promise>2 of 3 are not migrated</promise>":           {Kind: ClaimPartial, Words: "2 of 3 are not migrated"},
		"All stories pass. <promise>COMPLETE</promise>":        {Kind: ClaimDone, All: true},
		"TASK_COMPLETE\nstatus: pass\ncommit: 1a2b3c4":         {Kind: ClaimDone},
		strings.ReplaceAll(status, "%", "COMPLETE"):            {Kind: ClaimDone},
		strings.ReplaceAll(status, "%", "BLOCKED"):             {Kind: ClaimBlocked, Words: "ask for the key"},
		"RALPH_RESULT: partial: nine modules are left":         {Kind: ClaimPartial, Words: "nine modules are left"},
		"Nine modules remain.\n\nTASK_INCOMPLETE":              {Kind: ClaimPartial, Words: "Nine modules remain."},
		"TASK_COMPLETE\nRALPH_RESULT: partial: x\nTASK_FAILED": {Kind: ClaimFailed},
		// A claim that is made in so many words stands, whatever else is told.
		"The remote test is not implemented, as planned.\nNone of it still fails.\nRALPH_RESULT: done": {Kind: ClaimDone},
		"T7 is still open. Would you like me to do it next?\n\nTASK_COMPLETE":                          {Kind: ClaimDone},
	} {
		if diff := cmp.Diff(want, ReadClaim(final, "")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", final, diff)
		}
	}
}

// Where nothing is claimed in so many words, the dozen phrases say that the task is not done, though its box is ticked.
func TestAdmissions(t *testing.T) {
	t.Parallel()
	for final, want := range map[string]ClaimKind{
		"I migrated 1 of the 10 modules; nine remain, so I have not ticked the task": ClaimPartial,
		"I did not finish; nine modules are left":                                    ClaimPartial,
		"I couldn't complete the second half.":                                       ClaimPartial,
		"I could not run the tests: no npm here.":                                    ClaimPartial,
		"**The printer is not yet implemented.**":                                    ClaimPartial,
		"## Remaining\n- billing":                                                    ClaimPartial,
		"I ran out of turns.":                                                        ClaimPartial,
		"Manual intervention needed to finish":                                       ClaimBlocked,
		"The login cannot be automated.":                                             ClaimBlocked,
		"Two modules remain. I need access to the registry. Three tests still fail.": ClaimBlocked,
		"I'm blocked: no token.":                                                     ClaimBlocked,
		"Tests still fail, I ran out of ideas":                                       ClaimFailed,
		"I do not know why it breaks.":                                               ClaimFailed,
		"No tests still fail, nothing remains.":                                      ClaimDone,
		"If the upload is not finished, `it is not done` is shown.":                  ClaimDone,
		"Added the remaining cases; \"not done\" is the default.":                    ClaimDone,
		"": ClaimDone,
	} {
		if got := ReadClaim(final, "").Ticked(); got.Kind != want || got.Words == "" && want != ClaimDone {
			t.Errorf("%q: %+v, want %s", final, got, want)
		}
	}
}

func TestReadClaimByPromise(t *testing.T) {
	t.Parallel()
	for final, want := range map[string]ClaimKind{
		"All of it works.\n\n<promise>ALL GREEN</promise>":                   ClaimDone,
		"It works.\n\n**<promise>  ALL   GREEN </promise>**\r\n":             ClaimDone,
		"It works. <promise>ALL GREEN</promise>":                             ClaimDone,
		"It works.\n\n<promise>COMPLETE</promise>":                           ClaimNone,
		"It works.\n\n<promise>all green</promise>":                          ClaimNone,
		"It works.\n\nRALPH_RESULT: done":                                    ClaimNone,
		"It works.\n\n```\n<promise>ALL GREEN</promise>\n```":                ClaimNone,
		"I cannot write <promise>ALL GREEN</promise> yet: tests still fail.": ClaimFailed,
		"<promise>ALL GREEN</promise>\nRALPH_RESULT: failed: it breaks":      ClaimFailed,
	} {
		if got := ReadClaim(final, "ALL GREEN"); got.Kind != want {
			t.Errorf("%q: %+v, want %q", final, got, want)
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

func FuzzReadClaim(f *testing.F) {
	for _, seed := range []string{
		"RALPH_RESULT: done", "I did not finish; nine modules remain", "```\nx", "| a | b |\n|---|---|\n| ❌ | c |",
		"- [x] a\n- [ ] b", "---RALPH_STATUS---\nSTATUS: BLOCKED\n---END_RALPH_STATUS---", "`not done", "\xff\xfe", "\x18❌",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, final string) {
		for _, c := range []Claim{ReadClaim(final, ""), ReadClaim(final, "x"), ReadClaim(final, "").Ticked()} {
			checkLine(t, "Words", c.Words, maxWords)
			if (c.Kind == ClaimDone || c.Kind == ClaimNone) && c.Words != "" || c.All && c.Kind != ClaimDone {
				t.Errorf("%q: %+v", final, c)
			}
		}
		if ReadClaim(final, "").Ticked().Kind == ClaimNone {
			t.Errorf("%q: a tick is a claim", final)
		}
	})
}
