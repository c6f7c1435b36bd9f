package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// canary is a secret with everything in it that some encoding escapes.
const canary = `cAn"a/ry+4&7\<ünknown>=9`

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// find is what m and a search of its own find.
func find(t *testing.T, m *Masker, text []byte) []Secret {
	t.Helper()
	found, _ := m.Search(t.Context(), new(Search), text)
	return found
}

// inChunks masks the text as a stream whose chunks end at every n-th byte.
func inChunks(t *testing.T, m *Masker, text string, n int) string {
	t.Helper()
	var out bytes.Buffer
	w := m.Writer(&out)
	for rest := text; rest != ""; {
		k := min(n, len(rest))
		if _, err := w.Write([]byte(rest[:k])); err != nil {
			t.Fatal(err)
		}
		rest = rest[k:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Attack E5: an agent writes a secret that the host knows in some form. Each
// form that the masker promises to know is gone, whatever stands around it and
// however the stream is cut, and nothing of the secret's inside is left.
func TestE5KnownSecretInEveryForm(t *testing.T) {
	t.Parallel()
	m := New(canary)
	forms := map[string]string{
		"plain":             canary,
		"query":             url.QueryEscape(canary),
		"path":              url.PathEscape(canary),
		"component":         componentEscape(canary),
		"query, lower case": lowerEscapes(url.QueryEscape(canary)),
		"hex":               hex.EncodeToString([]byte(canary)),
		"hex, upper case":   strings.ToUpper(hex.EncodeToString([]byte(canary))),
		"JSON":              jsonOf(t, map[string]string{"k": canary}),
		"JSON in JSON":      jsonOf(t, map[string]string{"k": jsonOf(t, map[string]string{"k": canary})}),
		"JSON, slashes":     strings.ReplaceAll(jsonOf(t, canary), "/", `\/`),
	}
	for shift := range 3 {
		text := []byte("abc"[:shift] + canary + "tail")
		name := string(rune('0' + shift))
		forms["base64 at alignment "+name] = base64.StdEncoding.EncodeToString(text)
		forms["base64 for addresses at alignment "+name] = base64.URLEncoding.EncodeToString(text)
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "before " + form + " after"
			whole := m.Mask(text)
			if !strings.Contains(whole, "***") || !strings.HasPrefix(whole, "before ") || !strings.HasSuffix(whole, " after") {
				t.Errorf("masked to %q", whole)
			}
			for from := 0; from+12 <= len(form); from++ {
				inside := form[from : from+12]
				// The ends of what goes around the secret may stay.
				if from >= 8 && from+12 <= len(form)-8 && strings.Contains(whole, inside) {
					t.Fatalf("%q is left in %q", inside, whole)
				}
			}
			for n := 1; n <= len(text); n++ {
				if got := inChunks(t, m, text, n); got != whole {
					t.Fatalf("in chunks of %d: %q, whole: %q", n, got, whole)
				}
			}
			if found := find(t, m, []byte("x\n"+text)); len(found) != 1 || found[0].Line != 2 || !found[0].Critical {
				t.Errorf("found in work to be published: %+v", found)
			}
		})
	}
}

// Attack E5, of a key: most of it gives it away as well, and so does all of it
// in parts, with whatever a language needs between them.
func TestE5KeyInParts(t *testing.T) {
	t.Parallel()
	const key = "sk-own-K7w2Qx9LmT4vB8nR3pZ6cY1dF5gH0jS"
	m := New(key, "https://hooks.example/services/not-random", "correct horse battery staple")
	for name, form := range map[string]string{
		"without its beginning": key[7:],
		"without its end":       key[:len(key)-8],
		"its middle":            key[10:28],
	} {
		if got := m.Mask("before " + form + " after"); strings.Contains(got, form[3:15]) ||
			!strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s: masked to %q", name, got)
		}
		if got := inChunks(t, m, "before "+form+" after", 3); strings.Contains(got, form[3:15]) {
			t.Errorf("%s, in chunks: masked to %q", name, got)
		}
		if found := find(t, m, []byte("x\n"+form)); len(found) != 1 || found[0].Line != 2 || found[0].Rule != Known {
			t.Errorf("%s: found %+v", name, found)
		}
	}
	for name, form := range map[string]string{
		"over lines":        apart(key, "\n", 9),
		"over quoted lines": apart(key, "\" +\n\t\"", 12),
		"in a list":         apart(key, "', '", 1),
		"with spaces":       apart(key, " ", 5),
	} {
		if got := m.Mask("before: " + form + " <after>"); strings.Contains(got, form[:12]) ||
			strings.Contains(got, form[len(form)-12:]) || !strings.HasPrefix(got, "before: ") ||
			!strings.HasSuffix(got, " <after>") {
			t.Errorf("%s: masked to %q", name, got)
		}
		if found := find(t, m, []byte("x\n= "+form)); len(found) != 1 || found[0].Line != 2 || found[0].Rule != Known ||
			!found[0].Critical {
			t.Errorf("%s: found %+v", name, found)
		}
	}
	for _, harmless := range []string{
		"https://hooks.example/services/other", "a correct horse, and a battery", "sk-own-key", key[:7], key[20:30],
	} {
		if got := m.Mask(harmless); got != harmless {
			t.Errorf("%q is masked to %q", harmless, got)
		}
		if found := find(t, m, []byte(harmless)); len(found) != 0 {
			t.Errorf("%q holds %+v", harmless, found)
		}
	}
}

