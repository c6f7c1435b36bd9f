package ghsimtest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"

	"github.com/org/ralph-action/internal/ghsim"
)

//go:embed testdata/openapi.json.gz
var packedOpenAPI []byte

// descriptions are GitHub's, parsed.
type descriptions struct {
	doc    *openapi3.T
	router routers.Router
	hooks  map[string]*openapi3.Schema // webhook schemas by name: "issues-labeled"
	schema *ast.Schema
}

// load parses the descriptions once for all tests of a process.
var load = sync.OnceValues(func() (*descriptions, error) {
	raw, err := openAPI()
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return nil, fmt.Errorf("OpenAPI description: %w", err)
	}
	// doc.Validate is not called: the prose that it wants is trimmed away.
	doc.Servers = openapi3.Servers{{URL: "/api/v3"}}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return nil, fmt.Errorf("OpenAPI description: %w", err)
	}
	hooks, err := hookSchemas(raw, doc)
	if err != nil {
		return nil, err
	}
	text := ghsim.Schema()
	if path := os.Getenv("RALPH_GRAPHQL_SCHEMA"); path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("RALPH_GRAPHQL_SCHEMA: %w", err)
		}
		text = string(b)
	}
	schema, err := loadSchema(text)
	if err != nil {
		return nil, err
	}
	return &descriptions{doc: doc, router: router, hooks: hooks, schema: schema}, nil
})

// openAPI is what is served of the original description where RALPH_OPENAPI
// names that, else the committed copy. The rest of the original would cost two
// seconds, and twenty under the race detector, in every test binary.
func openAPI() ([]byte, error) {
	if path := os.Getenv("RALPH_OPENAPI"); path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("RALPH_OPENAPI: %w", err)
		}
		return TrimOpenAPI(b)
	}
	return Unpack(packedOpenAPI)
}

// Pack compresses a description; the same input gives the same bytes.
func Pack(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Unpack undoes Pack.
func Unpack(b []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return io.ReadAll(z)
}

// loadSchema parses a GraphQL schema, without the fields that the published
// one defines twice, which no GraphQL tool accepts.
func loadSchema(text string) (*ast.Schema, error) {
	doc, err := parser.ParseSchemas(validator.Prelude, &ast.Source{Name: "schema.graphql", Input: text})
	if err != nil {
		return nil, fmt.Errorf("GraphQL schema: %w", err)
	}
	for _, d := range doc.Definitions {
		seen := map[string]bool{}
		fields := d.Fields[:0]
		for _, f := range d.Fields {
			if !seen[f.Name] {
				fields = append(fields, f)
			}
			seen[f.Name] = true
		}
		d.Fields = fields
	}
	schema, err := validator.ValidateSchemaDocument(doc)
	if err != nil {
		return nil, fmt.Errorf("GraphQL schema: %w", err)
	}
	return schema, nil
}

// hookSchemas finds the schema of each webhook's payload. They stand in an
// extension that kin-openapi does not read.
func hookSchemas(raw []byte, doc *openapi3.T) (map[string]*openapi3.Schema, error) {
	var hooks struct {
		Webhooks map[string]struct {
			Post struct {
				RequestBody struct {
					Content map[string]struct {
						Schema struct {
							Ref string `json:"$ref"`
						} `json:"schema"`
					} `json:"content"`
				} `json:"requestBody"`
			} `json:"post"`
		} `json:"x-webhooks"`
	}
	if err := json.Unmarshal(raw, &hooks); err != nil {
		return nil, fmt.Errorf("webhook descriptions: %w", err)
	}
	out := map[string]*openapi3.Schema{}
	for name, h := range hooks.Webhooks {
		ref := h.Post.RequestBody.Content["application/json"].Schema.Ref
		schema := doc.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
		if schema == nil || schema.Value == nil {
			return nil, fmt.Errorf("webhook %s: no schema %q", name, ref)
		}
		out[name] = schema.Value
	}
	return out, nil
}

// Validator fails its test for every request, answer or webhook that GitHub's
// own descriptions do not allow.
type Validator struct {
	d *descriptions
	t testing.TB

	mu      sync.Mutex
	ended   bool
	lenient bool
	seen    map[string]int
}

// New makes a validator that reports to t until t ends.
func New(t testing.TB) *Validator {
	t.Helper()
	d, err := load()
	if err != nil {
		t.Fatalf("load GitHub's API descriptions: %v", err)
	}
	v := &Validator{d: d, t: t, seen: map[string]int{}}
	t.Cleanup(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.ended = true
	})
	return v
}

