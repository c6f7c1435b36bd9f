package prompt

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/progress"
)

// Bounds of what is told of a project.
const (
	maxProject = 2 << 10 // all of it, in bytes
	maxLayout  = 24      // folders of the top
	maxBelow   = 8       // folders within one of them
	maxKinds   = 8       // kinds of files
	maxWord    = 80      // one name, in bytes
)

// manifests are the files that say what a project is made of, and what of them is
// worth telling.
var manifests = []struct {
	file, stack string
	tell        func(src []byte) string
}{
	{"go.mod", "Go", first(`(?m)^module\s+(\S+)`, `(?m)^go\s+(\S+)`)},
	{"package.json", "Node", node},
	{"pyproject.toml", "Python", first(`(?m)^name\s*=\s*["']([^"'\n]+)`, `(?m)^requires-python\s*=\s*["']([^"'\n]+)`)},
	{"setup.py", "Python", nil},
	{"requirements.txt", "Python", nil},
	{"Cargo.toml", "Rust", first(`(?m)^name\s*=\s*"([^"\n]+)`, `(?m)^edition\s*=\s*"([^"\n]+)`)},
	{"pom.xml", "Java (Maven)", nil},
	{"build.gradle", "Java (Gradle)", nil},
	{"build.gradle.kts", "Kotlin (Gradle)", nil},
	{"Gemfile", "Ruby", nil},
	{"composer.json", "PHP", node},
	{"CMakeLists.txt", "C or C++ (CMake)", nil},
	{"mix.exs", "Elixir", nil},
	{"Dockerfile", "Docker", nil},
}

// instructions are what people write for those who work on a project.
var instructions = []string{"AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md", "docs/architecture.md", "ARCHITECTURE.md"}

// Project tells in at most 2 KiB what a tree is: what it is built with, how it is laid
// out and what there is to read first. files are all of its paths, and read gives one of
// them. Both are what anybody may have written.
func Project(files []string, read func(name string) ([]byte, bool)) string {
	has := make(map[string]bool, len(manifests))
	kinds := map[string]int{}
	type folder struct {
		files int
		below map[string]int
	}
	top := map[string]*folder{}
	var loose []string
	for _, name := range files {
		if strings.HasPrefix(name, ".ralph/") {
			continue
		}
		has[name] = true
		if ext := path.Ext(name); ext != "" && ext != path.Base(name) {
			kinds[ext]++
		}
		dir, rest, nested := strings.Cut(name, "/")
		if !nested {
			loose = append(loose, name)
			continue
		}
		f := top[dir]
		if f == nil {
			f = &folder{below: map[string]int{}}
			top[dir] = f
		}
		f.files++
		if sub, _, deeper := strings.Cut(rest, "/"); deeper {
			f.below[sub]++
		}
	}
	var b strings.Builder
	var stack []string
	for _, m := range manifests {
		if !has[m.file] {
			continue
		}
		said := m.stack + " (" + m.file + ")"
		if m.tell != nil {
			if src, ok := read(m.file); ok {
				if what := m.tell(src); what != "" {
					said = m.stack + " (" + m.file + ": " + what + ")"
				}
			}
		}
		stack = append(stack, said)
	}
	line := func(title string, items []string) {
		if len(items) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", title, strings.Join(items, ", "))
		}
	}
	line("Built with", stack)
	line("Kinds of files", counted(kinds, maxKinds, func(ext string, n int) string { return fmt.Sprintf("%d %s", n, word(ext)) }))
	var written []string
	for _, name := range instructions {
		if has[name] {
			written = append(written, name)
		}
	}
	line("Written for you", written)
	sizes := map[string]int{}
	for name, f := range top {
		sizes[name] = f.files
	}
	line("At the top", limited(loose, maxLayout))
	for _, said := range counted(sizes, maxLayout, func(dir string, n int) string {
		below := counted(top[dir].below, maxBelow, func(sub string, _ int) string { return word(sub) + "/" })
		text := fmt.Sprintf("%s/ %d", word(dir), n)
		if len(below) > 0 {
			text += ": " + strings.Join(below, " ")
		}
		return text
	}) {
		b.WriteString(said + "\n")
	}
	return cut(strings.TrimRight(b.String(), "\n"), maxProject-maxNotice, keepStart)
}

// counted are the most frequent, in the order of their names.
func counted(n map[string]int, most int, say func(name string, n int) string) []string {
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int {
		return cmp.Or(cmp.Compare(n[b], n[a]), strings.Compare(a, b))
	})
	left := len(names) - most
	names = names[:min(len(names), most)]
	slices.Sort(names)
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = say(name, n[name])
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("… %d more", left))
	}
	return out
}

func limited(names []string, most int) []string {
	out := make([]string, 0, min(len(names), most)+1)
	for _, name := range names[:min(len(names), most)] {
		out = append(out, word(name))
	}
	if left := len(names) - most; left > 0 {
		out = append(out, fmt.Sprintf("… %d more", left))
	}
	return out
}

// word is a name that others chose, on one line and of bounded length.
func word(s string) string {
	if len(s) > 4*maxWord {
		s = s[:4*maxWord]
	}
	s, _ = progress.Clean(strings.ToValidUTF8(s, "?"))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxWord {
		s = runes(s[:maxWord], false) + "…"
	}
	return s
}

// first tells the first group of each of the expressions that matches.
func first(exprs ...string) func([]byte) string {
	lazy := make([]func() *regexp.Regexp, len(exprs))
	for i, e := range exprs {
		lazy[i] = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(e) })
	}
	return func(src []byte) string {
		var said []string
		for _, re := range lazy {
			if m := re().FindSubmatch(src); m != nil {
				said = append(said, word(string(m[1])))
			}
		}
		return strings.Join(said, ", ")
	}
}

// node tells the name of a package and the scripts that it has.
func node(src []byte) string {
	var p struct {
		Name    string                     `json:"name"`
		Manager string                     `json:"packageManager"`
		Scripts map[string]json.RawMessage `json:"scripts"`
	}
	if json.Unmarshal(src, &p) != nil {
		return ""
	}
	var said []string
	for _, text := range []string{p.Name, p.Manager} {
		if text != "" {
			said = append(said, word(text))
		}
	}
	if names := slices.Sorted(maps.Keys(p.Scripts)); len(names) > 0 {
		said = append(said, "scripts "+strings.Join(limited(names, maxBelow), " "))
	}
	return strings.Join(said, ", ")
}

func projectSection(in Input) section {
	text := in.Project
	if in.Job != JobBuild && len(in.GateCommands) > 0 && text != "" { // a build is told them as its checks
		text += "\nCommands that check it: " + strings.Join(limited(in.GateCommands, maxBelow), "; ")
	}
	return section{
		title: "The project", label: "PROJECT", text: text, most: maxProject, least: 0, rank: trimProject, keep: keepStart,
		intro: "What the tree holds, as the host counted it: numbers of files, and the folders within the largest folders.",
	}
}
