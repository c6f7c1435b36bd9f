package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// maxEntries bounds every list of a file.
const maxEntries = 100

// field is where the value of a key goes, and what is asked of it.
type field struct {
	index []int
	rule  string
}

// keysOf gives the keys of a file that is read into t. The tag yaml is a key, with dots
// for sections ("egress.allow"); the keys of a struct stand below its own, those of an
// embedded one beside the others. The tag is says what its values may be:
// "1..50" and "1s.." bound a number or a time, "bytes 1m.." reads a size, "auto|never" lists
// words, and anything else is one of rules.
func keysOf(t reflect.Type) map[string]field {
	keys := map[string]field{}
	var walk func(t reflect.Type, prefix string, index []int)
	walk = func(t reflect.Type, prefix string, index []int) {
		for i := range t.NumField() {
			f := t.Field(i)
			key, at := f.Tag.Get("yaml"), append(slices.Clone(index), i)
			switch {
			case f.Anonymous:
				walk(f.Type, prefix, at)
			case key != "" && f.Type.Kind() == reflect.Struct:
				walk(f.Type, prefix+key+".", at)
			case key != "":
				keys[prefix+key] = field{at, f.Tag.Get("is")}
			}
		}
	}
	walk(t, "", nil)
	return keys
}

const bytesRule = "bytes"

// check looks at one value. It makes paths absolute and takes the slash from the end of URLs.
func (d *document) check(v reflect.Value, rule string) error {
	if bounds, ok := strings.CutPrefix(rule, bytesRule); ok {
		rule = strings.TrimSpace(bounds)
	}
	low, high, ranged := strings.Cut(rule, "..")
	switch {
	case rule == "":
		return nil
	case ranged && high == "" && number(v, "") < number(v, low):
		return fmt.Errorf("must be at least %s", low)
	case ranged && high != "" && (number(v, "") < number(v, low) || number(v, "") > number(v, high)):
		return fmt.Errorf("must be between %s and %s", low, high)
	case ranged:
		return nil
	}
	s := v.String()
	if strings.Contains(rule, "|") {
		if words := strings.Split(rule, "|"); !slices.Contains(words, s) {
			return fmt.Errorf("%q is not one of %s", clip(s), strings.Join(words, ", "))
		}
		return nil
	}
	switch rule {
	case "file":
		v.SetString(within(d.dir, s))
		return nil
	case "url":
		v.SetString(strings.TrimRight(s, "/"))
		return checkURL(s)
	case "host":
		if err := egress.Check(s); err != nil {
			return errors.New(clipTo(err.Error(), 200))
		}
		return nil
	}
	if r := rules[rule]; !r.fits(s) {
		return fmt.Errorf("%q %s", clip(s), r.otherwise)
	}
	return nil
}

// number is a bound of v as one can compare it, and v itself where there is none.
func number(v reflect.Value, bound string) float64 {
	switch {
	case bound == "" && v.CanInt():
		return float64(v.Int())
	case bound == "":
		return v.Float()
	case v.Type() == reflect.TypeFor[time.Duration]():
		d, _ := parseDuration(bound)
		return float64(d)
	case v.CanInt():
		n, _ := parseBytes(bound)
		return float64(n)
	}
	n, _ := strconv.ParseFloat(bound, 64)
	return n
}

