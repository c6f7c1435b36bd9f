package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/org/ralph-action/internal/run"
)

// completeWord is the command by which the scripts of the shells ask what may come
// next. What the program knows of itself stays in one place, and the scripts small.
const completeWord = "__complete"

// helpCmd is `bot help`, which the program turns into --help before it is read.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, such as: progress show."`
}

// completionCmd is `bot completion`.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is shown below the flags.
func (c *completionCmd) Help() string {
	return fmt.Sprintf(`To load it in each new shell:

  bash: echo 'source <(%[1]s completion bash)' >>~/.bashrc
  zsh:  echo 'source <(%[1]s completion zsh)' >>~/.zshrc (below compinit)
  fish: %[1]s completion fish >~/.config/fish/completions/%[1]s.fish`, calledAs())
}

// Run prints the script.
func (c *completionCmd) Run(io stdio) error {
	script := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Shell]
	text := strings.NewReplacer("PROGRAM", calledAs(), "FUNCTION", "_"+identifier(calledAs()), "COMPLETE", completeWord).
		Replace(script)
	if _, err := fmt.Fprint(io.out, text); err != nil {
		return fmt.Errorf("write the script: %w", err)
	}
	return nil
}

// identifier is a name as the name of a shell's function may be.
func identifier(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
}

const bashCompletion = `# bash completion of PROGRAM
FUNCTION() {
	local IFS=$'\n'
	COMPREPLY=($(compgen -W "$(PROGRAM COMPLETE "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F FUNCTION PROGRAM
`

const zshCompletion = `#compdef PROGRAM
FUNCTION() {
	local -a found
	found=("${(@f)$(PROGRAM COMPLETE "${(@)words[2,CURRENT]}" 2>/dev/null | sed 's/:/\\:/g; s/\t/:/')}")
	if [[ -n "${found[1]}" ]]; then
		_describe PROGRAM found
	else
		_files
	fi
}
if [[ "${funcstack[1]}" = FUNCTION ]]; then
	FUNCTION
else
	compdef FUNCTION PROGRAM
fi
`

const fishCompletion = `# fish completion of PROGRAM
function FUNCTION
	set -l words (commandline -opc)
	set -l last (commandline -ct)
	PROGRAM COMPLETE $words[2..-1] "$last" 2>/dev/null
end
complete -c PROGRAM -a '(FUNCTION)'
`

// candidate is a word that may come next, and what it is for.
type candidate struct{ word, help string }

// complete prints what may come in the place of the last of words: one a line, with a
// tab before what it is for. Where it prints nothing, shells complete files.
func complete(w io.Writer, model *kong.Application, words []string) {
	for _, c := range candidates(model.Node, words) {
		fmt.Fprintf(w, "%s\t%s\n", c.word, run.PrintableLine(c.help))
	}
}

// candidates are what begins like the last of words, which follow those before it.
func candidates(node *kong.Node, words []string) []candidate {
	if len(words) == 0 {
		words = []string{""}
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	place, wanted := 0, (*kong.Flag)(nil)
	for _, word := range before {
		flags := flagsOf(node)
		switch {
		case wanted != nil:
			wanted = nil
		case strings.HasPrefix(word, "-"):
			wanted = valueOf(flags, word)
		default:
			if next := child(node, word); next != nil {
				node, place = next, 0
			} else {
				place++
			}
		}
	}
	var all []candidate
	switch {
	case wanted != nil:
		all = values(wanted.Value)
	case strings.HasPrefix(last, "-"):
		all = flagWords(flagsOf(node))
	default:
		for _, c := range node.Children {
			if !c.Hidden {
				all = append(all, candidate{c.Name, c.Help})
			}
		}
		if place < len(node.Positional) {
			all = append(all, values(node.Positional[place])...)
		}
	}
	return slices.DeleteFunc(all, func(c candidate) bool { return !strings.HasPrefix(c.word, last) })
}

// flagsOf are the flags that may be given at a node.
func flagsOf(node *kong.Node) []*kong.Flag { return slices.Concat(node.AllFlags(true)...) }

func child(node *kong.Node, name string) *kong.Node {
	for _, c := range node.Children {
		if c.Name == name || slices.Contains(c.Aliases, name) {
			return c
		}
	}
	return nil
}

// valueOf is the flag that a word names whose value is the word after it.
func valueOf(flags []*kong.Flag, word string) *kong.Flag {
	for _, f := range flags {
		if (word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short)) && !f.IsBool() && !f.IsCounter() {
			return f
		}
	}
	return nil
}

// values are those that a flag or an argument may have, where they are few.
func values(v *kong.Value) []candidate {
	var all []candidate
	for _, word := range v.EnumSlice() {
		if word != "" {
			all = append(all, candidate{word: word})
		}
	}
	return all
}

func flagWords(flags []*kong.Flag) []candidate {
	var all []candidate
	for _, f := range flags {
		help, _, _ := strings.Cut(f.Help, ". ")
		all = append(all, candidate{"--" + f.Name, help})
		if f.Tag.Negatable != "" {
			all = append(all, candidate{"--no-" + f.Name, ""})
		}
	}
	return all
}
