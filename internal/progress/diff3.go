package progress

import (
	"slices"
	"strings"
)

// textLines divides a text; white space at the end of a line does not matter.
func textLines(s string) []string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	var out []string
	for l := range strings.Lines(s) {
		out = append(out, strings.TrimRight(l, " \t\r\n"))
	}
	return out
}

// common says for each line of a which line of b is the same one, or -1. Lines
// at both ends are compared as they come; between them those count that occur
// once on either side, and what is equal next to them. So the answer takes
// linear time, but for sorting, and is what a person would see.
func common(a, b []string) []int {
	to := make([]int, len(a))
	for i := range to {
		to[i] = -1
	}
	type once struct{ a, b int } // -1: never, -2: more than once
	seen := make(map[string]*once, len(a))
	for i, l := range a {
		if seen[l] == nil {
			seen[l] = &once{i, -1}
		} else {
			seen[l].a = -2
		}
	}
	for k, l := range b {
		if o := seen[l]; o != nil && o.b == -1 {
			o.b = k
		} else if o != nil {
			o.b = -2
		}
	}
	seq := make([]int, len(a))
	for i, l := range a {
		seq[i] = -1
		if o := seen[l]; o.a == i && o.b >= 0 {
			seq[i] = o.b
		}
	}
	in := rising(seq)
	// grow takes in the equal lines of a stretch between two anchors, first
	// from its start and then from its end.
	grow := func(a0, a1, b0, b1 int) {
		for a0 < a1 && b0 < b1 && a[a0] == b[b0] {
			to[a0] = b0
			a0, b0 = a0+1, b0+1
		}
		for a0 < a1 && b0 < b1 && a[a1-1] == b[b1-1] {
			a1, b1 = a1-1, b1-1
			to[a1] = b1
		}
	}
	a0, b0 := 0, 0
	for i := range a {
		if in[i] {
			to[i] = seq[i]
			grow(a0, i, b0, seq[i])
			a0, b0 = i+1, seq[i]+1
		}
	}
	grow(a0, len(a), b0, len(b))
	return to
}

// merge3 puts together what host and human made of base, line by line. Where
// both changed the same lines the human's stand and clash is true; what one
// side only put before or behind them is kept.
func merge3(base, host, human []string) (out []string, clash bool) {
	toHost, toHuman := common(base, host), common(base, human)
	b0, h0, u0 := 0, 0, 0
	settle := func(b, h, u []string) {
		switch {
		case slices.Equal(h, b), slices.Equal(h, u):
			out = append(out, u...)
			return
		case slices.Equal(u, b):
			out = append(out, h...)
			return
		}
		if n := len(h) - len(b); n > 0 && slices.Equal(h[:len(b)], b) {
			out = append(append(out, u...), h[len(b):]...)
		} else if n > 0 && slices.Equal(h[n:], b) {
			out = append(append(out, h[:n]...), u...)
		} else if n := len(u) - len(b); n > 0 && slices.Equal(u[:len(b)], b) {
			out = append(append(out, h...), u[len(b):]...)
		} else if n > 0 && slices.Equal(u[n:], b) {
			out = append(append(out, u[:n]...), h...)
		} else {
			out, clash = append(out, u...), true
		}
	}
	for i := range base {
		if toHost[i] < 0 || toHuman[i] < 0 {
			continue
		}
		settle(base[b0:i], host[h0:toHost[i]], human[u0:toHuman[i]])
		out = append(out, base[i])
		b0, h0, u0 = i+1, toHost[i]+1, toHuman[i]+1
	}
	settle(base[b0:], host[h0:], human[u0:])
	return out, clash
}
