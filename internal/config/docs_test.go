package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// keys lists the dotted keys of a file's struct; a list is written name[].
func keys(t reflect.Type, prefix string) []string {
	var out []string
	for f := range t.Fields() {
		name := prefix + f.Tag.Get("yaml")
		switch {
		case f.Tag.Get("yaml") == ",inline":
			out = append(out, keys(f.Type, prefix)...)
		case f.Type.Kind() == reflect.Struct:
			out = append(out, keys(f.Type, name+".")...)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			out = append(out, keys(f.Type.Elem(), name+"[].")...)
		default:
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// TestEveryKeyIsDocumented: the tables of docs/configuration.md list each key
// of each file once, and no key that does not exist.
func TestEveryKeyIsDocumented(t *testing.T) {
	t.Parallel()
	server, repo, user := splitDoc(t)
	row := regexp.MustCompile("(?m)^\\| `([a-z][A-Za-z0-9_.\\[\\]]*)` \\|")
	for _, tt := range []struct {
		name, text string
		file       reflect.Type
	}{
		{"server", server, reflect.TypeFor[serverFile]()},
		{"repository", repo, reflect.TypeFor[repoFile]()},
		{"user", user, reflect.TypeFor[userFile]()},
	} {
		var documented []string
		for _, m := range row.FindAllStringSubmatch(tt.text, -1) {
			documented = append(documented, m[1])
		}
		slices.Sort(documented)
		if diff := cmp.Diff(keys(tt.file, ""), documented); diff != "" {
			t.Errorf("%s: keys that exist (-) and keys documented (+)\n%s", tt.name, diff)
		}
	}
	for _, name := range []string{EnvPrivateKey, EnvWebhookSecret, EnvAPIKey, EnvAuthToken, EnvOpenAIKey, EnvGeminiKey} {
		if !strings.Contains(server, "`"+name+"`") || !strings.Contains(server, "`"+name+"_FILE`") {
			t.Errorf("%s is not documented", name)
		}
	}
}

// TestDocumentedExamplesLoad: what people copy from the documentation works.
func TestDocumentedExamplesLoad(t *testing.T) {
	t.Parallel()
	server, repo, user := splitDoc(t)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	examples := block.FindAllStringSubmatch(server, -1)
	if len(examples) == 0 {
		t.Fatal("no example of the server's file")
	}
	for _, m := range examples {
		if _, _, problems := parseServer([]byte(m[1]), "/"); len(problems) > 0 {
			t.Errorf("%v in\n%s", problems, m[1])
		}
	}
	examples = block.FindAllStringSubmatch(repo, -1)
	if len(examples) == 0 {
		t.Fatal("no example of the repository's file")
	}
	for _, m := range examples {
		if _, problems := ParseRepo([]byte(m[1])); len(problems) > 0 {
			t.Errorf("%v in\n%s", problems, m[1])
		}
	}
	examples = block.FindAllStringSubmatch(user, -1)
	if len(examples) == 0 {
		t.Fatal("no example of a person's file")
	}
	for _, m := range examples {
		if _, problems := parseUser([]byte(m[1]), "/"); len(problems) > 0 {
			t.Errorf("%v in\n%s", problems, m[1])
		}
	}
}

func splitDoc(t *testing.T) (server, repo, user string) {
	t.Helper()
	doc, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	server, repo, ok := strings.Cut(string(doc), "## The repository's file")
	if !ok {
		t.Fatal("docs/configuration.md has no section for the repository's file")
	}
	if repo, user, ok = strings.Cut(repo, "## Your own file"); !ok {
		t.Fatal("docs/configuration.md has no section for a person's file")
	}
	return server, repo, user
}
