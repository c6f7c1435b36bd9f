package history

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// minAlike is how much of the shorter of two titles has to be shared. Below
// it a lesson is more likely to mislead than to help.
const minAlike = 0.3

// maxWords bounds the words a text is compared by, and maxWord their length: what is longer is
// no word.
const (
	maxWords = 64
	maxWord  = 200
)

// Words are the words a text is found by: lower case, without endings, without
// those that any task could hold. Each comes once.
func Words(text string) []string {
	var out []string
	seen := make(map[string]bool)
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		w = stem(strings.ToLower(w))
		if len(w) < 2 || len(w) > maxWord || common(w) || seen[w] {
			continue
		}
		seen[w] = true
		if out = append(out, w); len(out) == maxWords {
			break
		}
	}
	return out
}

// stem takes off the endings that make one English word two; elsewhere it
// does little harm, since both sides lose the same.
func stem(w string) string {
	for _, end := range [...]string{"ing", "ed", "es", "s", "e"} {
		if rest, ok := strings.CutSuffix(w, end); ok && len(rest) >= 3 {
			return rest
		}
	}
	return w
}

// common says whether a word tells nothing about a task.
func common(w string) bool {
	switch w {
	case "the", "an", "and", "or", "of", "to", "in", "for", "on", "with", "is", "are", "be", "it", "its", "that", "this",
		"as", "at",
		"by", "from", "when", "not", "no", "all", "each", "any", "so", "if", "into",
		"add", "mak", "make", "us", "use", "new", "task", "chang", "updat", "implement", "support", "should", "must", "can",
		"work",
		"exit", "run", "pass", "test":
		return true
	default:
		return false
	}
}

// words gives the words of the task that is asked about.
func (q Query) words() []string { return Words(q.Title + " " + strings.Join(q.Accept, " ")) }

// text is what a lesson is found by.
func (l Lesson) text() string {
	return l.Title + " " + strings.Join(l.Files, " ") + " " + l.Insight
}

// Pick chooses among candidates the lessons of tasks like the one asked about:
// those whose titles share enough words, where a word counts the more the fewer
// candidates hold it. What else a lesson shares decides among them. The most
// alike come first, among equals the newest.
func Pick(q Query, candidates []Lesson, n int) []Lesson {
	words := q.words()
	in := make(map[string]int)
	for _, l := range candidates {
		for _, w := range Words(l.text()) {
			in[w]++
		}
	}
	weigh := func(words []string, of map[string]bool) (sum float64) {
		for _, w := range words {
			if of == nil || of[w] {
				sum += math.Log(1 + float64(len(candidates)+1)/float64(in[w]+1))
			}
		}
		return sum
	}
	total := weigh(words, nil)
	type scored struct {
		lesson Lesson
		score  float64
	}
	var out []scored
	for _, l := range candidates {
		title := Words(l.Title)
		alike := weigh(words, set(title)) / min(total, weigh(title, nil))
		if alike >= minAlike { // false for the NaN of a text without words
			out = append(out, scored{l, alike + weigh(words, set(Words(l.text())))/total})
		}
	}
	slices.SortStableFunc(out, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), b.lesson.At.Compare(a.lesson.At),
			strings.Compare(a.lesson.Key, b.lesson.Key))
	})
	picked := make([]Lesson, 0, min(len(out), n))
	for _, s := range out[:min(len(out), n)] {
		picked = append(picked, s.lesson)
	}
	return picked
}

func set(words []string) map[string]bool {
	s := make(map[string]bool, len(words))
	for _, w := range words {
		s[w] = true
	}
	return s
}
