package prompt

import "strings"

// maxListed bounds the names of a listing; sections.tmpl bounds its bytes.
const maxListed = 100

// Project tells what lies at the top of a tree, whose names anybody may have chosen; those
// of folders end in "/". It spares each fresh agent its first look around.
func Project(names []string) string {
	var told []string
	for _, entry := range names {
		if entry != ".ralph/" {
			told = append(told, entry)
		}
	}
	told = lines(told[:min(len(told), maxListed)])
	return strings.Join(told, "  ")
}
