package main

import (
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/org/ralph-action/internal/redact"
)

// environmentMask masks what the environment of a person holds, and more.
func environmentMask(more ...string) *redact.Masker {
	return redact.New(append(environmentSecrets(os.Environ()), more...)...)
}

// secretName finds variables that hold secrets, by the custom of naming them so.
var secretName = regexp.MustCompile(`(?i)(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PAT|CREDENTIALS?)$`)

// addressName finds variables that hold addresses of proxies and registries, in which
// there may be a password. Those of data bases are none: on most machines theirs are
// words like "postgres".
var addressName = regexp.MustCompile(`(?i)PROXY$|REGISTRY$|INDEX_URL$|_BASE_URL$|^GO(FLAGS|SUMDB|NOSUMDB)$`)

// minEnvSecret is the least length of a value that is masked: shorter ones are
// rather settings.
const minEnvSecret = 8

// environmentSecrets are the values of variables that are named like secrets, and the
// passwords in addresses. What names a file is none.
func environmentSecrets(environ []string) []string {
	var values []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if secretName.MatchString(name) && len(value) >= minEnvSecret && !strings.HasPrefix(value, "/") {
			values = append(values, value)
		}
		if addressName.MatchString(name) {
			values = append(values, redact.Logins(value)...)
		}
	}
	return values
}

// maskedWriter masks what is written in whole lines, as a logger does.
type maskedWriter struct {
	w    io.Writer
	mask *redact.Masker
}

// Write implements io.Writer.
func (m maskedWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(m.w, m.mask.Mask(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// below is the writer that is masked, to ask whether it is a terminal.
func below(w io.Writer) io.Writer {
	for {
		over, ok := w.(maskedWriter)
		if !ok {
			return w
		}
		w = over.w
	}
}
