package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/goccy/go-yaml"

	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/run"
)

var update = flag.Bool("update", false, "write the JSON Schemas of docs/schema anew")

// schemas makes the JSON Schemas of both files from the structs they are read
// into, with what docs/configuration.md says of each key.
func schemas(t *testing.T) map[string][]byte {
	t.Helper()
	server, repo, _ := splitDoc(t)
	out := map[string][]byte{}
	for _, s := range []struct {
		name, title, doc string
		file             reflect.Type
	}{
		{"server", "Ralph Bot: ralph.yaml of a server", server, reflect.TypeFor[serverFile]()},
		{"repository", "Ralph Bot: .github/ralph.yml of a repository", repo, reflect.TypeFor[repoFile]()},
	} {
		m := schemaMaker{meanings: meanings(s.doc), choices: choices()[s.name]}
		schema := m.of(s.file, "")
		schema["$schema"] = "http://json-schema.org/draft-07/schema#"
		schema["title"] = s.title
		b, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		for key := range m.choices {
			t.Errorf("%s: there are choices for %q, which is no key", s.name, key)
		}
		out[s.name] = append(b, '\n')
	}
	return out
}

// choices are the keys that take one of a few words.
func choices() map[string]map[string][]string {
	words := func(list ...string) []string { return list }
	kinds := func(list []gate.Kind) (out []string) {
		for _, k := range list {
			out = append(out, string(k))
		}
		return out
	}
	var roles, notices []string
	for _, r := range run.Roles() {
		roles = append(roles, string(r))
	}
	for _, n := range run.Notices() {
		notices = append(notices, string(n))
	}
	when := words(string(gate.Task), string(gate.Final))
	return map[string]map[string][]string{
		"server": {
			"agent.name": Agents(), "sandbox.kind": words(SandboxDocker, SandboxLocal),
			"sandbox.local_isolation": words("auto", "bwrap", "none"),
			"gates[].kind":            kinds(gate.Kinds()), "gates[].when": when,
			"log.level": words("trace", "debug", "info", "warn", "error"), "log.format": words("json", "console"),
			"notify.targets[].events[]": notices,
		},
		"repository": {
			"gates[].kind": kinds(gate.Kinds()), "gates[].when": when, "roles[].name": roles,
			"plan.ask": words("auto", "never"), "plan.approval": words(ApprovalRequired, approvalNone),
			"protected.policy": words(string(run.ProtectedHold), string(run.ProtectedRefuse), string(run.ProtectedAllow)),
			"notify.events[]":  notices,
		},
	}
}

type schemaMaker struct {
	meanings map[string]string
	choices  map[string][]string
}

type schema = map[string]any

const (
	durationPattern = `^([0-9]+d|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	sizePattern     = `^[0-9]+ ?([kKmMgGtT]([iI]?[bB])?|[bB])?$`
)

// of describes the value of a key.
func (m *schemaMaker) of(t reflect.Type, key string) schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	out := schema{}
	if meaning := m.meanings[key]; meaning != "" {
		out["description"] = meaning
	}
	if words, ok := m.choices[key]; ok {
		out["enum"] = words
		delete(m.choices, key)
	}
	switch t {
	case reflect.TypeFor[duration]():
		out["type"], out["pattern"] = "string", durationPattern
		return out
	case reflect.TypeFor[bytesize]():
		out["anyOf"] = []schema{{"type": "integer", "minimum": 0}, {"type": "string", "pattern": sizePattern}}
		return out
	}
	switch t.Kind() {
	case reflect.Struct:
		properties := schema{}
		for f := range t.Fields() {
			name := f.Tag.Get("yaml")
			if name == ",inline" {
				inlined, _ := m.of(f.Type, key)["properties"].(schema)
				maps.Copy(properties, inlined)
				continue
			}
			properties[name] = m.of(f.Type, strings.TrimPrefix(key+"."+name, "."))
		}
		out["type"], out["additionalProperties"], out["properties"] = "object", false, properties
	case reflect.Slice:
		out["type"], out["items"] = "array", m.of(t.Elem(), key+"[]")
	case reflect.Map:
		out["type"], out["additionalProperties"] = "object", m.of(t.Elem(), key+"{}")
	case reflect.Bool:
		out["type"] = "boolean"
	case reflect.Float64:
		out["type"] = "number"
	case reflect.Int64:
		out["type"] = "integer"
	case reflect.String:
		out["type"] = "string"
	default:
		panic("no schema for " + t.String())
	}
	return out
}

var (
	docRow  = regexp.MustCompile("(?m)^\\| `([a-z][A-Za-z_.\\[\\]]*)` \\| (.*?) ?\\| (.*?) ?\\|$")
	docLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// meanings are what the tables say of each key, without their links.
func meanings(doc string) map[string]string {
	out := map[string]string{}
	for _, m := range docRow.FindAllStringSubmatch(doc, -1) {
		text := docLink.ReplaceAllString(m[3], "$1")
		if m[2] != "" && m[2] != "none" {
			text = strings.TrimSpace(text + " Default: " + docLink.ReplaceAllString(m[2], "$1") + ".")
		}
		out[m[1]] = strings.ReplaceAll(strings.ReplaceAll(text, "Default: required.", "Required."), "`", "")
	}
	return out
}

