package config

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
