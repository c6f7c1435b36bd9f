package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// manCmd is `bot man`: the manual page, in the language of man(7), for packages.
type manCmd struct{}

// Run prints the page.
func (c *manCmd) Run(io stdio, model *kong.Application) error {
	if _, err := fmt.Fprint(io.out, manPage(model)); err != nil {
		return fmt.Errorf("write the manual page: %w", err)
	}
	return nil
}

// manPage is the page of the whole program: one that is read from top to bottom, as
// its commands belong together.
func manPage(model *kong.Application) string {
	var b strings.Builder
	v, _ := versionOf()
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s %s\n", roff(strings.ToUpper(model.Name)), roff(manWord(model.Name+" "+v)),
		manWord("User Commands"))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- turns an issue or a plan into reviewed commits\n", roff(model.Name))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I COMMAND\n[\\fIARGUMENT\\fR ...]\n", roff(model.Name))
	b.WriteString(".SH DESCRIPTION\n")
	paragraphs(&b, strings.TrimSuffix(description(), exitCodes))
	b.WriteString(".SH COMMANDS\n")
	manCommands(&b, model.Node)
	b.WriteString(".SH EXIT STATUS\n")
	paragraphs(&b, strings.TrimPrefix(exitCodes, "Exit codes: "))
	b.WriteString(".SH SEE ALSO\n.BR git (1)\n.PP\nhttps://github.com/org/ralph\\-action\n")
	return b.String()
}

// manCommands describes the commands below a node, those of others behind them.
func manCommands(w io.Writer, node *kong.Node) {
	for _, c := range node.Children {
		if c.Hidden {
			continue
		}
		if len(c.Children) > 0 {
			manCommands(w, c)
			continue
		}
		fmt.Fprintf(w, ".SS %s\n", roff(manWord(strings.TrimSpace(c.Summary()))))
		paragraphs(w, c.Help)
		for _, arg := range c.Positional {
			manItem(w, arg.Name, "", arg.Help)
		}
		for _, f := range slices.Concat(c.Flags) {
			if f.Hidden {
				continue
			}
			name, value := "--"+f.Name, ""
			if f.Tag.Negatable != "" {
				name = "--[no-]" + f.Name
			}
			if !f.IsBool() {
				value = f.FormatPlaceHolder()
			}
			manItem(w, name, value, f.Help)
		}
		if c.Detail != "" {
			paragraphs(w, c.Detail)
		}
	}
}

func manItem(w io.Writer, name, value, help string) {
	fmt.Fprintf(w, ".TP\n\\fB%s\\fR", roff(name))
	if value != "" {
		fmt.Fprintf(w, " \\fI%s\\fR", roff(value))
	}
	fmt.Fprintf(w, "\n%s\n", roff(help))
}

// paragraphs writes text; what is indented stays as it is.
func paragraphs(w io.Writer, text string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			fmt.Fprintf(w, ".PP\n.nf\n%s\n.fi\n", roff(paragraph))
		} else {
			fmt.Fprintf(w, ".PP\n%s\n", roff(paragraph))
		}
	}
}

func manWord(s string) string { return `"` + strings.ReplaceAll(s, `"`, "'") + `"` }

// roff is text that the language takes as it stands.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
