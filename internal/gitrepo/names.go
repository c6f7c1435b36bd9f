package gitrepo

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNameLength and maxPathLength bound what a snapshot takes, in bytes: the
// length of a file name on Linux and macOS, and of a path on macOS.
const (
	maxNameLength = 255
	maxPathLength = 1024
)

// ValidRef says whether ref is a full reference name (refs/…) by the rules of
// git-check-ref-format(1).
func ValidRef(ref string) bool {
	if !strings.HasPrefix(ref, "refs/") || len(ref) > maxPathLength {
		return false
	}
	if strings.HasSuffix(ref, ".") || strings.Contains(ref, "..") || strings.Contains(ref, "@{") {
		return false
	}
	for part := range strings.SplitSeq(ref, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	for i := range len(ref) {
		if c := ref[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return false
		}
	}
	return true
}

// ValidBranch says whether name can be a branch: git's rules, and nothing that
// could be taken for an option or for HEAD.
func ValidBranch(name string) bool {
	return name != "HEAD" && !strings.HasPrefix(name, "-") && ValidRef(branchRef(name))
}

func branchRef(name string) string { return "refs/heads/" + name }

// cleanPath validates the path of a file within a tree, in the form git keeps
// it: relative, slashes, no empty, "." or ".." part, no .git.
func cleanPath(p string) error {
	if p == "" || len(p) > 4096 || strings.IndexByte(p, 0) >= 0 {
		return fmt.Errorf("%s is not a path in a tree", quote(p))
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." || isDotGit(part) {
			return fmt.Errorf("%s is not a path in a tree", quote(p))
		}
	}
	return nil
}

// quote makes any bytes safe to show: what is not printable, not UTF-8 or
// could reorder the text is escaped, and the length is bounded.
func quote(s string) string {
	const most = 300
	cut := ""
	if len(s) > most {
		s, cut = s[:most], "…"
	}
	return strconv.Quote(s) + cut
}

// quotePath is like quote, but leaves a harmless path bare.
func quotePath(p string) string {
	q := quote(p)
	if q == `"`+p+`"` {
		return p
	}
	return q
}

// isDotGit says whether some file system takes name for ".git": letters of
// either case, code points that HFS+ ignores, NTFS streams and short names,
// trailing dots and spaces.
func isDotGit(name string) bool {
	if len(name) < len(".git") {
		return false
	}
	same := Fold(name)
	if same == ".git" {
		return true
	}
	digits, short := strings.CutPrefix(same, "git~")
	return short && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// hfsIgnores lists the code points that HFS+ leaves out when it compares
// names (git's next_hfs_char has the same list).
func hfsIgnores(r rune) bool {
	switch {
	case r >= 0x200c && r <= 0x200f,
		r >= 0x202a && r <= 0x202e,
		r >= 0x206a && r <= 0x206f,
		r == 0xfeff:
		return true
	default:
		return false
	}
}

// badName says why a new file may not have this name, or "".
func badName(name string) string {
	switch {
	case isDotGit(name):
		return "nested git repository"
	case name == "" || name == "." || name == "..":
		return "not a file name"
	case len(name) > maxNameLength:
		return fmt.Sprintf("name longer than %d bytes", maxNameLength)
	case !utf8.ValidString(name):
		return "name is not UTF-8"
	case strings.Contains(name, ":"):
		return "name contains a colon, which Windows takes for part of another file"
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return "name ends in a dot or a space"
	case windowsReserves(name):
		return "name is reserved on Windows"
	}
	for _, r := range name {
		switch {
		case r == '\\' || r == '/':
			return "name contains a path separator"
		case unicode.IsControl(r):
			return "name contains a control character"
		case !unicode.IsPrint(r) && r != '\u200d': // joins the parts of an emoji
			return "name contains an invisible character"
		}
	}
	return ""
}

// windowsReserves says whether a name means a device on Windows, where digits may
// be superscripts.
func windowsReserves(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	port, isPort := strings.CutPrefix(base, "COM")
	if !isPort {
		port, isPort = strings.CutPrefix(base, "LPT")
	}
	return isPort && utf8.RuneCountInString(port) == 1 && strings.ContainsAny(port, "0123456789\u00b9\u00b2\u00b3")
}

// badTarget says why a symbolic link at p may not point to target, or "". The
// rule is stricter than "stays inside when resolved by text": ".." may only
// come first, so that another link on the way cannot make it climb further.
func badTarget(p, target string) string {
	switch {
	case target == "" || strings.IndexByte(target, 0) >= 0 || len(target) > 4095:
		return "symbolic link without a sound target"
	case path.IsAbs(target):
		return "symbolic link to an absolute path"
	}
	up, down := 0, false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			if down {
				return "symbolic link that climbs after descending"
			}
			up++
		case isDotGit(part):
			return "symbolic link into a git directory"
		default:
			down = true
		}
	}
	if up > strings.Count(p, "/") {
		return "symbolic link out of the tree"
	}
	switch strings.ToLower(path.Base(p)) {
	case ".gitmodules", attributesFile, ignoreFile, ".mailmap":
		return "symbolic link in place of a file that git reads"
	}
	return ""
}
