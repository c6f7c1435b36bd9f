package gate

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// runnerWords are words by which a task asks for a change of how checks run.
const runnerWords = "makefile justfile taskfile rakefile tox.ini noxfile script command tooling build target recipe " +
	"shell makeflags"

var (
	makefiles = strs.Lazy(`(?:^|/)(?:GNUmakefile|[Mm]akefile|[^/]*\.mk|[Mm]akefile\.[^/]+|[^/]+\.inc)$`)
	recipes   = strs.Lazy(`(?:^|/)(?:\.?[Jj]ustfile|[Tt]askfile\.(?:dist\.)?ya?ml)$`)
	wholes    = strs.Lazy(`(?:^|/)(?:[Rr]akefile(?:\.rb)?|tox\.ini|noxfile\.py)$`)

	// What may be added to a Makefile: a rule, and a variable that no tool heeds.
	makeRule    = strs.Lazy(`^([\w./-]+(?:[ \t]+[\w./-]+)*)[ \t]*:(?:[ \t]+[\w./ \t-]*)?(?:#.*)?$`)
	newVariable = strs.Lazy(`^([A-Za-z]\w*)[ \t]*(?::|\?)?=[^\\]*$`)
	heeded      = strs.Lazy(`^(?:GO[A-Z]+|PATH|CC|CXX|.*FLAGS|.*OPTS|.*OPTIONS|.*SHELL|PYTHON\w*|NODE\w*)$`)
	// What steers all recipes of a justfile or a Taskfile.
	steering = strs.Lazy(`^(?:set|export|import|mod|alias)\b|:=|^(?:env|vars|dotenv|includes|set|shopt|method|run)\s*:`)
)

// decides says whether a file of that name decides what runs as a check.
func decides(name string) bool {
	return makefiles().MatchString(name) || recipes().MatchString(name) || wholes().MatchString(name)
}

// altered finds what is changed in a file that decides what runs as a check, however
// far from the name of the check. Adding to it a target or recipe of another name is
// fine, and so is a new file: what a check runs is in the old ones. What [weakenedCommands]
// tells of the file says it all.
func altered(ctx context.Context, d FileDiff) []Finding {
	if d.Old == nil || !decides(d.Path) || len(weakenedCommands(ctx, d)) > 0 {
		return nil
	}
	what := ""
	switch {
	case d.New == nil:
		what = d.Path + " is gone"
	case makefiles().MatchString(d.Path):
		what = remade(string(d.Old), string(d.New))
	default:
		what = reworked(d)
	}
	if what == "" {
		return nil
	}
	if d.New != nil {
		what = fmt.Sprintf("%s: %s", d.Path, what)
	}
	return []Finding{{
		Path: d.Path, Rule: RuleRunner, Grave: true, test: runnerWords,
		Text: what + ", which can change what checks run",
	}}
}

// reworked says what changed in a file of recipes other than a Makefile, "" for
// nothing but more recipes.
func reworked(d FileDiff) string {
	lost, got := difference(string(d.Old), string(d.New))
	switch {
	case len(lost) > 0:
		return fmt.Sprintf("%q was changed or removed", clip(lost[0]))
	case len(got) > 0 && wholes().MatchString(d.Path):
		return fmt.Sprintf("%q was added", clip(got[0]))
	}
	for _, line := range got {
		if steering().MatchString(strings.TrimSpace(line)) {
			return fmt.Sprintf("%q was added", clip(line))
		}
	}
	return ""
}

// remade says what changed in a Makefile, "" for nothing but more targets, and more
// commands in those that are there.
func remade(before, after string) string {
	lost, got := difference(before, after)
	if len(lost) > 0 {
		return fmt.Sprintf("%q was changed or removed", clip(lost[0]))
	}
	if len(got) == 0 {
		return ""
	}
	known := map[string]bool{}
	for _, word := range makeWord().FindAllString(before, -1) {
		known[word] = true
	}
	for _, line := range got {
		if !strings.HasPrefix(line, "\t") && !adds(line, known) {
			return fmt.Sprintf("%q was added", clip(line))
		}
	}
	names := targetNames(before)
	if len(before)+len(after) > maxRemade || len(names) > maxTargets {
		return "it is too long to compare"
	}
	was, is := makeTargets(before, names), makeTargets(after, names)
	for target, recipe := range was {
		if now, ok := is[target]; !ok || !keeps(recipe, now) {
			return fmt.Sprintf("target %q was changed", clip(target))
		}
	}
	return ""
}

