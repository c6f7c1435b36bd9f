// Package agenttest is a scripted Anthropic Messages API for tests and local
// trials: the real agent CLI talks to it as it would to the real endpoint, gets
// tool calls and a final text from a script, and does real work with them.
//
// It keeps the API's rules where a client could break them: required fields and
// headers, the expected key, and that every tool call is answered before the
// next turn. It needs no testing package, so any program can serve it.
package agenttest
