package supervise

import (
	"fmt"
	"path"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// Progress says what an iteration achieved.
type Progress int

// The kinds of progress, in rising order.
const (
	// ProgressNone: nothing that counts.
	ProgressNone Progress = iota
	// ProgressPartial: something moved, or was learnt.
	ProgressPartial
	// ProgressMade: the work is further than it was.
	ProgressMade
)

// The weights of the parts of a score, and from which score on progress is
// partial or made. They are those of the system that Ralph Bot learnt from.
const (
	weightCommit  = 0.40
	weightLines   = 0.20
	weightTests   = 0.25
	weightQuality = 0.15
	scoreMade     = 0.5
	scorePartial  = 0.2
	// fullLines is how many changed lines count in full.
	fullLines = 20
)

// Signals are what one iteration shows of how the work goes.
type Signals struct {
	// Score sums up the four parts by weight, from 0 to 1.
	Score    float64
	Progress Progress
	// Commit and Lines are from 0 to 1, Tests and Quality from -1 to 1.
	Commit, Lines, Tests, Quality float64
	// Source to Other count the changed files that were recorded, by kind.
	Source, Test, Docs, Config, Other int
	// Breadth counts the areas, folders of up to two levels, that changed.
	Breadth int
	// Churn is the share of the changed files that an earlier iteration had
	// changed since something landed.
	Churn float64
}

// measure gives the signals of each iteration, which all count. Each is
// measured by what went before it.
func measure(its []*Iteration) []Signals {
	var m meter
	signals := make([]Signals, len(its))
	touched := map[string]bool{}
	for i, it := range its {
		signals[i] = m.add(it)
		signals[i].files(it.Files, touched)
		if it.Landed {
			clear(touched)
		}
	}
	return signals
}

// signals are those of the last attempt at the task at hand, measured by the ones
// before it.
func (v *view) signals() Signals {
	if len(v.own) == 0 {
		return Signals{}
	}
	all := measure(v.own)
	return all[len(all)-1]
}

// changed is how many changed files were recorded.
func (s Signals) changed() int { return s.Source + s.Test + s.Docs + s.Config + s.Other }

// words say what an attempt changed and where that led, as far as the next one
// should know it; "" where there is nothing to say.
func (s Signals) words() string {
	var parts []string
	if n := s.changed(); n > 0 {
		kinds := make([]string, 0, 5)
		for _, k := range []struct {
			n    int
			name string
		}{
			{s.Source, "source"}, {s.Test, "test"}, {s.Docs, "documentation"}, {s.Config, "configuration"}, {s.Other, "other"},
		} {
			if k.n > 0 {
				kinds = append(kinds, fmt.Sprintf("%d %s", k.n, k.name))
			}
		}
		said := fmt.Sprintf("%s (%s) in %s", strs.Count(n, "file"), strings.Join(kinds, ", "), strs.Count(s.Breadth, "area"))
		if s.Churn > 0 {
			said += fmt.Sprintf(", %d%% of which had been changed by an attempt before", int(100*s.Churn))
		}
		parts = append(parts, "it changed "+said)
	}
	switch {
	case s.Tests < 0:
		parts = append(parts, "fewer tests pass than at the best")
	case s.Tests > 0:
		parts = append(parts, "more tests pass or were added")
	}
	switch {
	case s.Quality < 0:
		parts = append(parts, "there are more warnings than at the best")
	case s.Quality > 0:
		parts = append(parts, "there are fewer warnings")
	}
	if len(parts) == 0 {
		return ""
	}
	return "Of the last attempt: " + strings.Join(parts, "; ") + "."
}

// meter remembers what the next iteration is measured by.
type meter struct {
	best    Metrics         // since the last landing, and at it
	changes map[string]bool // since the last landing
}

func (m *meter) add(it *Iteration) Signals {
	if m.changes == nil {
		m.changes = map[string]bool{}
	}
	var s Signals
	seen := it.Change != "" && m.changes[it.Change]
	if it.Landed {
		s.Commit, s.Quality = 1, 1
	}
	if lines := it.LinesAdded + it.LinesRemoved; !seen && lines > 0 {
		s.Lines = min(1, float64(lines)/fullLines)
	}
	now := it.Metrics
	if fewer, _, ok := lost(now, m.best); ok {
		s.Tests = sign(-fewer)
	}
	if s.Tests == 0 && it.TestsAdded > 0 && !seen {
		s.Tests = 0.5
	}
	if d := sign(-float64(added(now, m.best))); d != 0 {
		s.Quality = d
	}
	s.Score = min(1, max(0, weightCommit*s.Commit+weightLines*s.Lines+weightTests*s.Tests+weightQuality*s.Quality))
	switch {
	case it.Landed, s.Score >= scoreMade:
		// What landed went through verification and checks, however small.
		s.Progress = ProgressMade
	case s.Score >= scorePartial, it.Analysis.Exploring && it.Outcome == Completed:
		s.Progress = ProgressPartial
	}
	m.remember(it)
	return s
}

// files counts the changed files; touched are those that were changed since the
// last landing, and these become some of them.
func (s *Signals) files(files []string, touched map[string]bool) {
	areas := map[string]bool{}
	again := 0
	for _, f := range files {
		switch KindOf(f) {
		case KindSource:
			s.Source++
		case KindTest:
			s.Test++
		case KindDocs:
			s.Docs++
		case KindConfig:
			s.Config++
		case KindOther:
			s.Other++
		}
		areas[area(f)] = true
		if touched[f] {
			again++
		}
	}
	for _, f := range files {
		touched[f] = true
	}
	s.Breadth = len(areas)
	if n := len(files); n > 0 {
		s.Churn = float64(again) / float64(n)
	}
}

func (m *meter) remember(it *Iteration) {
	if it.Landed {
		clear(m.changes)
		m.best = it.Metrics
		return
	}
	if it.Change != "" {
		m.changes[it.Change] = true
	}
	m.best = m.best.better(it.Metrics)
}

func sign(n float64) float64 {
	switch {
	case n > 0:
		return 1
	case n < 0:
		return -1
	default:
		return 0
	}
}

func area(file string) string {
	parts := strings.SplitN(path.Dir(file), "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// FileKind is what a file is for, judged by its name.
type FileKind string

// The kinds of files.
const (
	KindSource FileKind = "source"
	KindTest   FileKind = "test"
	KindDocs   FileKind = "docs"
	KindConfig FileKind = "config"
	KindOther  FileKind = "other"
)

// KindOf is the kind of the file at a path of the work tree.
func KindOf(file string) FileKind {
	isTest := testFileRE().MatchString(file)
	file = strings.ToLower(file)
	base, ext := path.Base(file), path.Ext(file)
	code := strings.Contains(sourceExtensions, ext+" ") && ext != ""
	switch {
	case base == ".":
		return KindOther
	case code && isTest, strings.Contains("/"+file, "/testdata/"), ext == ".snap":
		return KindTest
	case code:
		return KindSource
	case strings.Contains(" .md .mdx .rst .adoc .txt ", " "+ext+" "), strings.HasPrefix(base, "license"),
		strings.HasPrefix(base, "readme"):
		return KindDocs
	case strings.HasPrefix(base, "."), base == "makefile", strings.HasPrefix(base, "dockerfile"), base == "go.mod",
		base == "go.sum",
		strings.Contains(" .json .yaml .yml .toml .ini .cfg .xml .lock .gradle .properties .csproj .sln .cmake .mk ", " "+ext+
			" ") && ext != "":
		return KindConfig
	default:
		return KindOther
	}
}

const sourceExtensions = ".go .c .h .cc .cpp .cxx .hpp .hh .m .mm .rs .java .kt .kts .scala .groovy .cs .fs .vb .py .pyi .rb .php " +
	".js .mjs .cjs .jsx .ts .mts .cts .tsx .vue .svelte .swift .dart .ex .exs .erl .hs .ml .clj .lua .pl .sh .bash " +
	".sql .proto .css .scss .html .zig "

// testFileRE finds tests by their folder or name; CartTest.java is one, and
// latest.ts is not.
var testFileRE = strs.Lazy(`(?i:(?:^|/)(?:tests?|__tests__|specs?|testing|e2e)/|(?:^|/)test_[^/]*$|[_.](?:tests?|spec)\.\w+$|(?:^|/)conftest\.py$)|[a-z0-9](?:Tests?|Spec)\.\w+$`)
