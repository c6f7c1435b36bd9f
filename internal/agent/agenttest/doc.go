// Package agenttest is a scripted model behind the APIs that agents speak
// (Anthropic Messages, OpenAI Responses and Chat Completions, Gemini), for tests
// and local trials: a real agent CLI talks to it as it would to the real
// endpoint, gets tool calls and a final text from a script, and does real work
// with them. One script serves all of them.
//
// It keeps the APIs' rules where a client could break them: required fields and
// headers, the expected key, and that every tool call is answered before the
// next turn. It needs no testing package, so any program can serve it.
package agenttest
