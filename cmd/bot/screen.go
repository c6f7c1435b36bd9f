package main

import (
	"io"
	"os"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// screen is what a writer for people can show.
type screen struct {
	// inPlace: a line can be rewritten; else there are lasting lines only.
	inPlace bool
	colour  bool
	// width is that of a line, in columns.
	width func() int
}

// defaultWidth is that of a screen that does not tell.
const defaultWidth = 80

// minWidth is the least that a terminal is believed to have.
const minWidth = 20

// screenOf finds out what w can show, and what the person wants of it: NO_COLOR
// (no-color.org), CLICOLOR_FORCE (bixense.com/clicolors), TERM and CI.
func screenOf(w io.Writer, env func(string) string) screen {
	s := screen{width: func() int { return defaultWidth }}
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

// cut shortens text to that many columns.
func cut(text string, columns int) string { return runewidth.Truncate(text, max(columns, 0), "…") }

// isTerminal says whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := below(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
