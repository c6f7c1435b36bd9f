package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/gateway/spend"
)

const (
	// defaultOutput is the limit of output tokens that is set in a request under
	// a budget that names none: what a model may write by itself would have to be
	// reserved otherwise.
	defaultOutput = 32_768
	// hiddenInput is added to the estimate of a request's input for what the
	// provider puts around it, such as its own prompt for tools (Anthropic: at
	// most about 1,000 tokens).
	hiddenInput = 2048
)

// refusal is a request that is not let through, in words for the agent and the
// report.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// object is a JSON object of which only the top is read. Of a name that occurs
// twice the last holds, as encoding/json has it, and what is sent is made anew:
// there it occurs once.
type object map[string]json.RawMessage

func parseObject(b []byte) (object, error) {
	var o object
	if err := json.Unmarshal(b, &o); err != nil || o == nil {
		return nil, refuse("the request is not a JSON object")
	}
	return o, nil
}

// bytes writes the object; the values were checked when it was read.
func (o object) bytes() []byte {
	size := 2
	for k, v := range o {
		size += len(k) + len(v) + 8
	}
	b := append(make([]byte, 0, size), '{')
	for i, k := range slices.Sorted(maps.Keys(o)) {
		if i > 0 {
			b = append(b, ',')
		}
		name, _ := json.Marshal(k) // a string can always be written
		b = append(append(append(b, name...), ':'), o[k]...)
	}
	return append(b, '}')
}

// has says whether the name is there with a value other than null.
func (o object) has(name string) bool {
	v, ok := o[name]
	return ok && string(bytes.TrimSpace(v)) != "null"
}

