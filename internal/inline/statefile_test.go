package inline

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStateFile(t *testing.T) {
	t.Parallel()
	cut := func(b []byte) []byte { return b[:len(b)-1] }
	// A long state over which a shorter one was being written.
	mixed := func(b []byte) []byte { return append([]byte("4 00"), b[4:]...) }
	empty := func([]byte) []byte { return nil }
	for name, c := range map[string]struct {
		saved  []string
		damage [2]func([]byte) []byte
		want   string
		broken bool
	}{
		"nothing was saved":             {},
		"one":                           {saved: []string{"one"}, want: "one"},
		"the newest of two":             {saved: []string{"one", "two"}, want: "two"},
		"the newest of many":            {saved: []string{"one", "two", "a much longer third", "4"}, want: "4"},
		"a shorter one over a longer":   {saved: []string{"a long first state", "two", "3"}, want: "3"},
		"an empty state":                {saved: []string{"one", ""}, want: ""},
		"lines":                         {saved: []string{"{\n}\n"}, want: "{\n}\n"},
		"the newest is cut off":         {saved: []string{"one", "two", "three"}, damage: [2]func([]byte) []byte{1: cut}, want: "two"},
		"the newest is half written":    {saved: []string{"one", "two", "three", "four"}, damage: [2]func([]byte) []byte{0: mixed}, want: "three"},
		"the newest is emptied":         {saved: []string{"one", "two"}, damage: [2]func([]byte) []byte{0: empty}, want: "one"},
		"the older is cut off":          {saved: []string{"one", "two", "three"}, damage: [2]func([]byte) []byte{0: cut}, want: "three"},
		"the first ever is cut off":     {saved: []string{"one"}, damage: [2]func([]byte) []byte{1: cut}},
		"both are damaged":              {saved: []string{"one", "two"}, damage: [2]func([]byte) []byte{cut, mixed}, broken: true},
		"a number without the checksum": {saved: []string{"one", "two"}, damage: [2]func([]byte) []byte{0: func([]byte) []byte { return []byte("9\nnine") }}, want: "one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, s := range c.saved { // each by a process of its own
				f, _, err := openState(dir)
				if err != nil {
					t.Fatal(err)
				}
				if err := f.save([]byte(s)); err != nil {
					t.Fatal(err)
				}
				f.close()
			}
			for i, damage := range c.damage {
				if damage == nil {
					continue
				}
				path := filepath.Join(dir, []string{"state.0", "state.1"}[i])
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, damage(b), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f, got, err := openState(dir)
			if errors.Is(err, errBrokenState) != c.broken {
				t.Fatalf("openState: %v", err)
			}
			if c.broken {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.close()
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
			// Whatever was found, the next one saved is the one that counts.
			if err := f.save([]byte("next")); err != nil {
				t.Fatal(err)
			}
			again, got, err := openState(dir)
			if err != nil {
				t.Fatal(err)
			}
			again.close()
			if string(got) != "next" {
				t.Errorf("after another save: %q", got)
			}
		})
	}
}
