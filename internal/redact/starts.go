package redact

import (
	"encoding/binary"
	"strings"
)

// startLen is how many bytes decide whether a secret may begin at a place. Every
// form and every pattern's prefix has as many.
const startLen = 4

// start is what may begin with certain bytes, longest form first.
type start struct {
	forms    []string
	patterns []*pattern
}

// starts tell the places of a text where a secret may begin from the others, which
// are nearly all.
type starts struct {
	by map[uint32]start
	// pairs are the first two bytes of all: most places are ruled out by them alone.
	pairs [1 << 16]bool
}

func pair(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }

// newStarts indexes known forms, longest first, and patterns.
func newStarts(forms []string, patterns []pattern) *starts {
	s := &starts{by: map[uint32]start{}}
	add := func(text string, to func(*start)) {
		key := binary.LittleEndian.Uint32([]byte(text[:startLen]))
		at := s.by[key]
		to(&at)
		s.by[key] = at
		s.pairs[pair([]byte(text))] = true
	}
	for _, f := range forms {
		add(f, func(at *start) { at.forms = append(at.forms, f) })
	}
	for i := range patterns {
		add(patterns[i].prefix, func(at *start) { at.patterns = append(at.patterns, &patterns[i]) })
	}
	return s
}

// skip says how many bytes of b can be passed over: no secret begins there. The
// last few are left, since what follows them decides.
func (s *starts) skip(b []byte) int {
	for i := 0; i+startLen <= len(b); i++ {
		if !s.pairs[pair(b[i:])] {
			continue
		}
		if _, ok := s.by[binary.LittleEndian.Uint32(b[i:])]; ok {
			return i
		}
	}
	return max(len(b)-startLen+1, 0)
}

// at is what may begin at the start of b, which has startLen bytes.
func (s *starts) at(b []byte) start { return s.by[binary.LittleEndian.Uint32(b)] }

// mayBegin says whether anything begins with b, which is too short to tell what.
func (s *starts) mayBegin(b []byte) bool {
	for _, at := range s.by {
		for _, f := range at.forms[:min(len(at.forms), 1)] {
			if strings.HasPrefix(f, string(b)) {
				return true
			}
		}
		for _, p := range at.patterns[:min(len(at.patterns), 1)] {
			if strings.HasPrefix(p.prefix, string(b)) {
				return true
			}
		}
	}
	return false
}
