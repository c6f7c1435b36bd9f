package main

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// screen is what a writer for people can show.
type screen struct {
	// inPlace: a line can be rewritten; else there are lasting lines only.
	inPlace bool
	colour  bool
	// ascii: the locale has no other characters.
	ascii bool
	// width is that of a line, in columns.
	width func() int
}

// defaultWidth is that of a screen that does not tell.
const defaultWidth = 80

// minWidth is the least that a terminal is believed to have.
const minWidth = 20

// screenOf finds out what w can show, and what the person wants of it: NO_COLOR
// (no-color.org), CLICOLOR_FORCE (bixense.com/clicolors), TERM, CI and the locale.
func screenOf(w io.Writer, env func(string) string) screen {
	s := screen{ascii: asciiLocale(env), width: func() int { return defaultWidth }}
	dumb := env("TERM") == "dumb"
	f, isFile := below(w).(*os.File)
	if isFile && term.IsTerminal(int(f.Fd())) {
		s.inPlace, s.colour = !dumb && !isCI(env), !dumb
		s.width = func() int {
			if cols, _, err := term.GetSize(int(f.Fd())); err == nil && cols >= minWidth {
				return cols
			}
			return defaultWidth
		}
	}
	if force := env("CLICOLOR_FORCE"); force != "" && force != "0" {
		s.colour = true
	}
	if env("NO_COLOR") != "" {
		s.colour = false
	}
	return s
}

// isCI says whether nobody watches: the systems that run jobs set CI.
func isCI(env func(string) string) bool {
	ci := env("CI")
	return ci != "" && ci != "false" && ci != "0"
}

// asciiLocale says whether the locale names another character set than UTF-8. Where
// none is set at all, terminals of today take UTF-8, as systemd assumes, too.
func asciiLocale(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(env(name)); locale != "" {
			return !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
		}
	}
	return false
}

// inASCII spells what we write to people without any other character. What else is
// not ASCII becomes a question mark: to a terminal of eight bits some of its bytes
// would be commands.
func inASCII(s string) string {
	s = strings.NewReplacer("✓", "ok", "✗", "x", "▶", ">", "■", "#", "→", "->", "…", "...", "·", "-", "–", "-", "—", "-",
		"“", `"`, "”", `"`, "‘", "'", "’", "'").Replace(s)
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return '?'
		}
		return r
	}, s)
}

// asciiWriter spells in ASCII what is written in whole lines.
type asciiWriter struct{ w io.Writer }

// Write implements io.Writer.
func (a asciiWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(a.w, inASCII(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// forPeople is w for text that no program reads, in the characters that the locale
// has.
func forPeople(w io.Writer) io.Writer {
	if !asciiLocale(os.Getenv) {
		return w
	}
	return asciiWriter{w}
}

// cut shortens s to that many columns.
func (s screen) cut(text string, columns int) string {
	tail := "…"
	if s.ascii {
		tail = "..."
	}
	return runewidth.Truncate(text, max(columns, 0), tail)
}

// isTerminal says whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := below(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
