package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
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
	// body are the pieces of what is sent: the request as it came, and what is set
	// in it.
	body [][]byte
	spend.Request
}

// size is the length of what is sent.
func (a asked) size() int64 {
	n := 0
	for _, piece := range a.body {
		n += len(piece)
	}
	return int64(n)
}

// inspect reads and checks the body of a call, of which the operator allows fields
// besides those that are known. Errors are refusals.
func inspect(c call, body []byte, allowed []string) (asked, error) {
	r := draft{scanner: scanner{
		body: body, camel: c.form == formGenerate, allowed: allowed, allowKey: "model.allow_fields." + apiName(c.provider),
	}}
	if err := r.scan(c.form.shape()); err != nil {
		return asked{}, err
	}
	a := asked{Request: spend.Request{Model: c.model, Input: int64(len(body)) / bytesPerToken}}
	var err error
	if c.model == "" {
		if a.Model, err = r.text(inModel, "model"); err != nil {
			return asked{}, err
		}
		if a.Model == "" {
			return asked{}, refuse("the request names no model: name one in the field model")
		}
		if err := checkModel(a.Model); err != nil {
			return asked{}, err
		}
	}
	if !c.free {
		if a.Output, err = r.settle(c.form); err != nil {
			return asked{}, err
		}
	}
	a.body = r.pieces()
	return a, nil
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

// apiName is what the configuration calls the endpoint of an API.
func apiName(p run.Provider) string { return string(p) }

func (f form) shape() *shape {
	switch f {
	case formMessages:
		return messagesShape
	case formResponses:
		return responsesShape
	case formChat:
		return chatShape
	default:
		return generateShape
	}
}

// draft is a request that was read, and what is set in it.
type draft struct {
	scanner

	edits []edit
}

// edit puts a text in the place of a part of the request.
type edit struct {
	span

	text string
}

// settle sets what is needed to count the answer, and returns the most tokens it
// may have.
func (r *draft) settle(f form) (output int64, err error) {
	top := span{bytes.IndexByte(r.body, '{'), len(r.body)}
	switch {
	case f == formResponses:
		// It keeps answers unless it is told not to.
		r.set(top, "store", inStore, "false")
	case f == formChat && string(r.raw(inStream)) == "true":
		// Without it a stream does not tell what was used.
		if options := r.raw(inStreamOptions); len(options) > 0 && options[0] == '{' {
			r.set(r.found[inStreamOptions], "include_usage", inIncludeUsage, "true")
		} else {
			r.set(top, "stream_options", inStreamOptions, `{"include_usage":true}`)
		}
	}
	for _, p := range []place{inOutput, inOutputOld} {
		n, err := r.number(p, map[form]string{
			formMessages: "max_tokens", formResponses: "max_output_tokens", formChat: "max_completion_tokens",
			formGenerate: "maxOutputTokens",
		}[f])
		if err != nil {
			return 0, err
		}
		output = max(output, n)
	}
	if answers, err := r.number(inAnswers, "the number of answers"); err != nil || answers > 1 {
		return 0, cmp.Or(err, refuse("ask for one answer: each of them is billed"))
	}
	return cmp.Or(output, defaultOutput), nil
}

// raw is the value of a place, nil where there is none.
func (r *draft) raw(p place) []byte { return r.body[r.found[p].from:r.found[p].to] }

// text is the text in a place, "" where there is none.
func (r *draft) text(p place, name string) (s string, err error) {
	if raw := r.raw(p); len(raw) > 0 && json.Unmarshal(raw, &s) != nil {
		return "", refuse("%s is not a string", name)
	}
	return s, nil
}

// number is a whole number of at least 0, which is what it is where there is none.
func (r *draft) number(p place, name string) (int64, error) {
	raw := string(r.raw(p))
	if raw == "" || raw == "null" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil || f != math.Trunc(f) || f < 0 || f > 1e9 {
		return 0, refuse("%s is not a number of tokens or the like", name)
	}
	return int64(f), nil
}

// set gives a field of an object a value.
func (r *draft) set(object span, name string, p place, value string) {
	if is := r.found[p]; is != (span{}) {
		r.edits = append(r.edits, edit{is, value})
		return
	}
	field := strconv.Quote(name) + ":" + value
	if at := object.from + 1; len(bytes.TrimLeft(r.body[at:object.to], " \t\r\n")) > 0 &&
		bytes.TrimLeft(r.body[at:object.to], " \t\r\n")[0] != '}' {
		field += ","
	}
	r.edits = append(r.edits, edit{span{object.from + 1, object.from + 1}, field})
}

// pieces are what is sent.
func (r *draft) pieces() [][]byte {
	slices.SortStableFunc(r.edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var out [][]byte
	at := 0
	for _, e := range r.edits {
		out = append(out, r.body[at:e.from], []byte(e.text))
		at = e.to
	}
	return append(out, r.body[at:])
}

// clip shortens what an agent wrote for a message.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
