package proc

import (
	"os"
	"strings"
)

// harmless lists the variables that ScrubbedEnv passes on: what programs need
// to find their tools, language, zone, scratch space and certificates, and
// nothing that may hold a credential. HOME is missing on purpose: it leads to
// credentials.
func harmless() []string {
	return []string{
		"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
		"USER", "LOGNAME", "SHELL", "SSL_CERT_FILE", "SSL_CERT_DIR",
	}
}

// ScrubbedEnv is the harmless part of our own environment plus extra
// ("KEY=value"), where a later value of the same key replaces an earlier one.
func ScrubbedEnv(extra ...string) []string {
	var all []string
	for _, key := range harmless() {
		if v, ok := os.LookupEnv(key); ok {
			all = append(all, key+"="+v)
		}
	}
	all = append(all, extra...)

	at := make(map[string]int, len(all))
	env := make([]string, 0, len(all))
	for _, kv := range all {
		key, _, _ := strings.Cut(kv, "=")
		if i, ok := at[key]; ok {
			env[i] = kv
			continue
		}
		at[key] = len(env)
		env = append(env, kv)
	}
	return env
}