func (o object) text(name string) (string, error) {
	if !o.has(name) {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(o[name], &s); err != nil {
		return "", refuse("%s is not a string", name)
	}
	return s, nil
}

// number is a whole number of at least 0; ok is false where there is none.
func (o object) number(name string) (n int64, ok bool, err error) {
	if !o.has(name) {
		return 0, false, nil
	}
	f, err := strconv.ParseFloat(string(bytes.TrimSpace(o[name])), 64)
	if err != nil || f != math.Trunc(f) || f < 0 || f > 1e9 {
		return 0, false, refuse("%s is not a number of tokens or the like", name)
	}
	return int64(f), true, nil
}

func (o object) truth(name string) (bool, error) {
	if !o.has(name) {
		return false, nil
	}
	var yes bool
	if err := json.Unmarshal(o[name], &yes); err != nil {
		return false, refuse("%s is neither true nor false", name)
	}
	return yes, nil
}

func (o object) list(name string) ([]json.RawMessage, error) {
	if !o.has(name) {
		return nil, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(o[name], &items); err != nil {
		return nil, refuse("%s is not a list", name)
	}
	return items, nil
}

// without refuses the first of the names that is there.
func (o object) without(names ...string) error {
	for _, name := range names {
		if o.has(name) {
			return refuse("%s is not allowed here", name)
		}
	}
	return nil
}

// rename gives the one name of a field that the API knows by two.
func (o object) rename(from, to string) error {
	v, ok := o[from]
	if !ok {
		return nil
	}
	if _, both := o[to]; both {
		return refuse("%s and %s are the same", from, to)
	}
	o[to] = v
	delete(o, from)
	return nil
}

// asked is a request as it is sent, and what it can cost.
type asked struct {
	body []byte
	spend.Request
}

// inspect reads and checks the body of a call. limited says that a budget holds,
// so that a limit of the output is needed. Errors are refusals.
func inspect(c call, body []byte, limited bool) (asked, error) {
	o, err := parseObject(body)
	if err != nil {
		return asked{}, err
	}
	a := asked{Request: spend.Request{Model: c.model, Input: estimate(body)}}
	// Text cannot look like this: its quotes are escaped.
	a.LongCache = bytes.Contains(body, []byte(`"1h"`)) || bytes.Contains(body, []byte(`\u`))
	if c.model == "" {
		if a.Model, err = o.text("model"); err != nil {
			return asked{}, err
		}
		if a.Model == "" {
			return asked{}, refuse("the request names no model")
		}
	}
	switch c.form {
	case formMessages:
		a.Output, err = o.messages(limited)
	case formResponses:
		a.Output, err = o.responses(limited)
	case formChat:
		a.Output, err = o.chat(limited)
	case formGenerate:
		a.Output, err = o.generate(limited)
	case formFree: // what it would do is not done
	}
	if err != nil {
		return asked{}, err
	}
	a.body = o.bytes()
	return a, links(c, a.body)
}

// estimate bounds the tokens of a request from above by its text: a token
// stands for at least one byte, and where letters follow each other for at least
// two. Images and documents are not text; what they are is known when they were
// counted.
func estimate(body []byte) int64 {
	letters := 0
	for _, c := range body {
		// The top bit of what is below zero, which takes no branch: every agent's
		// request goes through here.
		letters += int((uint16((c|0x20)-'a') - 26) >> 15)
	}
	return int64(len(body)-letters/2) + hiddenInput
}

// output is the limit of output tokens by the given names: the largest, or the
// default, which is set by the last name where one is needed.
func (o object) output(limited bool, names ...string) (int64, error) {
	most, found := int64(0), false
	for _, name := range names {
		n, ok, err := o.number(name)
		if err != nil {
			return 0, err
		}
		most, found = max(most, n), found || ok
	}
	if found {
		return most, nil
	}
	if limited {
		o[names[len(names)-1]] = json.RawMessage(strconv.Itoa(defaultOutput))
	}
	return defaultOutput, nil
}

// choice refuses a field that has another value than one of those.
func (o object) choice(name string, values ...string) error {
	v, err := o.text(name)
	if err != nil {
		return err
	}
	if v != "" && !slices.Contains(values, v) {
		return refuse("%s %q is not allowed here: it costs more than is counted", name, clip(v))
	}
	return nil
}

// tools checks that the tools of a request are the agent's own to run. Those that
// the provider runs reach its network, and cost extra. Each tool is written anew.
// Groups of tools may be so many deep.
func (o object) tools(deep int, allowed func(kind string) bool) error {
	items, err := o.list("tools")
	if err != nil || items == nil {
		return err
	}
	if deep == 0 {
		return refuse("groups of tools in groups are not allowed here")
	}
	for i, item := range items {
		tool, err := parseObject(item)
		if err != nil {
			return err
		}
		kind, err := tool.text("type")
		if err != nil {
			return err
		}
		if !allowed(kind) {
			return refuse("the tool %q is not allowed here: it would run at the provider, outside of the sandbox", clip(kind))
		}
		if err := tool.tools(deep-1, allowed); err != nil {
			return err
		}
		items[i] = tool.bytes()
	}
	o["tools"] = join(items)
	return nil
}

func join(items []json.RawMessage) json.RawMessage {
	b := []byte{'['}
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, ']')
}

func (o object) messages(limited bool) (int64, error) {
	if err := o.without("mcp_servers", "container"); err != nil {
		return 0, err
	}
	if err := o.choice("speed", "standard"); err != nil {
		return 0, err
	}
	if err := o.choice("service_tier", "auto", "standard_only"); err != nil {
		return 0, err
	}
	if err := o.choice("inference_geo", "global", "not_available"); err != nil {
		return 0, err
	}
	err := o.tools(1, func(kind string) bool {
		client := func(prefix string) bool { return strings.HasPrefix(kind, prefix) }
		return kind == "" || kind == "custom" || slices.ContainsFunc([]string{
			"bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_",
		}, client)
	})
	if err != nil {
		return 0, err
	}
	return o.output(limited, "max_tokens")
}

// openAITool says whether a kind of tool is the client's to run.
func openAITool(kind string) bool {
	switch kind {
	case "function", "custom", "local_shell", "apply_patch", "namespace":
		return true
	default:
		return false
	}
}

func (o object) responses(limited bool) (int64, error) {
	// What is kept at the provider cannot be counted before, and a background
	// answer comes by another way.
	if err := o.without("previous_response_id", "conversation", "prompt"); err != nil {
		return 0, err
	}
	background, err := o.truth("background")
	if err != nil {
		return 0, err
	}
	if background {
		return 0, refuse("background is not allowed here")
	}
	if err := o.choice("service_tier", "auto", "default", "flex"); err != nil {
		return 0, err
	}
	if err := o.tools(2, openAITool); err != nil {
		return 0, err
	}
	return o.output(limited, "max_output_tokens")
}

func (o object) chat(limited bool) (int64, error) {
	if err := o.without("web_search_options", "audio"); err != nil {
		return 0, err
	}
	if err := o.choice("service_tier", "auto", "default", "flex"); err != nil {
		return 0, err
	}
	if err := o.tools(2, openAITool); err != nil {
		return 0, err
	}
	stream, err := o.truth("stream")
	if err != nil {
		return 0, err
	}
	if stream {
		// Without it a stream does not tell what was used.
		options := object{}
		if o.has("stream_options") {
			if options, err = parseObject(o["stream_options"]); err != nil {
				return 0, err
			}
		}
		options["include_usage"] = json.RawMessage("true")
		o["stream_options"] = options.bytes()
	}
	output, err := o.output(limited, "max_tokens", "max_completion_tokens")
	if err != nil {
		return 0, err
	}
	n, ok, err := o.number("n")
	if err != nil {
		return 0, err
	}
	if ok {
		output *= max(n, 1)
	}
	return output, nil
}

func (o object) generate(limited bool) (int64, error) {
	for _, names := range [][2]string{{"generation_config", "generationConfig"}, {"cached_content", "cachedContent"}} {
		if err := o.rename(names[0], names[1]); err != nil {
			return 0, err
		}
	}
	if err := o.without("cachedContent"); err != nil {
		return 0, err
	}
	items, err := o.list("tools")
	if err != nil {
		return 0, err
	}
	for i, item := range items {
		tool, err := parseObject(item)
		if err != nil {
			return 0, err
		}
		for name := range tool {
			if name != "functionDeclarations" && name != "function_declarations" {
				return 0, refuse("the tool %q is not allowed here: it would run at the provider, outside of the sandbox",
					clip(name))
			}
		}
		items[i] = tool.bytes()
	}
	if items != nil {
		o["tools"] = join(items)
	}
	config := object{}
	if o.has("generationConfig") {
		if config, err = parseObject(o["generationConfig"]); err != nil {
			return 0, err
		}
	}
	for _, names := range [][2]string{{"max_output_tokens", "maxOutputTokens"}, {"candidate_count", "candidateCount"}} {
		if err := config.rename(names[0], names[1]); err != nil {
			return 0, err
		}
	}
	output, err := config.output(limited, "maxOutputTokens")
	if err != nil {
		return 0, err
	}
	n, ok, err := config.number("candidateCount")
	if err != nil {
		return 0, err
	}
	if ok {
		output *= max(n, 1)
	}
	if len(config) > 0 {
		o["generationConfig"] = config.bytes()
	}
	return output, nil
}

// clip shortens what an agent wrote for a message.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
