package claim

import "testing"

func TestReadPromise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, final string
		want        Kind
	}{
		{"kept", "All of it works.\n\n<promise>ALL GREEN</promise>", Done},
		{"with spaces and emphasis", "It works.\n\n**<promise>  ALL   GREEN </promise>**\r\n", Done},
		{"at the end of a sentence", "It works. <promise>ALL GREEN</promise>", Done},
		{"another text", "It works.\n\n<promise>COMPLETE</promise>", None},
		{"another case", "It works.\n\n<promise>all green</promise>", None},
		{"our own form", "It works.\n\nRALPH_RESULT: done", None},
		{"spoken of", "I cannot write <promise>ALL GREEN</promise> yet, since two tests fail.", Failed},
		{"in a fence", "It works.\n\n```\n<promise>ALL GREEN</promise>\n```", None},
		{"announced", "When all tests pass I will write:\n<promise>ALL GREEN</promise>", None},
		{"taken back", "Two of the three modules are still missing.\n\n<promise>ALL GREEN</promise>", Partial},
		{"and failed", "<promise>ALL GREEN</promise>\nRALPH_RESULT: failed: the build breaks", Failed},
		{"not at the end", "<promise>ALL GREEN</promise>\n\n" + "One.\n\nTwo.\n\nThree.\n\nFour is what I would do next.\n", None},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := ReadPromise(c.final, "ALL GREEN"); got.Kind != c.want {
				t.Errorf("claim %+v, want %q", got, c.want)
			}
		})
	}
	if got := Read("It works. <promise>ALL GREEN</promise>", false); got.Kind == Done {
		t.Errorf("unasked for, a promise within a line is taken for %+v", got)
	}
}