// AllowRefused takes requests that break the descriptions from now on, as long
// as they are refused: with a 4xx, or with GraphQL errors. It is for tests of
// the refusals themselves.
func (v *Validator) AllowRefused() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lenient = true
}

func (v *Validator) allowsRefused() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lenient
}

// Seen counts the validated operations: "GET /repos/{owner}/{repo}", "graphql".
func (v *Validator) Seen() map[string]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.seen)
}

func (v *Validator) report(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.ended {
		v.t.Errorf(format, args...)
	}
}

func (v *Validator) count(operation string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen[operation]++
}

// Wrap puts the validator around a handler that serves /api/v3 and
// /api/graphql; everything else passes.
func (v *Validator) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/v3/"):
			v.rest(w, r, next)
		case r.URL.Path == "/api/graphql":
			v.graphql(w, r, next)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// slashes are the paths whose last parameter may hold unescaped slashes, which
// OpenAPI cannot say.
var slashes = regexp.MustCompile(`^(/api/v3/repos/[^/]+/[^/]+/(?:git/refs?|rules/branches|git/matching-refs|git/trees|contents|branches|commits|compare)/)(.+?)(/check-runs)?$`)

// routable escapes such slashes.
func routable(path string) string {
	m := slashes.FindStringSubmatch(path)
	if m == nil {
		return path
	}
	return m[1] + strings.ReplaceAll(m[2], "/", "%2F") + m[3]
}

func (v *Validator) rest(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest) // the caller went away before it had said what it wants
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))

	// ghinstallation says "no wishes" with the literal null, which GitHub takes
	// and its description does not.
	checked := body
	if bytes.Equal(bytes.TrimSpace(body), []byte("null")) {
		checked = []byte("{}")
	}
	probe := r.Clone(context.WithoutCancel(r.Context()))
	probe.Body = io.NopCloser(bytes.NewReader(checked))
	probe.ContentLength = int64(len(checked))
	escaped := routable(r.URL.EscapedPath())
	if probe.URL.Path, err = url.PathUnescape(escaped); err == nil {
		probe.URL.RawPath = escaped
	}
	probe.URL.Host, probe.URL.Scheme = "", ""
	route, params, err := v.d.router.FindRoute(probe)
	if err != nil {
		v.report("%s %s: not an operation of GitHub's that is served: %v", r.Method, r.URL.EscapedPath(), err)
		next.ServeHTTP(w, r)
		return
	}
	v.count(r.Method + " " + route.Path)
	for name, value := range params {
		if plain, err := url.PathUnescape(value); err == nil {
			params[name] = plain
		}
	}
	in := &openapi3filter.RequestValidationInput{
		Request: probe, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, MultiError: true},
	}
	wrong := openapi3filter.ValidateRequest(probe.Context(), in)

	rec := httptest.NewRecorder()
	next.ServeHTTP(rec, r) // a dropped connection panics through here
	result := rec.Result()
	defer func() { _ = result.Body.Close() }()
	if wrong != nil && (!v.allowsRefused() || rec.Code < 400 || rec.Code > 499) {
		v.report("%s %s: request: %s\n%.2000s", r.Method, r.URL.EscapedPath(), short(wrong), body)
	}
	if r.Context().Err() == nil { // else the client has gone, and nobody gets the answer
		v.answer(in, rec)
	}
	copyAnswer(w, rec)
}

// answer validates what was answered. Statuses that the description does not
// list for the operation are not looked at.
func (v *Validator) answer(in *openapi3filter.RequestValidationInput, rec *httptest.ResponseRecorder) {
	if rec.Code == http.StatusNotModified {
		return
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: rec.Code, Header: rec.Header(),
		Body: io.NopCloser(bytes.NewReader(rec.Body.Bytes())), Options: &openapi3filter.Options{MultiError: true},
	}
	err := openapi3filter.ValidateResponse(in.Request.Context(), out)
	// Some 422 answers are described as exactly one of two schemas, where the
	// second takes whatever the first takes. That cannot be kept by anybody.
	if err == nil || rec.Code == http.StatusUnprocessableEntity && ambiguous(err) {
		return
	}
	v.report("%s %s: answer %d: %s\n%.4000s", in.Request.Method, in.Route.Path, rec.Code, short(err), rec.Body)
}

