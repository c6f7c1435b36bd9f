package redact_test

import (
	"bytes"
	"testing"

	"github.com/org/ralph-action/internal/redact"
)

// A secret that came while a stream was under way is masked in it from then on, even where
// its beginning was written before; the ones that were known stay known.
func TestAdd(t *testing.T) {
	t.Parallel()
	const old, fresh = "old-key-K7w2Qx9LmT4vB8nR3pZ6c", "new-key-Y1dF5gH0jSa8Wq3Ez7Uk2"
	m := redact.New(old)
	var out bytes.Buffer
	w := m.Writer(&out)
	write := func(text string) {
		t.Helper()
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("before " + fresh + ", then ")
	m.Add(fresh, "", old)
	write(fresh[:9])
	write(fresh[9:] + " and " + old + ".")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if want := "before " + fresh + ", then *** and ***."; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if got := m.Mask(old + " " + fresh); got != "*** ***" {
		t.Errorf("masked to %q", got)
	}
	if found := m.FindKnown(t.Context(), []byte("x "+fresh)); len(found) != 1 {
		t.Errorf("found %d", len(found))
	}
}
