package redact

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLogins(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		logins  []string
		without string
	}{
		"":                               {nil, ""},
		"off":                            {nil, "off"},
		"https://proxy.example/a@v1":     {nil, "https://proxy.example/a@v1"},
		"https://ada:pass@proxy/x":       {[]string{"pass"}, "https://proxy/x"},
		"https://token@proxy":            {[]string{"token"}, "https://proxy"},
		"https://ada:p%40ss@proxy":       {[]string{"p%40ss", "p@ss"}, "https://proxy"},
		"https://ada:p@ss:w@proxy":       {[]string{"p@ss:w"}, "https://proxy"},
		"http://a:one@x,http://b|direct": {[]string{"one"}, "http://x,http://b|direct"},
		"-mod=mod -p=https://a:one@x -q=https://b:two@y": {
			[]string{"one", "two"}, "-mod=mod -p=https://x -q=https://y",
		},
	} {
		if diff := cmp.Diff(want.logins, Logins(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
		if got := WithoutLogins(text); got != want.without {
			t.Errorf("%q without: %q, want %q", text, got, want.without)
		}
	}
}
