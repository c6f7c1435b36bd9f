package run

import (
	"regexp"
	"sync"
)

// Provider names the service whose model API an agent speaks: it decides which header carries the agent's key, which
// paths the gateway lets through, how the use of a model is read from an answer, and what a refusal looks like.
type Provider string

// The model APIs the gateway knows.
const (
	// ProviderAnthropic is the Messages API.
	ProviderAnthropic Provider = "anthropic"
	// ProviderOpenAI is the Responses and the Chat Completions API.
	ProviderOpenAI Provider = "openai"
	// ProviderGoogle is the Gemini API.
	ProviderGoogle Provider = "google"
)

var modelName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]{0,127}$`)
})

// IsModelName says whether a text can be what a provider calls a model. Its first character
// keeps a name that becomes an argument from being read as a flag.
func IsModelName(text string) bool { return modelName().MatchString(text) }