// ambiguous says whether an error is only that more than one schema matches.
func ambiguous(err error) bool {
	one := new(openapi3.SchemaError)
	return errors.As(err, &one) && errors.Is(one, openapi3.ErrOneOfConflict)
}

// short keeps the reasons of a validation error and drops its dump of schema
// and value.
func short(err error) string {
	var reasons []string
	var walk func(error)
	walk = func(err error) {
		if many := (openapi3.MultiError)(nil); errors.As(err, &many) && len(many) > 0 {
			for _, e := range many {
				walk(e)
			}
			return
		}
		if one := new(openapi3.SchemaError); errors.As(err, &one) {
			reasons = append(reasons, "/"+strings.Join(one.JSONPointer(), "/")+": "+one.Reason)
			if one.Origin != nil {
				walk(one.Origin)
			}
			return
		}
		reasons = append(reasons, err.Error())
	}
	walk(err)
	return strings.Join(reasons, "\n")
}

func copyAnswer(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), rec.Header())
	w.WriteHeader(rec.Code)
	if rec.Code != http.StatusNoContent && rec.Code != http.StatusNotModified {
		_, _ = w.Write(rec.Body.Bytes()) // the caller went away: nothing to tell it
	}
}

func (v *Validator) graphql(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest) // the caller went away before it had said what it wants
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	v.count("graphql")
	rec := httptest.NewRecorder()
	next.ServeHTTP(rec, r) // a dropped connection panics through here
	refused := rec.Code >= 400 || bytes.Contains(rec.Body.Bytes(), []byte(`"errors":`))
	if err := v.operation(body); err != nil && (!v.allowsRefused() || !refused) {
		v.report("graphql: %v\n%.2000s", err, body)
	}
	copyAnswer(w, rec)
}

// operation validates a GraphQL request, variables included.
func (v *Validator) operation(body []byte) error {
	var req struct {
		Query         string         `json:"query"`
		OperationName string         `json:"operationName"`
		Variables     map[string]any `json:"variables"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	doc, errs := gqlparser.LoadQuery(v.d.schema, req.Query) //nolint:staticcheck // the default rules are the ones we want
	if len(errs) > 0 {
		return fmt.Errorf("query: %w", errs)
	}
	op := doc.Operations.ForName(req.OperationName)
	if op == nil {
		return errors.New("query: no such operation")
	}
	if _, err := validator.VariableValues(v.d.schema, op, req.Variables); err != nil {
		return fmt.Errorf("variables: %w", err)
	}
	return nil
}

// Webhook validates the payload of a delivery.
func (v *Validator) Webhook(d ghsim.Delivery) {
	name := d.Event
	if d.Action != "" {
		name += "-" + d.Action
	}
	schema := v.d.hooks[strings.ReplaceAll(name, "_", "-")]
	if schema == nil {
		v.report("webhook %s: GitHub has no such event", name)
		return
	}
	var payload any
	if err := json.Unmarshal(d.Payload, &payload); err != nil {
		v.report("webhook %s: %v", name, err)
		return
	}
	if err := schema.VisitJSON(payload, openapi3.MultiErrors()); err != nil {
		v.report("webhook %s: %s\n%.4000s", name, short(err), d.Payload)
	}
}

// Start serves a new GitHub for one test, with every call and webhook
// validated, and closes it when the test ends. Options.Wrap goes around the
// validation.
func Start(t testing.TB, o ghsim.Options) (*ghsim.Sim, *Validator) {
	t.Helper()
	v := New(t)
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if around := o.Wrap; around != nil {
		o.Wrap = func(next http.Handler) http.Handler { return around(v.Wrap(next)) }
	} else {
		o.Wrap = v.Wrap
	}
	sim, err := ghsim.New(o)
	if err != nil {
		t.Fatalf("ghsim: %v", err)
	}
	if _, err := sim.Start("127.0.0.1:0"); err != nil {
		t.Fatalf("ghsim: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := sim.Close(ctx); err != nil {
			t.Errorf("close ghsim: %v", err)
		}
		for _, d := range sim.AllDeliveries() {
			v.Webhook(d)
		}
	})
	return sim, v
}

// Key is an App's private key, made once for all tests of a process: making
// one takes a good part of a second.
var Key = sync.OnceValue(func() []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(fmt.Sprintf("make a key: %v", err)) // the system has no randomness
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
})
