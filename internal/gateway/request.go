package gateway

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/run"
)

const (
	// defaultOutput is what an answer that breaks off is charged of output, where its
	// request names no limit.
	defaultOutput = 32_768
	// bytesPerToken is how many bytes of a request are taken for a token of such an
	// answer's input. Texts have about four.
	bytesPerToken = 3
)

// refusal is a request that is not let through, in words for the agent and the
// report.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// asked is a request as it is sent, and what it can cost.
type asked struct {
	// body is the request as it came. insert is put behind the brace that opens it.
	body   []byte
	insert string
	spend.Request
}

// size is the length of what is sent.
func (a asked) size() int64 { return int64(len(a.body) + len(a.insert)) }

// sent is what is sent.
func (a asked) sent() io.Reader {
	at := bytes.IndexByte(a.body, '{') + 1
	return io.MultiReader(bytes.NewReader(a.body[:at]), strings.NewReader(a.insert), bytes.NewReader(a.body[at:]))
}

// inspect reads and checks the body of a call. Errors are refusals.
func inspect(c call, body []byte) (asked, error) {
	r := reader{api: apis()[c.form]}
	if err := r.read(body); err != nil {
		return asked{}, err
	}
	a := asked{body: body, Request: spend.Request{Model: c.model, Input: int64(len(body)) / bytesPerToken}}
	var err error
	if c.model == "" {
		if a.Model, err = r.text("model"); err != nil {
			return asked{}, err
		}
		if a.Model == "" {
			return asked{}, refuse("the request names no model: name one in the field model")
		}
		if err := checkModel(a.Model); err != nil {
			return asked{}, err
		}
	}
	if c.free {
		return a, nil
	}
	if a.insert, err = r.missing(c.form); err != nil {
		return asked{}, err
	}
	for _, name := range map[form][]string{
		formMessages: {"max_tokens"}, formResponses: {"max_output_tokens"},
		formChat: {"max_completion_tokens", "max_tokens"}, formGenerate: {"generationConfig.maxOutputTokens"},
	}[c.form] {
		n, err := r.number(name)
		if err != nil {
			return asked{}, err
		}
		a.Output = max(a.Output, n)
	}
	a.Output = cmp.Or(a.Output, defaultOutput)
	return a, nil
}

// missing are the fields, with a comma behind, without which the provider would keep the
// answer, or not tell what was used.
func (r *reader) missing(f form) (string, error) {
	switch {
	case r.names["store"] && string(r.top["store"]) != "false":
		return "", refuse("store may only be false: %s", whyStore)
	case f == formResponses && !r.names["store"]:
		return `"store":false,`, nil
	case f != formChat || string(r.top["stream"]) != "true" || string(r.top["streamoptions.includeusage"]) == "true":
		return "", nil
	case r.names["streamoptions"]:
		return "", refuse("stream_options has no include_usage: true: set that, or leave stream_options out")
	default:
		return `"stream_options":{"include_usage":true},`, nil
	}
}

// checkModel refuses names that are more than one, or more than a name, to whoever stands
// behind the endpoint.
func checkModel(name string) error {
	switch {
	case !run.IsModelName(name) || strings.Contains(name, ".."):
		return refuse("the model %s does not look like the name of a model", strconv.Quote(clip(name)))
	case strings.HasSuffix(name, ":online"):
		// OpenRouter takes it for a plugin that searches.
		return refuse("the model %q is not allowed here: %s", clip(name), whyAway)
	}
	return nil
}

// clip shortens what an agent wrote for a message.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
