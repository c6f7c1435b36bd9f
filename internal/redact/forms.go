package redact

import (
	"iter"
	"slices"
	"strings"
)

const (
	// pieceLen is the length of a piece of a value that is masked by itself: short
	// enough to find a value that lacks its beginning, and long enough to be no
	// word.
	pieceLen = 16
	// bareMin is the least number of letters and digits of a value that is looked
	// for without what stands between them.
	bareMin = 16
)

// pieces are the parts of a value that give most of it away: all that look random
// of one that is a token. Addresses, paths and phrases have none, since their
// parts are words.
func pieces(s string) []string {
	if len(s) <= pieceLen || strings.ContainsFunc(s, func(r rune) bool { return !token(r) }) {
		return nil
	}
	var out []string
	for i := 0; i+pieceLen <= len(s); i++ {
		if p := s[i : i+pieceLen]; random(p) {
			out = append(out, p)
		}
	}
	return out
}

// token says whether r is of the characters that keys are made of.
func token(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_+=", r)
}

// newBare indexes the values by their letters and digits alone.
func newBare(secrets []string) *starts {
	var forms []string
	for _, s := range secrets {
		if b := string(bare([]byte(s))); len(b) >= bareMin && random(b) {
			forms = append(forms, b)
		}
	}
	if len(forms) == 0 {
		return nil
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	return newStarts(slices.Compact(forms), nil)
}

// bare is what text has of letters and digits.
func bare(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, c := range text {
		if alphanumeric(c) {
			out = append(out, c)
		}
	}
	return out
}

// alphanumeric says whether c is one of ASCII's letters and digits.
func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// span is a part of a text.
type span struct{ from, to int }

// maxLetters is how many letters and digits are looked at together.
const maxLetters = 64 << 10

// spread gives the places of known values whose letters and digits follow each
// other in text, whatever stands between them. It needs memory for no more than
// maxLetters and the longest value, and asks now and then whether to stop.
func (m *Masker) spread(text []byte, stop func() bool) iter.Seq[span] {
	return func(yield func(span) bool) {
		if m.bare == nil {
			return
		}
		size := min(len(text), maxLetters+m.bare.longest()) // most texts are short
		letters, places := make([]byte, 0, size), make([]int, 0, size)
		for i := 0; i < len(text) && !stop(); {
			for ; i < len(text) && len(letters) < cap(letters); i++ {
				if alphanumeric(text[i]) {
					letters, places = append(letters, text[i]), append(places, i)
				}
			}
			done, ok := m.bared(letters, places, i == len(text), yield)
			if !ok {
				return
			}
			letters, places = append(letters[:0], letters[done:]...), append(places[:0], places[done:]...)
		}
	}
}

// bared looks for values in letters and digits that follow each other, and says how
// many of these it is done with: what is left may be the beginning of a value.
func (m *Masker) bared(letters []byte, places []int, final bool, yield func(span) bool) (done int, more bool) {
	end := len(letters)
	if !final {
		end = min(end, maxLetters)
	}
	for i := 0; ; i++ {
		i += m.bare.skip(letters[i:])
		if i >= end || len(letters)-i < startLen {
			return max(i, end), true
		}
		for _, form := range m.bare.at(letters[i:]).forms {
			if len(letters)-i >= len(form) && string(letters[i:i+len(form)]) == form {
				if !yield(span{places[i], places[i+len(form)-1] + 1}) {
					return i, false
				}
				i += len(form) - 1
				break
			}
		}
	}
}