// TestSchemasAreCurrent: what editors are given is what is read. go test
// ./internal/config -run TestSchemasAreCurrent -update writes it.
func TestSchemasAreCurrent(t *testing.T) {
	t.Parallel()
	for name, want := range schemas(t) {
		file := "../../docs/schema/" + name + ".json"
		if *update {
			if err := os.WriteFile(file, want, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not current (%v): run go test ./internal/config -run TestSchemasAreCurrent -update", file, err)
		}
	}
}

// TestSchemasAgreeWithTheReader about what is right, and about what is plainly
// wrong.
func TestSchemasAgreeWithTheReader(t *testing.T) {
	t.Parallel()
	server, repo, _ := splitDoc(t)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	read := map[string]func(string) []Problem{
		"server":     func(s string) []Problem { _, _, p := parseServer([]byte(s), "/"); return p },
		"repository": func(s string) []Problem { _, p := ParseRepo([]byte(s)); return p },
	}
	right := map[string][]string{
		"server": {
			"sandbox: {image: x, memory: 2GiB, disk: 1073741824, host_paths: {/a: /b}}\ngithub: {app_id: 1}\n",
			"transcripts: {keep: 30d}\ngithub: {app_id: 1}\nsandbox: {image: x}\n",
		},
		"repository": {
			"review: false\n", "limits: {iteration_timeout: 1h30m, budget_usd: 2.5}\n", "loop: {maxIterations: 3}\n",
		},
	}
	for name, doc := range map[string]string{"server": server, "repository": repo} {
		for _, m := range block.FindAllStringSubmatch(doc, -1) {
			right[name] = append(right[name], m[1])
		}
	}
	wrong := map[string][]string{
		"server": {
			"listenn: x\n", "github: {app_id: one}\n", "agent: {name: nobody}\n", "sandbox: {memory: lots}\n",
			"log: {level: loud}\n", "gates: [{run: x, when: never}]\n", "limits: {run_timeout: 30}\n",
		},
		"repository": {
			"gatez: []\n", "limits: {max_iterations: 1.5}\n", "limits: {run_timeout: soon}\n", "plan: {ask: maybe}\n",
			"roles: [{name: boss}]\n", "gates: {run: x}\n", "review: perhaps\n",
		},
	}
	for name, raw := range schemas(t) {
		var s openapi3.Schema
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		for _, text := range right[name] {
			if problems := read[name](text); len(problems) > 0 {
				t.Errorf("%s: the reader refuses %v in\n%s", name, problems, text)
			}
			if err := s.VisitJSON(asJSON(t, text)); err != nil {
				t.Errorf("%s: the schema refuses %v in\n%s", name, err, text)
			}
		}
		for _, text := range wrong[name] {
			if len(read[name](text)) == 0 {
				t.Errorf("%s: the reader takes\n%s", name, text)
			}
			if s.VisitJSON(asJSON(t, text)) == nil {
				t.Errorf("%s: the schema takes\n%s", name, text)
			}
		}
	}
}

func asJSON(t *testing.T, text string) any {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