// apart is a key with something between its parts.
func apart(key, between string, size int) string {
	var parts []string
	for part := range slices.Chunk([]byte(key), size) {
		parts = append(parts, string(part))
	}
	return strings.Join(parts, between)
}

// Attack E5, of keys in parts: what is padded, and another key or another place of the same
// one behind many, is found as well.
func TestE5KeyInPartsBehindMuch(t *testing.T) {
	t.Parallel()
	const one, two = "sk-own-K7w2Qx9LmT4vB8nR3pZ6cY1dF5gH0jS", "N4bV7cX1zL0kJ9hG6fD3sA8pO2iU5yT"
	m := New(one, two)
	many := strings.Repeat(apart(one, ".", 5)+"\n", 150) + apart(two, ".", 5) + "\n"
	whole := strings.Repeat(one+"\n", 150) + two + "\n"
	for name, tt := range map[string]struct {
		text  string
		found int
	}{
		"many":          {many, 101},
		"many, whole":   {whole, 101},
		"behind 1 MiB":  {strings.Repeat("= ", 1<<19) + apart(one, "\n", 5) + "\n" + apart(two, "\n", 9), 2},
		"over 1 MiB":    {apart(one, strings.Repeat(" ", 1<<15), 1) + "\n" + apart(two, strings.Repeat(" ", 1<<15), 1), 2},
		"at a seam":     {strings.Repeat("=", maxPiece-20) + apart(one, "+", 3), 1},
		"before a seam": {strings.Repeat("=", maxPiece-len(two)-1) + apart(two, "+", 30) + strings.Repeat("=", maxPiece), 1},
		"after words":   {strings.Repeat("word ", 1<<18) + apart(one, "'+'", 4), 1},
	} {
		masked := bare(m.Mask(tt.text))
		if bytes.Contains(masked, bare(one)) || bytes.Contains(masked, bare(two)) {
			t.Errorf("%s: %d bytes of %d are left, with a key", name, len(masked), len(tt.text))
		}
		found := m.FindKnown(t.Context(), []byte(tt.text))
		if len(found) != tt.found {
			t.Errorf("%s: %d were found, want %d", name, len(found), tt.found)
		}
	}
}

