package run_test

import (
	"testing"

	"github.com/org/ralph-action/internal/run"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, text, line string }{
		"plain":          {"two words", "two words", "two words"},
		"lines and tabs": {"a\tb\nc\r\n", "a\tb\nc\n", "a b c "},
		"terminal":       {"\x1b[2Jgone\x07\u009b1m", "[2Jgone1m", "[2Jgone1m"},
		"direction":      {"a\u202eb\u2066c", "abc", "abc"},
		"not UTF-8":      {"a\xffb", "a\uFFFDb", "a\uFFFDb"},
		"other scripts":  {"größer 日本 👍", "größer 日本 👍", "größer 日本 👍"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := run.Printable(tt.in); got != tt.text {
				t.Errorf("Printable: %q", got)
			}
			if got := run.PrintableLine(tt.in); got != tt.line {
				t.Errorf("PrintableLine: %q", got)
			}
		})
	}
}
