package island

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/org/ralph-action/internal/strs"
)

// MaxSize is the most an island, and a description that is all island, takes:
// GitHub refuses more than 65,536 characters. It is in bytes of UTF-8, of which
// there are never fewer than UTF-16 units, so that it holds for both.
const MaxSize = 60_000

// maxDescription is what GitHub takes as a description, with a little to
// spare, in UTF-16 units.
const maxDescription = 65_500

// ErrNoRoom: people's text leaves no room for the island.
var ErrNoRoom = errors.New("island: the description is full")

// The markers of the island. The start also says how long the island is and
// what it hashes to, so that it can still be found when a person deleted the
// end marker. Markers count only in a pull request of our own; text from an
// agent or an issue cannot contain one, for Speak shows "<" as what it is.
const (
	islandStart = "<!-- ralph:island:start"
	islandEnd   = "<!-- ralph:island:end -->"
)

var markerRE = strs.Lazy(`<!-- ralph:island:(?:start(?: size=([0-9]{1,7}) sum=([0-9a-f]{16}))?|end) -->`)

// frame puts the markers around content.
func frame(content string) string {
	content = "\n" + strings.Trim(content, "\n") + "\n"
	return fmt.Sprintf("%s size=%d sum=%s -->%s%s", islandStart, len(content), sum(content), content, islandEnd)
}

func sum(content string) string {
	h := sha256.Sum256([]byte(content))
	return hex.EncodeToString(h[:8])
}

// Update renders v into an existing description, as short as people's own text
// requires. It fails with ErrNoRoom.
func Update(existing string, v View) (string, error) {
	r := newRenderer(v)
	merged := Merge(existing, r.within(MaxSize))
	if over := units(merged) - maxDescription; over > 0 {
		from, to, _ := findIsland(merged)
		merged = Merge(existing, r.within(units(merged[from:to])-over))
	}
	if units(merged) > maxDescription {
		return "", ErrNoRoom
	}
	return merged, nil
}

// units is the length of s in UTF-16, which is what GitHub counts.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
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
