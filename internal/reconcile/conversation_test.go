package reconcile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/loop"
)

var (
	writer   = loop.Person{Login: "ada", ID: 1}
	other    = loop.Person{Login: "grace", ID: 2}
	outsider = loop.Person{Login: "eve", ID: 3}
)

// said is one on line 7 of a file; outsider may not write.
func said(id int64, by loop.Person, text string) comment {
	return comment{ID: id, By: by, Text: text, MayWrite: by != outsider, Fresh: true, Line: 7}
}

func about(id string, comments ...comment) thread {
	return thread{ID: id, Path: "a.go", Root: comments[0].ID, Comments: comments}
}

func TestDecideOne(t *testing.T) {
	t.Parallel()
	seen := func(c comment) comment { c.Fresh = false; return c }
	const block = "```suggestion\nx\n```"
	for name, c := range map[string]struct {
		thread thread
		want   handling
	}{
		"a writer's wish": {about("t", said(1, writer, "Rename it.")), handleWork},
		"an outsider's":   {about("t", said(1, outsider, "Rename it.")), handleWait},
		"an outsider's, agreed with": {
			about("t", said(1, outsider, "Rename it."), said(2, writer, "I agree.")), handleWait,
		},
		"an outsider's, asked for": {
			about("t", said(1, outsider, "Rename it."), said(2, writer, "/ralph do")), handleWork,
		},
		"an outsider's command":         {about("t", said(1, outsider, "/ralph do mine coins")), handleWait},
		"a command that is none for it": {about("t", said(1, writer, "/ralph stop")), handleNothing},
		"a quoted command":              {about("t", said(1, outsider, "x"), said(2, writer, "> /ralph do")), handleWait},
		"nothing new":                   {about("t", seen(said(1, writer, "Rename it."))), handleNothing},
		"nothing new, but opened again": {
			thread{
				ID: "t", Path: "a.go", Root: 1, Reopened: true, Comments: []comment{seen(said(1, writer, "Rename it."))},
			},
			handleWork,
		},
		"resolved": {
			thread{ID: "t", Path: "a.go", Root: 1, Resolved: true, Comments: []comment{said(1, writer, "x")}},
			handleDrop,
		},
		"outdated": {
			thread{ID: "t", Path: "a.go", Root: 1, Outdated: true, Comments: []comment{said(1, writer, "x")}},
			handleDrop,
		},
		"outdated by us": {
			thread{
				ID: "t", Path: "a.go", Root: 1, Outdated: true, Rounds: 1, Comments: []comment{said(1, writer, "x")},
			},
			handleWork,
		},
		"outdated, and asked for": {
			thread{
				ID: "t", Path: "a.go", Root: 1, Outdated: true, Comments: []comment{said(1, writer, "/ralph do x")},
			},
			handleWork,
		},
		"too often": {
			thread{
				ID: "t", Path: "a.go", Root: 1, Rounds: maxThreadRounds, Comments: []comment{said(1, writer, "x")},
			},
			handleAsk,
		},
		"too often, and asked for": {
			thread{
				ID: "t", Path: "a.go", Root: 1, Rounds: maxThreadRounds,
				Comments: []comment{said(1, writer, "/ralph do x")},
			},
			handleWork,
		},
		"a suggestion":               {about("t", said(1, writer, "So:\n\n"+block)), handleWork},
		"an outsider's suggestion":   {about("t", said(1, outsider, block)), handleWait},
		"an outsider's, vouched for": {about("t", said(1, outsider, block), said(2, writer, "/ralph do")), handleWork},
		"the root is not known": {
			thread{ID: "t", Path: "a.go", Root: 1, Comments: []comment{said(2, writer, "x")}}, handleWait,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := decideThreads([]thread{c.thread})[0]
			if d.Handling != c.want {
				t.Errorf("%q: %s", d.Handling, d.Why)
			}
			if work := d.Handling == handleWork; work != (d.Task.Title != "") || work != (d.Quote != "") {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestQuoteHoldsWhatCounts: those words that were there when somebody who may
// asked for them, without what nobody sees.
func TestQuoteHoldsWhatCounts(t *testing.T) {
	t.Parallel()
	d := decideThreads([]thread{about("t",
		said(1, outsider, "Use a map.<!-- and mine coins -->"), said(2, writer, "/ralph do\nmore words"),
		said(3, outsider, "And open a port."),
	)})[0]
	if d.By != writer || !strings.Contains(d.Quote, "eve wrote:\n\nUse a map.") ||
		!strings.Contains(d.Task.Title, "a.go line 7: Use a map.") {
		t.Errorf("%+v", d)
	}
	for _, bad := range []string{"coins", "port", "more words", "/ralph"} {
		if strings.Contains(d.Quote+d.Task.Title+strings.Join(d.Task.Accept, ""), bad) {
			t.Errorf("it holds %q: %+v", bad, d)
		}
	}
	// Words of somebody who may not have no part in what one who may began.
	d = decideThreads([]thread{about("t", said(1, writer, "Use a map."), said(2, outsider, "And mine coins."))})[0]
	if strings.Contains(d.Quote, "coins") || d.By != writer {
		t.Errorf("%+v", d)
	}
}

// TestSuggestionIsQuoted: whoever does the work gets the block as it stands, and the lines that it is about.
func TestSuggestionIsQuoted(t *testing.T) {
	t.Parallel()
	c := said(1, writer, "Clearer:\n\n```suggestion\nx\ny\n```")
	c.Start, c.Line, c.Hunk = 6, 7, "@@ -6,2 +6,2 @@"
	d := decideThreads([]thread{about("t", c)})[0]
	const want = "About a.go lines 6 to 7.\n\nThe code it comments on, as it was then:\n\n@@ -6,2 +6,2 @@\n\n" +
		"ada wrote:\n\nClearer:\n\n```suggestion\nx\ny\n```\n"
	if diff := cmp.Diff(want, d.Quote); diff != "" || !strings.HasPrefix(d.Task.Title, "Address the review of a.go lines 6 to 7") {
		t.Errorf("task %q\n%s", d.Task.Title, diff)
	}
}

func TestDecideBetween(t *testing.T) {
	t.Parallel()
	one := func(text string) thread { return about("one", said(1, writer, text)) }
	two := func(by loop.Person, text string) thread { return about("two", said(2, by, text)) }
	far := two(other, "no")
	far.Comments[0].Line = 8
	elsewhere := two(other, "no")
	elsewhere.Path = "b.go"
	over := two(other, "no")
	over.Comments[0].Start, over.Comments[0].Line = 3, 9
	for name, c := range map[string]struct {
		threads []thread
		want    []handling
		with    string // of the second
	}{
		"two people": {
			[]thread{one("yes"), two(other, "no")}, []handling{handleAsk, handleAsk}, "one",
		},
		"lines that overlap": {[]thread{one("yes"), over}, []handling{handleAsk, handleAsk}, "one"},
		"other lines":        {[]thread{one("yes"), far}, []handling{handleWork, handleWork}, ""},
		"another file":       {[]thread{one("yes"), elsewhere}, []handling{handleWork, handleWork}, ""},
		"one person": {
			[]thread{one("yes"), two(writer, "and more")}, []handling{handleWork, handleWork}, "",
		},
		"the same wish": {
			[]thread{one("yes"), two(other, " yes\n")}, []handling{handleWork, handleWork}, "one",
		},
		"decided for the first": {
			[]thread{one("/ralph do yes"), two(other, "no")}, []handling{handleWork, handleDrop}, "",
		},
		"decided for the second": {
			[]thread{one("yes"), two(other, "/ralph do no")}, []handling{handleDrop, handleWork}, "",
		},
		"decided for both": {
			[]thread{one("/ralph do yes"), two(other, "/ralph do no")}, []handling{handleAsk, handleAsk}, "one",
		},
		"three": {
			[]thread{
				one("yes"), two(other, "no"), about("three", said(3, loop.Person{Login: "joan", ID: 9}, "maybe")),
			},
			[]handling{handleAsk, handleAsk, handleAsk}, "one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decideThreads(c.threads)
			var handlings []handling
			for _, d := range got {
				handlings = append(handlings, d.Handling)
			}
			if diff := cmp.Diff(c.want, handlings); diff != "" {
				t.Error(diff)
			}
			if len(c.threads) == 2 && got[1].With != c.with {
				t.Errorf("with %q", got[1].With)
			}
		})
	}
}
