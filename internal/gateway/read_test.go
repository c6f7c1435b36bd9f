package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// anything reads a body of which everything is allowed that is no ambiguity.
func anything(body string) error {
	r := reader{api: join("", "", true)}
	return r.read([]byte(body))
}

// Attack: a body that is small on the wire, and takes long or much memory to read.
func TestHostileRequestsAreBounded(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	many := func(item string, n int) string { return strings.Repeat(item+",", n) }
	for name, tt := range map[string]struct{ body, says string }{
		"objects":        {`{"model":"m","messages":[` + many(`{"a":0}`, maxValues/2) + `{}]}`, "more than 500000 values"},
		"lists":          {`{"model":"m","max_tokens":1,"messages":[` + many(`[]`, maxValues) + `[]]}`, "more than 500000 values"},
		"numbers":        {`{"model":"m","max_tokens":1,"top_k":[` + many(`1`, maxValues/2) + `1]}`, ""},
		"data":           {`{"model":"m","max_tokens":1,"metadata":{"a":[` + many(`{"":0}`, maxValues) + `1]}}`, "more than 500000 values"},
		"depth":          {`{"model":` + strings.Repeat(`[`, size), "malformed"},
		"deep lists":     {`{"messages":` + strings.Repeat(`[`, 500) + strings.Repeat(`]`, 500) + `}`, "nests deeper"},
		"deep objects":   {`{"tools":{"input_schema":` + strings.Repeat(`{"a":`, 500) + `0` + strings.Repeat(`}`, 500) + `}}`, "nests deeper"},
		"one long name":  {`{"` + strings.Repeat("n", size) + `":{"url":0}}`, "is not allowed here"},
		"escapes":        {`{"model":"` + strings.Repeat(`\u0061`, size/6) + `"}`, "does not look like the name of a model"},
		"escaped choice": {`{"tools":{"type":"` + strings.Repeat(`\u0061`, size/6) + `"}}`, "is not allowed here"},
		"one text":       {`{"model":"m","max_tokens":1,"system":"` + strings.Repeat("x", size) + `"}`, ""},
		"spaces":         {strings.Repeat(" ", size) + `{}`, "names no model"},
	} {
		_, err := inspect(call{provider: run.ProviderAnthropic, form: formMessages}, []byte(tt.body))
		if said := fmt.Sprint(err); (tt.says == "") != (err == nil) || !strings.Contains(said, tt.says) || len(said) > 1000 {
			t.Errorf("%s: %.300s", name, said)
		}
	}
}

// What two readers of JSON could understand in two ways is refused, at any depth.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"a":1,"a":1}`, `{"a":1,"b":2,"a":1}`, `{"a":{"b":[{"c":1,"c":2}]}}`, `{"a":1,"\u0061":2}`, `{"":0,"":0}`,
		`{"\ud800":1,"\ud801":2}`, "{\"a\xff\":1}", "{\"a\":\"\xc0\xaf\"}", "\xef\xbb\xbf{}", `{"a":1}{"a":2}`, `{"a":1}]`,
		`{"a":1,}`, `{,}`, `{"a" 1}`, `{"a":}`, `{a:1}`, `{'a':1}`, `{"a":[1,]}`, `{"a":[1 2]}`, `{"a":01}`, `{"a":-}`,
		`{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":NaN}`, `{"a":Infinity}`, `{"a":True}`, `{"a":nul}`,
		"{\"a\":\"\n\"}", `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\u12"}`, `{"a":"`, `{"a`, `{`, ``, ` `, `[]`, `null`, `"a"`,
		`/**/{}`, `{"a":1/**/}`, "{\"a\":1\x00}", "{\u00a0}", `{"a":1e5,"b":{"x":1,"y":2,"x":3}}`, `{"a_b":1,"aB":1}`,
	} {
		if err := anything(body); err == nil {
			t.Errorf("%q passed", body)
		} else if _, ok := errors.AsType[refusal](err); !ok {
			t.Errorf("%q: %v is no refusal", body, err)
		}
	}
	for _, body := range []string{
		`{}`, " {\t\"a\" : [ 1 , -0 , 0.5e+3 , 1E-2 ] , \"b\" : { } }\r\n", `{"a":{"a":{"a":[{"a":1},{"a":1}]}}}`,
		`{"a":true,"b":false,"c":null,"d":"\"\\\/\b\f\n\r\t\u00e9é\ud83d\ude00\ud83d"}`,
	} {
		if err := anything(body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// FuzzInspect: what passes is sound JSON, and what is sent passes as it is.
func FuzzInspect(f *testing.F) {
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no recordings", err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for kind := range uint8(4) {
			f.Add(body, kind)
		}
	}
	for _, tt := range refusedFields {
		f.Add([]byte(tt.body), uint8(0))
	}
	f.Add([]byte(`{"model":"m","stream":true,"a":1,"\u0061":"\ud83d"}`), uint8(2))
	f.Add([]byte(`{"generation_config":{ },"a":[1e5,-0.1,{"a":{"b":null}}]}`), uint8(3))
	f.Fuzz(func(t *testing.T, body []byte, kind uint8) {
		c := call{form: form(kind % 4), provider: run.ProviderOpenAI}
		if c.form == formGenerate {
			c.model = "m"
		}
		a, err := inspect(c, body)
		if err != nil {
			if _, ok := errors.AsType[refusal](err); !ok || len(err.Error()) > 1000 {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		sent, err := io.ReadAll(a.sent())
		if err != nil || int64(len(sent)) != a.size() || !json.Valid(sent) {
			t.Fatalf("%q became %q, %v", body, sent, err)
		}
		again, err := inspect(c, sent)
		if err != nil || again.insert != "" || again.Output != a.Output || again.Model != a.Model {
			t.Fatalf("%q became %q, and that %+v, %v", body, sent, again, err)
		}
	})
}

// What the agents' programs send passes. The recordings are of real ones, with their
// texts cut.
func TestRequestsOfAgentsPass(t *testing.T) {
	t.Parallel()
	for agent, path := range map[string]string{
		"claude": "/v1/messages", "codex": "/v1/responses", "copilot": "/v1/responses", "opencode": "/v1/chat/completions",
		"gemini": "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
	} {
		body, err := os.ReadFile(filepath.Join("testdata", "requests", agent+".json"))
		if err != nil {
			t.Fatal(err)
		}
		c, ok := route(request(t, "POST", path, nil))
		if !ok {
			t.Fatal(path)
		}
		if a, err := inspect(c, body); err != nil || a.Output == 0 {
			t.Errorf("%s: %+v, %v", agent, a.Request, err)
		}
	}
}
