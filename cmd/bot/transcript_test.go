package main

import (
	"bytes"
	"testing"
)

// Attack: an agent's raw output on a terminal writes to its clipboard, sets its title,
// or hides what came before. Cut anywhere, it is text.
func TestTranscriptOnATerminalIsInert(t *testing.T) {
	t.Parallel()
	const (
		said = "a\x1b]52;c;cm0gLXJm\a\x1b]0;title\x1b\\\x1b[2J\u009b31m\r\b\u202e\x7f\xffé漢\ufffd\t\n\xe2\x82"
		want = "a␛]52;c;cm0gLXJm␇␛]0;title␛\\␛[2J�31m␍␈���é漢�\t\n��"
	)
	for size := 1; size <= len(said); size++ {
		var got bytes.Buffer
		v := visible(&got)
		for rest := []byte(said); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			part := rest[:min(size, len(rest))]
			if n, err := v.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		if got.String() != want {
			t.Errorf("in pieces of %d:\n%s, want\n%s", size, got.String(), want)
		}
	}
}
