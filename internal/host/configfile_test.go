package host_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/host"
)

func TestBaseOfConfigFile(t *testing.T) {
	t.Parallel()
	const file = ".github/ralph.yml"
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no file", map[string]string{"README": "x\n"}, ""},
		{"no such key", map[string]string{file: "model: m\n"}, ""},
		{"named", map[string]string{file: "base: release/1.x\n"}, "release/1.x"},
		{"a problem elsewhere", map[string]string{file: "base: develop\ncolour: red\n"}, ""},
		{"not a branch", map[string]string{file: "base: --force\n"}, ""},
		{"too large", map[string]string{file: "base: develop\n#" + strings.Repeat("x", 32<<10) + "\n"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			src := newSource(t, tt.files)
			_, head, err := src.repo.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got, found, err := host.ReadConfig(t.Context(), src.repo, head, file)
			if err != nil || found != (tt.name != "no file") || got.Base() != tt.want {
				t.Errorf("%q (found: %v), %v; want %q", got.Base(), found, err, tt.want)
			}
		})
	}
}