// rules are what a text may be, each with what is said of one that is not.
var rules = map[string]struct {
	fits      func(string) bool
	otherwise string
}{
	"model":   {run.IsModelName, "does not look like the name of a model"},
	"models":  {isModels, "is neither the name of a model nor the beginning of one with a *"},
	"image":   {IsImage, "does not look like the reference of an image"},
	"branch":  {isBranch, "is not the name of a branch"},
	"bot":     {BotLogin, "is not the login of a bot, which ends in [bot]"},
	"address": {isAddress, "is not an address; write it like 127.0.0.1:8080 or :8080"},
	// GitHub refuses label names over 50 characters.
	"label":      {func(s string) bool { return fits(s, 50) }, "is not 1 to 50 printable characters"},
	"name":       {func(s string) bool { return fits(s, maxGateName) }, "is not 1 to 80 printable characters on one line"},
	"command":    {isCommand, "is not a command of 1 to 4096 bytes"},
	"repository": {matches(`^[A-Za-z0-9][A-Za-z0-9-]{0,99}/(\*|[A-Za-z0-9._-]{1,100})$`), "is neither owner/name nor owner/*"},
	"header":     {matches(`^[A-Za-z][A-Za-z0-9-]{0,63}$`), "is not the name of a header"},
	// No two names give the same variable, nor one with another's suffix.
	"target": {matches(`^[a-z][a-z0-9]{0,31}$`), "is not a name of letters and digits, in lower case"},
	// A lint goes into a command for a shell: nothing else may stand in it.
	"lint": {matches(`^[a-z][a-z0-9_]*(?:::[a-z][a-z0-9_]*)?$`), "does not look like the name of a lint"},
	// A tool, or one of its uses: "WebFetch", "Bash(git push:*)".
	"tool": {matches(`^[A-Za-z][A-Za-z0-9_-]{0,63}(?:\([A-Za-z0-9 ./:*_-]{1,128}\))?$`), "does not look like a tool"},
	"path": {isPath, "is not the path of a file in the repository"},
	"glob": {isGlob, "is not a pattern of paths within the repository"},
}

func matches(pattern string) func(string) bool {
	re := strs.Lazy(pattern)
	return func(s string) bool { return re().MatchString(s) }
}

// The first character keeps a value that becomes an argument from being read as a flag.
var imagePattern = strs.Lazy(`^[a-z0-9][A-Za-z0-9._:/@-]{0,254}$`)

// IsImage says whether s looks like the reference of an image.
func IsImage(s string) bool { return imagePattern().MatchString(s) }

// botPattern is what GitHub makes of the name of an App.
var botPattern = strs.Lazy(`^[A-Za-z0-9][A-Za-z0-9-]{0,99}\[bot\]$`)

// BotLogin says whether a login is that of an App: nobody else's has brackets.
func BotLogin(login string) bool { return botPattern().MatchString(login) }

func isModels(s string) bool { return s == "*" || run.IsModelName(strings.TrimSuffix(s, "*")) }

func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	return err == nil && port != ""
}

func isCommand(s string) bool {
	return strings.TrimSpace(s) != "" && len(s) <= maxGateRun && !strings.ContainsRune(s, 0)
}

func isPath(s string) bool { return filepath.IsLocal(s) && filepath.Clean(s) == s && s != "." }

func isGlob(s string) bool {
	_, err := path.Match(s, "")
	return err == nil && s != "" && !strings.HasPrefix(s, "/") && len(s) <= 255
}

// fits says whether s is 1 to most printable characters.
func fits(s string, most int) bool {
	n := utf8.RuneCountInString(s)
	return n > 0 && n <= most && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// isBranch follows git-check-ref-format(1), and refuses a leading hyphen as
// git branch does.
func isBranch(s string) bool {
	if len(s) > 244 || s == "@" || strings.HasPrefix(s, "-") || strings.HasSuffix(s, ".") ||
		strings.Contains(s, "..") || strings.Contains(s, "@{") {
		return false
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r == unicode.ReplacementChar || unicode.IsControl(r) || unicode.IsSpace(r) ||
			strings.ContainsRune(`~^:?*[\`, r)
	})
}

// checkURL wants https, or http on this host, because keys travel along.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return fmt.Errorf("%q is not a URL like https://example.com", clip(raw))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("a URL with a user name, password, query or fragment is not allowed")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return errors.New("plain http would send credentials unencrypted; use https")
	}
	return nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// within resolves path against dir; "" stays "".
func within(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// clip shortens a value for a message.
func clip(s string) string { return clipTo(s, 40) }

func clipTo(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
