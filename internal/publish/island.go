package publish

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// The markers of the island. The start also says how long the island is and
// what it hashes to, so that it can still be found when a person deleted the
// end marker. Markers count only in a pull request of our own; text from an
// agent or an issue cannot contain one, for Speak shows "<" as what it is.
const (
	islandStart = "<!-- ralph:island:start"
	islandEnd   = "<!-- ralph:island:end -->"
)

var markerRE = lazy(`<!-- ralph:island:(?:start(?: size=([0-9]{1,7}) sum=([0-9a-f]{16}))?|end) -->`)

// island puts the markers around content.
func island(content string) string {
	content = "\n" + strings.Trim(content, "\n") + "\n"
	return fmt.Sprintf("%s size=%d sum=%s -->%s%s", islandStart, len(content), sum(content), content, islandEnd)
}

func sum(content string) string {
	h := sha256.Sum256([]byte(content))
	return hex.EncodeToString(h[:8])
}

// Merge puts the rendered island into an existing description. The text outside
// of the island is kept to the byte:
//
//   - The island is the first start marker that is directly followed by an end
//     marker, with no other marker between them.
//   - Where there is none, but a start marker whose end was deleted, the island
//     is as long as the marker says, if the text there is still the one that was
//     written.
//   - Otherwise the island is added at the end; what is left of an old one is
//     the person's text now.
//
// Merging again changes nothing.
func Merge(existing, rendered string) string {
	if from, to, ok := findIsland(existing); ok {
		return existing[:from] + rendered + existing[to:]
	}
	switch {
	case existing == "":
		return rendered
	case strings.HasSuffix(existing, "\n\n"):
		return existing + rendered
	case strings.HasSuffix(existing, "\n"):
		return existing + "\n" + rendered
	default:
		return existing + "\n\n" + rendered
	}
}

func findIsland(body string) (from, to int, ok bool) {
	marks := markerRE().FindAllStringSubmatchIndex(body, -1)
	isEnd := func(m []int) bool { return body[m[0]:m[1]] == islandEnd }
	for i := 0; i+1 < len(marks); i++ {
		if !isEnd(marks[i]) && isEnd(marks[i+1]) {
			return marks[i][0], marks[i+1][1], true
		}
	}
	for _, m := range marks {
		if isEnd(m) || m[2] < 0 {
			continue
		}
		size, err := strconv.Atoi(body[m[2]:m[3]])
		if err != nil {
			continue
		}
		if n, ok := measure(body[m[1]:], size, body[m[4]:m[5]]); ok {
			return m[0], m[1] + n, true
		}
	}
	return 0, 0, false
}

// measure gives the length of the text that has the given size and sum with
// its line ends as we wrote them: GitHub's editor makes each of them CRLF.
func measure(text string, size int, want string) (int, bool) {
	var b strings.Builder
	n := 0
	for n < len(text) && b.Len() < size {
		if c := text[n]; c != '\r' {
			b.WriteByte(c)
		}
		n++
	}
	return n, b.Len() == size && sum(b.String()) == want
}
