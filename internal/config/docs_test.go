package config

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// keyNames lists the keys of a file; those of a list's entries are written name[].key.
func keyNames(t reflect.Type, prefix string) []string {
	var out []string
	for key, f := range keysOf(t) {
		if of := t.FieldByIndex(f.index).Type; of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct {
			out = append(out, keyNames(of.Elem(), prefix+key+"[].")...)
		} else {
			out = append(out, prefix+key)
		}
	}
	return out
}

// TestConfigurationIsDocumented: the tables of docs/configuration.md list each key of each
// file once and no other, and the examples load.
func TestConfigurationIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	server, rest, _ := strings.Cut(string(doc), "## The repository's file")
	repo, user, _ := strings.Cut(rest, "## Your own file")
	row := regexp.MustCompile("(?m)^\\| `([a-z][A-Za-z0-9_.\\[\\]]*)` \\|")
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	for _, tt := range []struct {
		name, text string
		file       any
		check      func(*document)
	}{
		{"server", server, new(DefaultServer()), func(*document) {}},
		{"repository", repo, &Repo{}, func(*document) {}},
		{"user", user, &User{}, func(*document) {}},
	} {
		var documented []string
		for _, m := range row.FindAllStringSubmatch(tt.text, -1) {
			documented = append(documented, m[1])
		}
		slices.Sort(documented)
		if diff := cmp.Diff(slices.Sorted(slices.Values(keyNames(reflect.TypeOf(tt.file).Elem(), ""))), documented); diff != "" {
			t.Errorf("%s: keys that exist (-) and keys documented (+)\n%s", tt.name, diff)
		}
		examples := block.FindAllStringSubmatch(tt.text, -1)
		if len(examples) == 0 {
			t.Errorf("no example of the file of the %s", tt.name)
		}
		for _, m := range examples {
			if problems := decode([]byte(m[1]), "/", tt.file, tt.check); len(problems) > 0 {
				t.Errorf("%v in\n%s", problems, m[1])
			}
		}
	}
	for _, name := range []string{EnvPrivateKey, EnvWebhookSecret, EnvAPIKey, EnvAuthToken, EnvOpenAIKey, EnvGeminiKey} {
		if !strings.Contains(server, "`"+name+"`") || !strings.Contains(server, "`"+name+"_FILE`") {
			t.Errorf("%s is not documented", name)
		}
	}
}

// TestTagsAreRules: what a tag asks for exists.
func TestTagsAreRules(t *testing.T) {
	t.Parallel()
	for _, file := range []any{Server{}, Repo{}, User{}, Gate{}, Role{}, Price{}, NotifyTarget{}} {
		for key, f := range keysOf(reflect.TypeOf(file)) {
			known := slices.Collect(maps.Keys(rules))
			known = append(known, "", "file", "url", "host", bytesRule)
			if !strings.ContainsAny(f.rule, "|.") && !slices.Contains(known, f.rule) {
				t.Errorf("%s: there is no rule %q", key, f.rule)
			}
		}
	}
}

// TestAnEmptyTextSaysNothing: a key that may be left out, and is given an empty text, is left out.
func TestAnEmptyTextSaysNothing(t *testing.T) {
	t.Parallel()
	found := 0
	var walk func(file reflect.Type)
	walk = func(file reflect.Type) {
		for key, f := range keysOf(file) {
			of := file.FieldByIndex(f.index).Type
			if of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct {
				walk(of.Elem())
			}
			if of.Kind() != reflect.Pointer {
				continue
			}
			found++
			source := "''"
			for _, name := range slices.Backward(strings.Split(key, ".")) {
				source = "{" + name + ": " + source + "}"
			}
			v := reflect.New(file)
			if problems := decode([]byte(source), "", v.Interface(), func(*document) {}); len(problems) > 0 {
				t.Errorf("%s: %v", key, problems)
			}
			if got := v.Elem().FieldByIndex(f.index); !got.IsNil() {
				t.Errorf("%s: %v", key, got.Elem())
			}
		}
	}
	for _, file := range []any{Server{}, Repo{}, User{}} {
		walk(reflect.TypeOf(file))
	}
	if found < 9 {
		t.Errorf("only %d keys of that kind", found)
	}
}
