package config

import (
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// redacted is what a Secret looks like wherever it is printed.
const redacted = "[redacted]"

// Secret is a credential. It prints, formats and marshals as "[redacted]", so
// that a configuration can be logged whole; only Reveal gives the value.
type Secret string

// Reveal returns the value itself, for the one call that needs it.
func (s Secret) Reveal() string { return string(s) }

// Empty says whether no secret was given.
func (s Secret) Empty() bool { return s == "" }

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString implements fmt.GoStringer, which %#v asks for.
func (s Secret) GoString() string { return `config.Secret("` + s.String() + `")` }

// MarshalText implements encoding.TextMarshaler, which JSON and YAML use.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// secrets reads credentials and keeps the first error.
type secrets struct {
	env      func(string) (string, bool)
	readFile func(string) ([]byte, error)
	err      error
	// files are those that were read.
	files []string
}

// one returns the secret given by exactly one of: the variable name, the variable name_FILE,
// or file (the configuration key called key).
func (s *secrets) one(name, key, file string) Secret {
	type origin struct{ what, value, path string }
	var from []origin
	if v, ok := s.env(name); ok && strings.TrimSpace(v) != "" {
		from = append(from, origin{what: name, value: v})
	}
	if p, ok := s.env(name + "_FILE"); ok && p != "" {
		from = append(from, origin{what: name + "_FILE", path: p})
	}
	if file != "" {
		from = append(from, origin{what: key, path: file})
	}
	switch {
	case len(from) == 0:
		return ""
	case len(from) > 1:
		s.fail(&run.UserError{
			Message: fmt.Sprintf("the same secret is set twice, in %s and in %s", from[0].what, from[1].what),
			Hint:    "keep one of them",
		})
		return ""
	case from[0].path == "":
		return Secret(strings.TrimSpace(from[0].value))
	}
	s.files = append(s.files, from[0].path)
	b, err := s.readFile(from[0].path)
	switch {
	case err != nil:
		s.fail(&run.UserError{
			Message: fmt.Sprintf("cannot read the file in %s: %v", from[0].what, err),
			Hint:    "check the path and its permissions", Err: err,
		})
	case strings.TrimSpace(string(b)) == "":
		s.fail(&run.UserError{
			Message: fmt.Sprintf("the file in %s is empty", from[0].what), Hint: "put the secret into it",
		})
	}
	return Secret(strings.TrimSpace(string(b)))
}

// many is one, split at line ends: a secret may hold any other character.
func (s *secrets) many(name, key, file string) []Secret {
	var out []Secret
	for v := range strings.Lines(s.one(name, key, file).Reveal()) {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, Secret(v))
		}
	}
	return out
}

func (s *secrets) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}
