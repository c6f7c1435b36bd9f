package run

import "strings"

// Printable takes out of text that comes from outside what could drive a
// terminal or turn the direction of text around, and fixes what is not UTF-8.
// Line ends and tabs stay.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// PrintableLine is Printable on one line: a blank stands for each line end and
// each tab.
func PrintableLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, Printable(s))
}
