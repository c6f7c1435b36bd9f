package egress

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// presetMark begins an entry that stands for the hosts of a package registry.
const presetMark = "preset:"

// List names the hosts that may be reached. An entry is the name of a host, or
// *.NAME for the hosts below one, or preset:REGISTRY. An empty list allows none.
type List []string

// presets gives the hosts that a registry serves its packages from. None is one that
// anybody could put a server or a bucket of their own on.
var presets = map[string][]string{
	"crates":    {"crates.io", "index.crates.io", "static.crates.io"},
	"debian":    {"deb.debian.org", "security.debian.org"},
	"go":        {"proxy.golang.org", "sum.golang.org"},
	"maven":     {"repo.maven.apache.org", "repo1.maven.org"},
	"npm":       {"registry.npmjs.org", "registry.yarnpkg.com"},
	"nuget":     {"api.nuget.org", "globalcdn.nuget.org"},
	"packagist": {"packagist.org", "repo.packagist.org"},
	"pypi":      {"files.pythonhosted.org", "pypi.org"},
	"rubygems":  {"index.rubygems.org", "rubygems.org"},
}

// Presets are the registries that have one, in order.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Check says what is wrong with an entry of a list.
func Check(entry string) error {
	if name, ok := strings.CutPrefix(entry, presetMark); ok {
		if presets[name] == nil {
			return fmt.Errorf("there is no preset %q; there are %s", name, strings.Join(Presets(), ", "))
		}
		return nil
	}
	below, wild := strings.CutPrefix(entry, "*.")
	name, ok := Name(below)
	switch {
	case !ok || name != below:
		return fmt.Errorf("%q is not the name of a host in small letters, nor *. with a name, nor %sREGISTRY", entry,
			presetMark)
	case wild && !strings.Contains(name, "."):
		return fmt.Errorf("%q stands for a whole top-level domain", entry)
	}
	return nil
}

// Allows says whether the list names the host, which is a Name.
func (l List) Allows(host string) bool {
	return slices.ContainsFunc(l, func(entry string) bool {
		if name, ok := strings.CutPrefix(entry, presetMark); ok {
			return slices.Contains(presets[name], host)
		}
		if below, ok := strings.CutPrefix(entry, "*"); ok {
			return len(host) > len(below) && strings.HasSuffix(host, below)
		}
		return entry == host
	})
}

const (
	maxName  = 253
	maxLabel = 63
)

// Name is the name of a host in its one form: small letters, and no dot at the
// end. ok is false for everything else: an address, a name in other letters than
// those of the DNS, or one that some reader would take for an address
// (127.1, 0x7f000001).
func Name(host string) (name string, ok bool) {
	host = strings.TrimSuffix(host, ".")
	if host == "" || len(host) > maxName {
		return "", false
	}
	b := []byte(host)
	start := 0
	for i, c := range b {
		switch {
		case 'A' <= c && c <= 'Z':
			b[i] = c + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_':
		case c == '-' && i > start:
		case c == '.' && i > start && i+1 < len(b):
			start = i + 1
		default:
			return "", false
		}
		if i-start >= maxLabel {
			return "", false
		}
	}
	return string(b), 'a' <= b[start] && b[start] <= 'z'
}
