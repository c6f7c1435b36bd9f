package run

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