// What of Makefiles is compared, in bytes and targets: targets may share their recipes,
// and each is compared by itself.
const (
	maxRemade  = 128 << 10
	maxTargets = 300
)

// targetNames are the names of the targets of a Makefile.
func targetNames(src string) []string {
	seen := map[string]bool{}
	for line := range strings.SplitSeq(strings.ReplaceAll(src, "\\\n", " "), "\n") {
		if left, _, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "\t") {
			for name := range strings.FieldsSeq(left) {
				seen[name] = true
			}
		}
	}
	return slices.Collect(maps.Keys(seen))
}

var makeWord = strs.Lazy(`[\w./-]+`)

// adds says whether a line that was added to a Makefile changes nothing of what it
// knew before.
func adds(line string, known map[string]bool) bool {
	if strings.HasPrefix(line, ".PHONY:") && !strings.HasSuffix(line, `\`) {
		return true
	}
	if m := newVariable().FindStringSubmatch(line); m != nil {
		return !known[m[1]] && !heeded().MatchString(m[1])
	}
	m := makeRule().FindStringSubmatch(line)
	return m != nil && !slices.ContainsFunc(strings.Fields(m[1]), func(target string) bool {
		return known[target] || strings.HasPrefix(target, ".")
	})
}

// keeps says whether a recipe holds all lines of an older one, in order, each whole.
func keeps(old, now string) bool {
	lines := strings.Split(strings.TrimSpace(old), "\n")
	for line := range strings.Lines(now) {
		line = strings.TrimSpace(line)
		if len(lines) > 0 && line == strings.TrimSpace(lines[0]) {
			lines = lines[1:]
		}
	}
	return len(lines) == 0 || len(lines) == 1 && lines[0] == ""
}

// difference is swapped for files where comments begin with # and the space at the
// start of a line counts.
func difference(before, after string) (lost, got []string) {
	count := map[string]int{}
	each := func(text string, do func(line string)) {
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, " \t\r\n")
			// A comment that ends in a backslash swallows the next line.
			if bare := strings.TrimSpace(line); bare != "" && (!strings.HasPrefix(bare, "#") || strings.HasSuffix(bare, `\`)) {
				do(line)
			}
		}
	}
	each(after, func(line string) { count[line]++ })
	each(before, func(line string) {
		if count[line]--; count[line] < 0 {
			lost = append(lost, line)
		}
	})
	each(after, func(line string) {
		if count[line] > 0 {
			count[line]--
			got = append(got, line)
		}
	})
	return lost, got
}

// scriptFile finds what is a script by its name or by where it stands.
var scriptFile = strs.Lazy(`\.(?:sh|bash|zsh|ps1)$|(?:^|/)(?:scripts?|tools?|ci|hack|bin|build)/[^/]+$`)

// IsScript says whether a path may be a script that checks run.
func IsScript(name string) bool { return scriptFile().MatchString(name) }

// Words are what a text that decides what runs may name: paths, among other words.
func Words(text string) map[string]bool {
	words := map[string]bool{}
	for _, word := range makeWord().FindAllString(text, -1) {
		words[strings.TrimPrefix(word, "./")] = true
	}
	return words
}

// maxScripts bounds the scripts that are read for the scripts they run.
const maxScripts = 20

// Scripts are those of words, the first few by name, that may be scripts.
func Scripts(words map[string]bool) []string {
	var all []string
	for _, word := range slices.Sorted(maps.Keys(words)) {
		if IsScript(word) && len(all) < maxScripts {
			all = append(all, word)
		}
	}
	return all
}

// Script tells of a change to a script that checks run.
func Script(name string) Finding {
	return Finding{
		Path: name, Rule: RuleRunner, Grave: true, test: strings.ToLower(path.Base(name)) + " " + runnerWords,
		Text: name + ", which checks may run, was changed",
	}
}
