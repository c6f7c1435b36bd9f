package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// read scans a body, of which everything is allowed that is no ambiguity.
func read(body string) error {
	s := scanner{body: []byte(body)}
	return s.scan(anything)
}

// Attack: a body that is small on the wire and large in memory. Beside the body
// itself the gateway holds next to nothing.
func TestHostileRequestsTakeNoMemory(t *testing.T) {
	const size = 8 << 20
	many := func(item string) string { return strings.Repeat(item+",", size/(len(item)+1)) }
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`"` + string(rune('a'+i%26)) + strings.Repeat("x", i%7) + itoa(i) + `":0,`)
		}
		return b.String()
	}
	bodies := map[string]struct {
		body string
		says string
	}{
		"objects":          {`{"model":"m","messages":[` + many(`{"":0}`) + `{}]}`, "is not a field"},
		"objects of texts": {`{"model":"m","url":1,"messages":[` + many(`{"url":"\u0075"}`) + `0]}`, "url is not a field"},
		"free objects":     {`{"model":"m","max_tokens":1,"messages":{"content":{"input":[` + many(`{"":0}`) + `0]}}}`, ""},
		"lists":            {`{"model":"m","max_tokens":1,"messages":[` + many(`[]`) + `[]]}`, ""},
		"numbers":          {`{"model":"m","max_tokens":1,"top_k":[` + many(`1`) + `1]}`, ""},
		"depth":            {`{"model":` + strings.Repeat(`[`, size), "may not be a list"},
		"deep lists":       {`{"messages":` + strings.Repeat(`[`, size), "nests deeper"},
		"deep objects":     {`{"tools":{"input_schema":` + strings.Repeat(`{"a":`, size/5), "nests deeper"},
		"names":            {`{"tools":{"input_schema":{` + names(maxNames+1) + `"":0}}}`, "names in objects"},
		"one long name":    {`{"` + strings.Repeat("n", size) + `":0}`, "a name of more than"},
		"escapes":          {`{"model":"` + strings.Repeat(`\u0061`, size/6) + `"}`, "does not look like the name of a model"},
		"escaped choice":   {`{"tools":{"type":"` + strings.Repeat(`\u0061`, size/6) + `"}}`, "is not allowed here"},
		"one text":         {`{"model":"m","max_tokens":1,"system":"` + strings.Repeat("x", size) + `"}`, ""},
		"spaces":           {strings.Repeat(" ", size) + `{}`, "names no model"},
	}
	for name, tt := range bodies {
		t.Run(name, func(t *testing.T) {
			body := []byte(tt.body)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := inspect(call{provider: run.ProviderAnthropic, form: formMessages}, body, nil)
			runtime.ReadMemStats(&after)
			// The one long model name is a copy of a part of the body.
			if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 && name != "escapes" || took > 4*size {
				t.Errorf("%d KiB were allocated for a body of %d KiB", took>>10, len(body)>>10)
			}
			if said := errorText(err); tt.says == "" != (err == nil) || !strings.Contains(said, tt.says) {
				t.Errorf("%.300s", said)
			} else if len(said) > 1000 {
				t.Errorf("the message has %d bytes", len(said))
			}
		})
	}
}

func itoa(i int) string { b, _ := json.Marshal(i); return string(b) }

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
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
		`/**/{}`, `{"a":1/**/}`, "{\"a\":1\x00}", "{\u00a0}", `{"a":1e5,"b":{"x":1,"y":2,"x":3}}`,
	} {
		if err := read(body); err == nil {
			t.Errorf("%q passed", body)
		} else if _, ok := errors.AsType[refusal](err); !ok {
			t.Errorf("%q: %v is no refusal", body, err)
		}
	}
	for _, body := range []string{
		`{}`, " {\t\"a\" : [ 1 , -0 , 0.5e+3 , 1E-2 ] , \"b\" : { } }\r\n", `{"a":{"a":{"a":[{"a":1},{"a":1}]}}}`,
		`{"a":true,"b":false,"c":null,"d":"\"\\\/\b\f\n\r\t\u00e9é\ud83d\ude00\ud83d"}`, `{"a_b":1,"aB":1}`,
	} {
		if err := read(body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// FuzzScan: the scanner takes what encoding/json takes, but for names that stand
// twice and the limits; and what is sent is what was checked.
func FuzzScan(f *testing.F) {
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
	for _, tt := range unknownFields {
		f.Add([]byte(tt.body), uint8(0))
	}
	f.Add([]byte(`{"model":"m","stream":true,"stream_options":{"include_usage":false},"n":2,"\u0061":"\ud83d"}`), uint8(2))
	f.Add([]byte(`{"generation_config":{ },"a":[1e5,-0.1,{"a":{"b":null}}]}`), uint8(3))
	f.Fuzz(func(t *testing.T, body []byte, kind uint8) {
		s := scanner{body: body}
		err := s.scan(anything)
		if sound := json.Valid(body) && bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")); err == nil && !sound {
			t.Fatalf("%q passed", body)
		} else if sound && err != nil && strings.Contains(err.Error(), "malformed") {
			t.Fatalf("%q: %v", body, err)
		}
		c := call{form: form(kind % 4), provider: run.ProviderOpenAI}
		if c.form == formGenerate {
			c.model = "m"
		}
		a, err := inspect(c, body, nil)
		if err != nil {
			if _, ok := errors.AsType[refusal](err); !ok || len(err.Error()) > 1000 {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		sent := bytes.Join(a.body, nil)
		if int64(len(sent)) != a.size() || !json.Valid(sent) {
			t.Fatalf("%q became %q", body, sent)
		}
		again, err := inspect(c, sent, nil)
		if err != nil || !bytes.Equal(bytes.Join(again.body, nil), sent) || again.Output != a.Output || again.Model != a.Model {
			t.Fatalf("%q became %q, and that %q, %v", body, sent, bytes.Join(again.body, nil), err)
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
		if a, err := inspect(c, body, nil); err != nil || a.Output == 0 {
			t.Errorf("%s: %+v, %v", agent, a.Request, err)
		}
	}
}

func BenchmarkInspect(b *testing.B) {
	body := []byte(`{"model":"claude-sonnet-4-5","max_tokens":100,"messages":[{"role":"user","content":"` +
		strings.Repeat("some text of a prompt, ", 5000) + `"}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		a, err := inspect(call{provider: run.ProviderAnthropic}, body, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, &sent{pieces: a.body, release: func() {}}); err != nil {
			b.Fatal(err)
		}
	}
}
