package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

// SecretFile is a file that holds a secret.
type SecretFile struct {
	// Name is the environment variable that stands for the secret, wherever it was given.
	Name string
	// Key is what names the file: a key of the configuration, or a variable.
	Key string
	// Path may be relative to the process.
	Path string
}

// Read gives the secret. The error is a *run.UserError.
func (f SecretFile) Read(readFile func(string) ([]byte, error)) (string, error) {
	b, err := readFile(f.Path)
	if err != nil {
		return "", &run.UserError{
			Message: fmt.Sprintf("cannot read the file in %s: %v", f.Key, err),
			Hint:    "check the path and its permissions", Err: err,
		}
	}
	value := strings.TrimSpace(string(b))
	if value == "" {
		return "", &run.UserError{Message: fmt.Sprintf("the file in %s is empty", f.Key), Hint: "put the secret into it"}
	}
	return value, nil
}

// WithSecret is s with another value of the secret that the variable of that name stands for.
func (s Server) WithSecret(name, value string) Server {
	switch name {
	case EnvPrivateKey:
		s.GitHub.PrivateKey = Secret(value)
	case EnvWebhookSecret:
		s.GitHub.WebhookSecrets = several(value)
	case EnvAPIKey:
		s.Model.APIKey = Secret(value)
	case EnvAuthToken:
		s.Model.AuthToken = Secret(value)
	case EnvOpenAIKey:
		s.Model.OpenAIKey = Secret(value)
	case EnvGeminiKey:
		s.Model.GeminiKey = Secret(value)
	}
	s.Notify.Targets = slices.Clone(s.Notify.Targets)
	for i := range s.Notify.Targets {
		t := &s.Notify.Targets[i]
		switch name {
		case EnvNotifyURL + strings.ToUpper(t.Name):
			t.URL = Secret(value)
		case EnvNotifySecret + strings.ToUpper(t.Name):
			t.Secret = Secret(value)
		}
	}
	return s
}

// several splits secrets at commas and line ends.
func several(value string) []Secret {
	var out []Secret
	for v := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, Secret(v))
		}
	}
	return out
}

// secrets reads credentials into a configuration and keeps the first error.
type secrets struct {
	env      func(string) (string, bool)
	readFile func(string) ([]byte, error)
	into     *Server
	err      error
}

// one reads the secret given by exactly one of: the variable name, the variable name_FILE, or
// file (the configuration key called key).
func (s *secrets) one(name, key, file string) {
	var value string
	var from []SecretFile
	if v, ok := s.env(name); ok && strings.TrimSpace(v) != "" {
		value, from = strings.TrimSpace(v), append(from, SecretFile{Name: name, Key: name})
	}
	if p, ok := s.env(name + "_FILE"); ok && p != "" {
		from = append(from, SecretFile{Name: name, Key: name + "_FILE", Path: p})
	}
	if file != "" {
		from = append(from, SecretFile{Name: name, Key: key, Path: file})
	}
	switch {
	case len(from) == 0:
		return
	case len(from) > 1:
		s.fail(&run.UserError{
			Message: fmt.Sprintf("the same secret is set twice, in %s and in %s", from[0].Key, from[1].Key),
			Hint:    "keep one of them",
		})
		return
	case from[0].Path != "":
		s.into.SecretFiles = append(s.into.SecretFiles, from[0])
		var err error
		if value, err = from[0].Read(s.readFile); err != nil {
			s.fail(err)
			return
		}
	}
	*s.into = s.into.WithSecret(name, value)
}

func (s *secrets) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}
