package config

import (
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// MaxEnvFile is how large a file of variables may be.
const MaxEnvFile = 64 << 10

// assignment is a line that sets a variable, up to its value.
var assignment = strs.Lazy(`^(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=`)

// ParseEnv reads a file that shells source, as data: NAME=VALUE, with or without
// export, in quotes of either kind or in none, and comments. $HOME and a ~ at the
// beginning stand for home; nothing else is expanded and nothing is executed. The
// last value of a name counts. skipped are the numbers of the lines that are
// anything else.
func ParseEnv(src []byte, home string) (values map[string]string, skipped []int) {
	values = map[string]string{}
	number := 0
	for line := range strings.Lines(string(src)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		m := assignment().FindStringSubmatch(line)
		if m == nil {
			skipped = append(skipped, number)
			continue
		}
		value, ok := envValue(line[len(m[0]):], home)
		if !ok {
			skipped = append(skipped, number)
			continue
		}
		values[m[1]] = value
	}
	return values, skipped
}

// envValue reads what stands behind the = to the end of the line; ok is false
// where a shell would do more than take it.
func envValue(s, home string) (value string, ok bool) {
	var b strings.Builder
	if s == "~" || strings.HasPrefix(s, "~/") {
		b.WriteString(home)
		s = s[1:]
	}
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == 0 && (c == ' ' || c == '\t'):
			rest := strings.TrimSpace(s[i:])
			return b.String(), rest == "" || rest[0] == '#'
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case c == quote && quote != 0:
			quote = 0
		case quote == '\'':
			b.WriteByte(c)
		case c == '\\':
			if i++; i == len(s) {
				return "", false
			}
			if quote == '"' && !strings.ContainsRune("\"\\$`", rune(s[i])) {
				b.WriteByte('\\')
			}
			b.WriteByte(s[i])
		case c == '$':
			n := homeLength(s[i:])
			if n == 0 {
				return "", false
			}
			b.WriteString(home)
			i += n - 1
		case c == '`' || c == 0 || quote == 0 && strings.ContainsRune(";&|<>()", rune(c)):
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), quote == 0
}

// homeLength is the length of $HOME at the beginning of s, 0 where it is not there.
func homeLength(s string) int {
	if strings.HasPrefix(s, "${HOME}") {
		return len("${HOME}")
	}
	rest, ok := strings.CutPrefix(s, "$HOME")
	if !ok || rest != "" && (rest[0] == '_' || '0' <= rest[0] && rest[0] <= '9' || 'a' <= rest[0]|0x20 && rest[0]|0x20 <= 'z') {
		return 0
	}
	return len("$HOME")
}
