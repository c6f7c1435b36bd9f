package main

import (
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/redact"
)

// serverMask masks all that is a secret of the server's, and more.
func serverMask(cfg config.Server, more ...string) *redact.Masker {
	known := append(environmentSecrets(os.Environ()),
		cfg.Model.APIKey.Reveal(), cfg.Model.AuthToken.Reveal(), cfg.Model.OpenAIKey.Reveal(), cfg.Model.GeminiKey.Reveal(),
		cfg.GitHub.PrivateKey.Reveal())
	for _, s := range cfg.GitHub.WebhookSecrets {
		known = append(known, s.Reveal())
	}
	return redact.New(append(known, more...)...)
}

// environmentMask masks what the environment of a person holds.
func environmentMask() *redact.Masker { return redact.New(environmentSecrets(os.Environ())...) }

// secretName finds variables that hold secrets, by the custom of naming them so.
var secretName = regexp.MustCompile(`(?i)(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PAT|CREDENTIALS?)$`)

// minEnvSecret is the least length of a value that is masked: shorter ones are
// rather settings.
const minEnvSecret = 8

// environmentSecrets are the values of variables that are named like secrets.
// What names a file is none.
func environmentSecrets(environ []string) []string {
	var values []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if secretName.MatchString(name) && len(value) >= minEnvSecret && !strings.HasPrefix(value, "/") {
			values = append(values, value)
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
	if m, ok := w.(maskedWriter); ok {
		return m.w
	}
	return w
}