// Attack E6: tokens that the host never saw, by their looks, through every
// border of a chunk. None of their random part is left.
func TestE6TokensByTheirLooks(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func(n int, set string) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = set[rnd.IntN(len(set))]
		}
		return string(b)
	}
	const alnum = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	jwt := "eyJ" + random(60, alnum+"-_") + "." + random(250, alnum+"-_") + "." + random(180, alnum+"-_")
	tokens := map[string]string{
		"installation, with a JWT": "ghs_1234567_" + jwt,
		"installation, old":        "ghs_" + random(36, alnum),
		"personal":                 "ghp_" + random(36, alnum),
		"oauth":                    "gho_" + random(36, alnum),
		"user":                     "ghu_" + random(36, alnum),
		"refresh":                  "ghr_" + random(76, alnum),
		"fine-grained":             "github_pat_" + random(22, alnum) + "_" + random(59, alnum),
		"anthropic":                "sk-ant-api03-" + random(93, alnum+"-_") + "AA",
		"anthropic, subscription":  "sk-ant-oat01-" + random(93, alnum+"-_"),
		"openai":                   "sk-proj-" + random(120, alnum+"-_"),
		"aws":                      "AKIA" + random(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
		"aws, temporary":           "ASIA" + random(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
		"google":                   "AIza" + random(35, alnum+"-_"),
		"clone address":            "x-access-token:" + random(40, alnum) + "@",
		"PEM": "-----BEGIN PRIVATE KEY-----\n" + random(64, alnum+"+/") + "\n" + random(64, alnum+"+/") +
			"\n-----END PRIVATE KEY-----",
	}
	for name, token := range tokens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, around := range [][2]string{{"token: ", "\nnext"}, {`{"t":"`, `"}`}, {"https://", " x"}, {"", ""}} {
				text := around[0] + token + around[1]
				whole := (*Masker)(nil).Mask(text)
				keep := around[1]
				if strings.HasSuffix(token, "@") {
					keep = "@" + keep
				}
				if whole != around[0]+"***"+keep {
					t.Fatalf("masked to %q", whole)
				}
				for _, n := range []int{1, 2, 3, 5, 7, 11, 64, 100, 511} {
					if got := inChunks(t, nil, text, n); got != whole {
						t.Fatalf("in chunks of %d: %q", n, got)
					}
				}
			}
		})
	}
}

// A secret at the seam of a line that is too long to be kept back is masked, however the
// stream is cut.
func TestSecretsAtASeam(t *testing.T) {
	t.Parallel()
	token := "ghs_" + strings.Repeat("aB3x", 9)
	m := New(canary)
	for _, secret := range []string{canary, token} {
		// By the length of the chunks, what is held when it becomes too much.
		for chunk, seam := range map[int]int{1000: (maxHeld/1000 + 1) * 1000, maxHeld: 2 * maxHeld, 4 * maxHeld: 2 * maxHeld} {
			for before := range len(secret) + 1 {
				text := strings.Repeat("-", seam-before-1) + " " + secret + " " + strings.Repeat("-", 2*maxHeld)
				if got := inChunks(t, m, text, chunk); strings.Contains(got, secret[8:16]) || !strings.Contains(got, " *** ") {
					t.Fatalf("%d bytes before the seam, in chunks of %d: it is left", before, chunk)
				}
			}
		}
	}
}

// TestHeldIsBounded: what a stream keeps back does not grow with the stream,
// whatever it looks like.
func TestHeldIsBounded(t *testing.T) {
	t.Parallel()
	m := New(canary, strings.Repeat("ab", 500))
	for _, unit := range []string{
		"x", "ghs_", "ghs_" + strings.Repeat("a", 50), "-----BEGIN PRIVATE KEY-----", "ab", canary[:8], "x-access-token:",
	} {
		var out bytes.Buffer
		w := m.Writer(&out)
		chunk := []byte(strings.Repeat(unit, 4096/len(unit)))
		for range 256 {
			if _, err := w.Write(chunk); err != nil {
				t.Fatal(err)
			}
			if len(w.held) > maxHeld+len(chunk) {
				t.Fatalf("%d bytes are kept back of %q…", len(w.held), unit)
			}
			out.Reset()
		}
	}
}
