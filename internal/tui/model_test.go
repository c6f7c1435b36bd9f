package tui_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/tui"
)

// asked is what keys asked of a run, in order.
type asked []string

func (a *asked) Pause(yes bool) { *a = append(*a, fmt.Sprint("pause ", yes)) }
func (a *asked) StopAfterCall() { *a = append(*a, "stop") }
func (a *asked) Interrupt()     { *a = append(*a, "interrupt") }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func newModel(a *asked, colour bool) *tui.Model {
	return tui.New(tui.Options{Steering: a, Clean: run.PrintableLine, Colour: colour, Now: noon})
}

func tasks(n, at int) []run.Task {
	out := make([]run.Task, n)
	for i := range out {
		out[i] = run.Task{ID: fmt.Sprintf("T%d", i+1), Title: fmt.Sprintf("Write file %d", i+1), Status: run.TaskOpen}
		switch {
		case i+1 < at:
			out[i].Status = run.TaskDone
		case i+1 == at:
			out[i].Status = run.TaskInProgress
		}
	}
	return out
}

// press types keys, each a character or a name in angle brackets.
func press(m *tui.Model, keys string) {
	for keys != "" {
		var k tea.KeyPressMsg
		if name, rest, ok := strings.Cut(keys, ">"); ok && keys[0] == '<' {
			k = map[string]tea.KeyPressMsg{
				"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd},
				"ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
			}[name[1:]]
			keys = rest
		} else {
			r := []rune(keys)[0]
			k, keys = tea.KeyPressMsg{Code: r, Text: string(r)}, keys[len(string(r)):]
		}
		m.Update(k)
	}
}

func at(m *tui.Model, now int, ev run.Event) {
	ev.Time = noon.Add(time.Duration(now) * time.Second)
	ev.Subject = "Say hello"
	m.Update(tui.Event(ev))
}

// working is a run in the middle of its second task.
func working(m *tui.Model) {
	m.Update(tui.Line("iteration 2: T2 Write file 2"))
	at(m, 60, run.Event{Kind: run.EventAgentStarted, Role: run.RoleImplementer, Iteration: 2, Tasks: tasks(3, 2), Done: 1, Total: 3})
	at(m, 65, run.Event{
		Kind: run.EventAgentActivity, Text: "Bash(go test ./...)", Iteration: 2, Done: 1, Total: 3, CostUSD: 0.5, Tokens: 1000,
		Usage: run.Usage{InputTokens: 200},
	})
	m.Update(tui.Tick(noon.Add(72 * time.Second)))
}

func TestScreen(t *testing.T) {
	t.Parallel()
	m := newModel(&asked{}, false)
	working(m)
	var got []string
	for line := range strings.Lines(plain(m)) {
		if line = strings.TrimRight(line, " -=\n"); line != "" {
			got = append(got, line)
		}
	}
	want := []string{
		"iteration 2 | T2 | $0.50 | 1200 tokens | 1m12s | Say hello",
		"-- Tasks: 1 of 3 done",
		"[x] T1 Write file 1",
		"[>] T2 Write file 2",
		"[ ] T3 Write file 3",
		"agent: Bash(go test ./...)",
		"  implementer, silent for 7s, 200 tokens",
		"-- Log",
		"iteration 2: T2 Write file 2",
		"      Bash(go test ./...)",
		"p pause  x stop after call  q plain output",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	at(m, 80, run.Event{Kind: run.EventGateStarted, Gate: "go test", Tasks: tasks(3, 2)})
	m.Update(tui.Tick(noon.Add(83 * time.Second)))
	if s := plain(m); !strings.Contains(s, "check: go test") || !strings.Contains(s, "\n  3s") {
		t.Error(s)
	}
}

var sgr = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// plain is the screen without its looks.
func plain(m *tui.Model) string { return sgr.ReplaceAllString(m.Screen(), "") }

// TestScreenFits: whatever is said, on each size, the screen has its lines and none is
// too wide; no colour is used where none is wanted.
func TestScreenFits(t *testing.T) {
	t.Parallel()
	hostile := []string{
		strings.Repeat("x", 5000), strings.Repeat("漢字", 3000), "\x1b[2J\x1b[31mred\x1b]0;title\x07", "a\u202eb\u2066c", "👩‍👩‍👧 e\u0301 \u200b",
	}
	for _, size := range []struct{ w, h int }{{80, 24}, {40, 10}, {200, 60}, {20, 4}, {3, 1}, {1, 2}} {
		t.Run(fmt.Sprintf("%dx%d", size.w, size.h), func(t *testing.T) {
			t.Parallel()
			m := newModel(&asked{}, false)
			m.Update(tea.WindowSizeMsg{Width: size.w, Height: size.h})
			working(m)
			for _, text := range hostile {
				m.Update(tui.Line(run.PrintableLine(text)))
				list := tasks(30, 20)
				list[19].Title = text
				at(m, 70, run.Event{Kind: run.EventAgentActivity, Text: text, Tasks: list})
				for _, keys := range []string{"", "x", "n<home>", "<end>"} {
					press(m, keys)
					lines := strings.Split(plain(m), "\n")
					if len(lines) != size.h {
						t.Fatalf("%d lines", len(lines))
					}
					for _, line := range lines {
						if w := runewidth.StringWidth(line); w > size.w || strings.ContainsAny(line, "\x1b\x07\u202e\u2066") {
							t.Fatalf("%d columns: %q", w, line)
						}
					}
					if strings.Contains(m.Screen(), "\x1b[3") {
						t.Fatal("it has a colour")
					}
				}
			}
		})
	}
	m := newModel(&asked{}, true)
	working(m)
	if !strings.Contains(m.Screen(), "\x1b[32m[x] T1") {
		t.Error("where colours are wanted, there are none")
	}
}

func TestKeysSteer(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string][]string{
		"p":         {"pause true"},
		"pp":        {"pause true", "pause false"},
		"xy":        {"stop"},
		"x<enter>":  nil,
		"xn":        nil,
		"x<esc>y":   nil,
		"<ctrl+c>":  {"interrupt"},
		"x<ctrl+c>": {"interrupt"},
	} {
		t.Run(keys, func(t *testing.T) {
			t.Parallel()
			var got asked
			m := newModel(&got, false)
			working(m)
			press(m, keys)
			if diff := cmp.Diff(want, []string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestScroll: what comes does not move what a person reads.
func TestScroll(t *testing.T) {
	t.Parallel()
	m := newModel(&asked{}, false)
	m.Update(tea.WindowSizeMsg{Width: 60, Height: 20})
	for i := range 200 {
		m.Update(tui.Line(fmt.Sprintf("line %03d", i)))
	}
	shows := func(what string, want bool) {
		t.Helper()
		if got := strings.Contains(plain(m), what); got != want {
			t.Errorf("%q is shown: %v\n%s", what, got, plain(m))
		}
	}
	shows("line 199", true)
	press(m, "<home>")
	shows("line 000", true)
	m.Update(tui.Line("line 200"))
	shows("line 000", true)
	press(m, "<end>")
	shows("line 200", true)
}
