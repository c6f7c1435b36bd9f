package agent

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// allocated is how many bytes f allocates. Tests that ask for it are not parallel.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// asJSON is s as a JSON string.
func asJSON(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestNestedErrorsCostWhatTheyAreLong: an error in an error in an error is read a few
// levels deep, not copied and scanned again at each.
func TestNestedErrorsCostWhatTheyAreLong(t *testing.T) {
	const depth = 5000
	nested := asJSON(t, strings.Repeat(`{"error":`, depth)+"1"+strings.Repeat("}", depth))
	for cli, form := range map[string]string{
		"codex": `{"type":"turn.failed","error":{"message":%s}}`,
		"acp":   `{"type":"error","error":{"code":500,"message":%s}}`,
	} {
		line := fmt.Appendf(nil, form+"\n", nested)
		p := parserOf(t, cli, nil)
		n := allocated(func() { _, _ = p.Write(line) })
		if n > uint64(16*len(line)+1<<20) {
			t.Errorf("%s: %d KiB allocated for %d KiB", cli, n>>10, len(line)>>10)
		}
	}
}

// TestRefusalInRefusal: Google's clients put one error into the message of another.
func TestRefusalInRefusal(t *testing.T) {
	t.Parallel()
	inner := `{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}`
	for name, tt := range map[string]struct {
		body   string
		status int
		ok     bool
	}{
		"one":                    {inner, 429, true},
		"in a message":           {`{"error":{"code":500,"message":` + asJSON(t, inner) + `}}`, 429, true},
		"in a message's message": {`{"error":{"message":` + asJSON(t, `{"message":`+asJSON(t, inner)+`}`) + `}}`, 429, true},
		"without a status":       {`{"error":{"code":500,"message":` + asJSON(t, `{"message":"x"}`) + `}}`, 500, true},
		"too deep":               {strings.Repeat(`{"error":`, 9) + inner + strings.Repeat("}", 9), 0, false},
		"too long":               {`{"error":{"code":500,"message":"` + strings.Repeat("x", maxRefusal) + `"}}`, 0, false},
	} {
		if r, ok := readRefusal(tt.body); ok != tt.ok || r.status != tt.status {
			t.Errorf("%s: %t, status %d; want %t, %d", name, ok, r.status, tt.ok, tt.status)
		}
	}
}

// TestHostileLinesCostWhatTheyAreLong: one line of 16 MiB takes at most 64 MiB.
func TestHostileLinesCostWhatTheyAreLong(t *testing.T) {
	// fill is a line of nearly n bytes with as many elements as it holds.
	fill := func(n int, head, element, foot string) string {
		count := (n - len(head) - len(foot) - 2) / len(element)
		return head + strings.TrimSuffix(strings.Repeat(element, count), ",") + foot + "\n"
	}
	for name, tt := range map[string]struct{ cli, head, element, foot string }{
		"blocks":       {"claude", `{"type":"assistant","message":{"content":[`, `{},`, `]}}`},
		"old blocks":   {"claude", `{"type":"assistant","content":[`, `{},`, `]}`},
		"errors":       {"claude", `{"type":"result","is_error":true,"errors":[`, `"",`, `]}`},
		"denials":      {"claude", `{"type":"result","permission_denials":[`, `{},`, `]}`},
		"changes":      {"codex", `{"type":"item.completed","item":{"id":"1","type":"file_change","changes":[`, `1,`, `]}}`},
		"a long text":  {"codex", `{"type":"item.completed","item":{"type":"agent_message","text":"`, `a\n`, `"}}`},
		"long details": {"codex", `{"type":"turn.failed","error":{"message":"{\"code\":\"1\",\"message\":\"m\",\"details\":[`, `1,`, `]}"}}`},
	} {
		for _, size := range []int{maxLine / 2, maxLine} {
			line := []byte(fill(size, tt.head, tt.element, tt.foot))
			told := 0
			p := parserOf(t, tt.cli, func(Activity) { told++ })
			n := allocated(func() { _, _ = p.Write(line) })
			if n > 64<<20 {
				t.Errorf("%s: %d MiB allocated for %d MiB", name, n>>20, len(line)>>20)
			}
			if told > maxElements {
				t.Errorf("%s: %d activities of one line", name, told)
			}
			if r := p.Close(); r.Lines != 1 {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}

// TestManyPiecesOfAMessage: a message in many small pieces is not copied at each.
func TestManyPiecesOfAMessage(t *testing.T) {
	f := newFeed(nil, &acpDialect{})
	n := allocated(func() {
		for range 200_000 {
			f.say("ab")
		}
	})
	if n > 8<<20 {
		t.Errorf("%d MiB allocated for 400 KB", n>>20)
	}
	f.endText()
	if got := len(f.last); got < maxFinalText || got > 4*maxFinalText {
		t.Errorf("%d bytes are kept", got)
	}
}

// TestLongIDsAreNotKept: items that never end, each with an id of its own.
func TestLongIDsAreNotKept(t *testing.T) {
	t.Parallel()
	d := &codexDialect{seen: map[string]bool{}}
	f := newFeed(nil, d)
	for i := range 3 {
		id := fmt.Sprintf("%d%s", i, strings.Repeat("x", 1<<20))
		_, _ = fmt.Fprintf(f, `{"type":"item.started","item":{"id":%q,"type":"web_search"}}`+"\n", id)
	}
	if len(d.seen) != 3 {
		t.Errorf("%d items", len(d.seen))
	}
	for id := range d.seen {
		if len(id) > maxID {
			t.Errorf("an id of %d bytes is kept", len(id))
		}
	}
}
