package handlers_test

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/handlers"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]handlers.Command{
		"/ralph":                         {Verb: handlers.VerbHelp},
		"/ralph help":                    {Verb: handlers.VerbHelp},
		"/ralph \t":                      {Verb: handlers.VerbHelp},
		"/ralph plan":                    {Verb: handlers.VerbPlan},
		"/ralph start\r\n\r\nThank you!": {Verb: handlers.VerbStart},
		"/ralph stop\nplease":            {Verb: handlers.VerbStop},
		"/ralph\tresume  ":               {Verb: handlers.VerbResume},
		"/ralph STATUS":                  {Verb: handlers.VerbStatus},
		"/ralph retry":                   {Verb: handlers.VerbRetry},
		"/ralph retry t3":                {Verb: handlers.VerbRetry, Task: "T3"},
		"/ralph skip T03":                {Verb: handlers.VerbSkip, Task: "T3"},
		"/ralph approve":                 {Verb: handlers.VerbApprove},
		"/ralph approve 1A2B3C4":         {Verb: handlers.VerbApprove, Hash: "1a2b3c4"},
		"/ralph budget +5":               {Verb: handlers.VerbBudget, USD: 5},
		"/ralph budget +$2.505":          {Verb: handlers.VerbBudget, USD: 2.51},
		"/ralph do  Greet\tعالم too 👩‍🚀":      {Verb: handlers.VerbDo, Text: "Greet عالم too 👩‍🚀"},
		"/ralph do say \"/ralph stop\" twice": {Verb: handlers.VerbDo, Text: `say "/ralph stop" twice`},
	} {
		got, ok, err := handlers.ParseCommand(body)
		if err != nil || !ok {
			t.Errorf("%q: %t, %v", body, ok, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", body, diff)
		}
	}
}

// TestNoCommand: what is quoted, code, further down, or only looks alike.
func TestNoCommand(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"", "\n", "thanks", "\n/ralph stop", "Please:\n/ralph stop", " /ralph stop", "> /ralph stop", ">/ralph stop",
		"    /ralph stop", "\t/ralph stop",
		"```\n/ralph stop\n```", "`/ralph stop`", "- /ralph stop", "1. /ralph stop", "<!-- -->/ralph stop",
		"<b>/ralph stop</b>", "**/ralph stop**", `\/ralph stop`,
		"/ralphy stop", "/ralph: stop", "/ralph.stop", "/ralph-stop", "/RALPH stop", "@ralph stop", "ralph stop",
		"//ralph stop",
		"/r\u0430lph stop",      // Cyrillic a
		"/ral\u200bph stop",     // zero-width space
		"\u200b/ralph stop",     // the same in front
		"\ufeff/ralph stop",     // byte order mark
		"/ralph\u00a0stop",      // no-break space
		"/ralph\u200b stop",     // hidden behind it
		"\u202e/ralph stop",     // bidi override
		"\uff0fralph stop",      // full-width solidus
		"\u2044ralph stop",      // fraction slash
		"/\U000e0072alph stop",  // tag character
		"/ra\xffph stop",        // no UTF-8
		"/ralp\u04bb stop",      // shha
		"\u2028/ralph stop",     // line separator
		"/ralph\vstop",          // vertical tab
		"text\u2028/ralph stop", // a line to some, not to us
		"text\r/ralph stop",
	} {
		if c, ok, err := handlers.ParseCommand(body); ok || err != nil || c != (handlers.Command{}) {
			t.Errorf("%q was read as %+v, %t, %v", body, c, ok, err)
		}
	}
}

// TestMeantAsCommand: who writes one wrong is told how it is written.
func TestMeantAsCommand(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"/ralph dance":                           "Unknown command",
		"/ralph st\u043ep":                       "Unknown command", // Cyrillic o
		"/ralph s\u200btop":                      "Unknown command",
		"/ralph s\u017ftop":                      "Unknown command",
		"/ralph s\u212aip T3":                    "Unknown command", // the Kelvin sign is no k
		"/ralph stop it":                         "takes no arguments",
		"/ralph start \u200b":                    "takes no arguments",
		"/ralph skip":                            "`/ralph skip T3`",
		"/ralph skip T3 T4":                      "`/ralph skip T3`",
		"/ralph skip T0":                         "`/ralph skip T3`",
		"/ralph skip 3":                          "`/ralph skip T3`",
		"/ralph skip T\u0663":                    "`/ralph skip T3`", // an Arabic 3
		"/ralph retry everything":                "`/ralph retry T3`",
		"/ralph do":                              "same line",
		"/ralph do\nsomething":                   "same line",
		"/ralph approve it":                      "hash",
		"/ralph approve 1a2b3":                   "hash",
		"/ralph budget 5":                        "`/ralph budget +5`",
		"/ralph budget +0":                       "`/ralph budget +5`",
		"/ralph budget -5":                       "`/ralph budget +5`",
		"/ralph budget +1e9":                     "`/ralph budget +5`",
		"/ralph budget +NaN":                     "`/ralph budget +5`",
		"/ralph budget +99999":                   "`/ralph budget +5`",
		"/ralph budget +1.2.3":                   "`/ralph budget +5`",
		"/ralph do " + strings.Repeat("a", 2000): "too long",
	} {
		c, ok, err := handlers.ParseCommand(body)
		if !ok || err == nil || !strings.Contains(err.Error(), want) || c != (handlers.Command{}) {
			t.Errorf("%.60q: %+v, %t, %v; want %q", body, c, ok, err, want)
		}
	}
}

// TestUsagesAreCommands: what people are told works, and is documented.
func TestUsagesAreCommands(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range handlers.Usages() {
		c, ok, err := handlers.ParseCommand(strings.ReplaceAll(u.Form, "<text>", "text"))
		if err != nil || !ok || c.Verb != u.Verb {
			t.Errorf("%s: %+v, %v", u.Form, c, err)
		}
		if !strings.Contains(string(doc), "`"+u.Form+"`") {
			t.Errorf("docs/commands.md does not have %q", u.Form)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, u := range handlers.Usages() {
		f.Add(u.Form)
	}
	f.Add("/ralph budget +$5.55\r\n> /ralph stop")
	f.Add("/ralph approve 1a2b3c4d")
	f.Fuzz(func(t *testing.T, body string) {
		c, ok, err := handlers.ParseCommand(body)
		switch {
		case !ok && (err != nil || c != (handlers.Command{})):
			t.Errorf("%q is none, and %+v, %v", body, c, err)
		case ok && !strings.HasPrefix(body, "/ralph"):
			t.Errorf("%q was taken for a command", body)
		case err != nil && !utf8.ValidString(err.Error()):
			t.Errorf("%q: %q", body, err)
		case c.USD < 0 || c.USD > 10_000 || c.USD != c.USD:
			t.Errorf("%q raises by %v", body, c.USD)
		case strings.ContainsAny(c.Text, "\n\t") || strings.Contains(c.Task, " "):
			t.Errorf("%q: %+v", body, c)
		}
		// What stands on other lines makes no difference.
		first, _, _ := strings.Cut(body, "\n")
		if again, sameOK, _ := handlers.ParseCommand(first); again != c || sameOK != ok {
			t.Errorf("%q: %+v on its own, %+v with what follows", first, again, c)
		}
	})
}
