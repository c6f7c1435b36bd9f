package handlers_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/handlers"
)

// TestNearCommands: what was meant as a command is answered, a stop is obeyed where it is plain, and
// what only speaks of commands is let alone.
func TestNearCommands(t *testing.T) {
	t.Parallel()
	const stop, none = "stop", ""
	for body, want := range map[string]string{
		" /ralph stop": stop, "\n/ralph stop": stop, "/Ralph stop": stop, "/RALPH Stop": stop, "Wrong way.\n/ralph stop": stop,
		"/ralph: stop": stop, "/ralph-bot stop": stop, "/ralph, stop!": stop, "@ralph-bot stop": stop, "@ralph-bot[bot]: stop.": stop,
		"Do\r\n/ralph stop\r\nplease": stop, "/ralph:stop": stop,
		"`/ralph stop`": "`/ralph stop`", "**/ralph stop**": "`/ralph stop`", "Comment `/ralph stop` to stop": none,
		" /ralph retry T3": "`/ralph retry T3`", "I did that.\n/ralph resume": "`/ralph resume`", "/Ralph": "`/ralph help`",
		"@ralph-bot status": "`/ralph status`", " /ralph halt": "Unknown command", " /ralph stop it": "takes no arguments",
		"`/ralph do`": "Write the task",
		"@ralph-bot":  none, "@ralph-bot what do you think?": none, "@ralphie stop": none, "/ralphy stop": none, "ralph stop": none,
		"> /ralph stop": none, "```\n/ralph stop\n```": none, "~~~sh\n /ralph resume\n~~~\nas the page says": none, "": none,
		"So:\n\n    /ralph stop\n": none, "\t/ralph stop": none, "  \t/ralph resume": none, "   /ralph stop": stop,
		"````\n```\n/ralph stop\n```\n/ralph stop\n````": none, "```\n~~~\n```\n/ralph stop": stop,
		"```\n```sh\n/ralph stop": none, "    ```\n/ralph stop": stop, "```/ralph stop```": "`/ralph stop`", "é\n/ralph stop": stop,
		"Use /ralph stop": none, "/ralph-action is slow": none, "https://example.com/ralph stop": none,
	} {
		near, ok := handlers.NearCommand(body)
		switch {
		case want == none && ok, want != none && !ok:
			t.Errorf("%q: %+v, %t", body, near, ok)
		case want == stop && (near.Command.Verb != handlers.VerbStop || near.Problem != ""):
			t.Errorf("%q: %+v, want a stop", body, near)
		case want != stop && want != none && (!strings.Contains(near.Problem, want) || near.Command.Verb != ""):
			t.Errorf("%q: %+v, want %q", body, near, want)
		}
	}
	for body, want := range map[string]bool{"\n /ralph resume \n": false, "Yes.\n/ralph resume": true} {
		if near, _ := handlers.NearCommand(body); near.Beside != want {
			t.Errorf("%q: %+v", body, near)
		}
	}
}
