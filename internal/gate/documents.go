package gate

import (
	"bytes"
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// Bounds of what is compared with documents.
const (
	// MaxDocument bounds one document, in bytes, and MaxDocuments how many are read.
	MaxDocument  = 256 << 10
	MaxDocuments = 100
	maxGone      = 200 // names that are gone
	maxStaleName = 5   // of them told for one document
)

// The rules of what a task left behind, which fails nothing.
const (
	RuleStale = "document_stale"
	RuleGrown = "file_grown"
)

// declarations find what a file declares at the left margin, by the end of its name.
// Methods are left out: many types have one of the same name.
var declarations = func() map[string]func() *regexp.Regexp {
	js := strs.Lazy(`(?m)^(?:export\s+)?(?:default\s+)?(?:abstract\s+)?(?:async\s+)?(?:function\*?|class|const|let|var|interface|type|enum)\s+(\w+)`)
	classes := strs.Lazy(`(?m)^(?:\w+\s+)*(?:class|interface|enum|record|object|struct|trait|protocol|func?)\s+(\w+)`)
	all := map[string]func() *regexp.Regexp{
		".go":  strs.Lazy(`(?m)^(?:func|type|var|const)\s+([A-Za-z_]\w*)`),
		".py":  strs.Lazy(`(?m)^(?:async\s+)?(?:def|class)\s+(\w+)`),
		".rb":  strs.Lazy(`(?m)^(?:class|module|def)\s+(\w+)`),
		".php": strs.Lazy(`(?m)^(?:(?:abstract|final|readonly)\s+)*(?:class|interface|trait|enum|function)\s+(\w+)`),
		".rs":  strs.Lazy(`(?m)^(?:pub(?:\([^)\n]*\))?\s+)?(?:unsafe\s+|async\s+)*(?:fn|struct|enum|trait|type|static|const|mod)\s+(\w+)`),
	}
	for _, ext := range []string{".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts"} {
		all[ext] = js
	}
	for _, ext := range []string{".java", ".kt", ".cs", ".swift", ".scala"} {
		all[ext] = classes
	}
	return all
}()

// NamesTaken are the names that a proposal takes away: paths of files, and what sources
// declared that stands in none of the changed ones any more. A name that any text may
// hold, such as "run", is none. Time is linear in the size of the files.
func NamesTaken(diffs []FileDiff, deleted []string) []string {
	declared := map[string]bool{}
	for _, d := range diffs {
		re := declarations[path.Ext(d.Path)]
		if re == nil || !IsSource(d.Path) {
			continue
		}
		for _, m := range re().FindAllSubmatch(d.Old, -1) {
			if name := string(m[1]); distinct(name) {
				declared[name] = true
			}
		}
	}
	if len(declared) > 0 {
		for _, d := range diffs {
			if IsSource(d.Path) {
				eachWord(string(d.New), func(word string) { delete(declared, word) })
			}
		}
	}
	gone := slices.Clone(deleted)
	for name := range declared {
		gone = append(gone, name)
	}
	slices.Sort(gone)
	return gone[:min(len(gone), maxGone)]
}

// distinct says whether a name is hardly a word of a sentence, or of a command.
func distinct(name string) bool {
	return len(name) > 3 && strings.ContainsAny(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")
}

// wordRune says whether names are made of it; what is not ASCII, and each byte of it, is.
func wordRune(c rune) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func eachWord(text string, take func(word string)) {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !wordRune(r) }) {
		take(word)
	}
}

// Documents are those of the files that say how things are, nearest the top first. What
// says how they were, or are to be, may name what is gone.
func Documents(files []string) []string {
	var out []string
	for _, name := range files {
		if isDocument(name) {
			out = append(out, name)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int {
		return cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/"))
	})
	return out[:min(len(out), MaxDocuments)]
}

var (
	notNow  = strs.Lazy(`(?i)^(?:changelog|changes|history|news|releases?|release[-_]?notes|migrati(?:on|ng)|upgrad(?:e|ing)|plan|todo|tasks|prd)\b`)
	notHere = strs.Lazy(`(?i)(?:^|/)(?:\.[^/]*|vendor|node_modules|third_party|testdata|fixtures|adrs?|decisions|archive|changelogs?|plans?)/`)
)

func isDocument(name string) bool {
	return path.Ext(name) == ".md" && !notNow().MatchString(path.Base(name)) && !notHere().MatchString(name)
}

// Stale tells which of the names that are gone a document still holds: paths anywhere,
// other names where they are marked as code.
func Stale(gone []string, document string, text []byte) []Finding {
	held := map[string]bool{}
	for part := range codeOf(string(text)) {
		eachWord(part, func(word string) { held[word] = true })
	}
	var names []string
	for _, name := range gone {
		if held[name] || strings.ContainsAny(name, "./") && holdsPath(text, name) {
			names = append(names, cutText(name, maxName))
		}
	}
	if len(names) == 0 {
		return nil
	}
	said := strings.Join(names[:min(len(names), maxStaleName)], ", ")
	if more := len(names) - maxStaleName; more > 0 {
		said += " and " + strconv.Itoa(more) + " more"
	}
	return []Finding{{
		Path: document, Rule: RuleStale, Text: cutText(document, maxName) + " still names what is gone: " + said,
	}}
}

// codeOf are the parts of a Markdown text that are marked as code.
func codeOf(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		fenced := false
		for line := range strings.Lines(text) {
			if t := strings.TrimLeft(line, " \t"); strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") {
				fenced = !fenced
				continue
			}
			if fenced {
				if !yield(line) {
					return
				}
				continue
			}
			for i, part := range strings.Split(line, "`") {
				if i%2 == 1 && !yield(part) {
					return
				}
			}
		}
	}
}

// holdsPath says whether a text holds a path from the root, with ./ and ../ before it or
// without.
func holdsPath(text []byte, name string) bool {
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(name))
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(name)
		at = to
		whole := from == 0 || !wordRune(rune(text[from-1])) && text[from-1] != '-' && text[from-1] != '.' &&
			(text[from-1] != '/' || from > 1 && text[from-2] == '.')
		if whole && (to == len(text) || !wordRune(rune(text[to])) && text[to] != '-' && text[to] != '/' &&
			(text[to] != '.' || to+1 == len(text) || !wordRune(rune(text[to+1])))) {
			return true
		}
	}
}
