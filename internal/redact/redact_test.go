package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/redact"
)

// Values that only look like secrets; none was ever one.
var (
	oldToken = "ghs_" + strings.Repeat("aB3x", 9)
	newToken = "ghs_123456_" + strings.Repeat("eyJhbGciOiJSUzI1NiJ9-_", 11) + "." + strings.Repeat("cGF5bG9hZA", 14) +
		"." + strings.Repeat("c2ln_-", 20)
	pemBlock = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n" +
		strings.Repeat("MIIEpAIBAAKCAQEA0/+=\n", 20) + "-----END RSA PRIVATE KEY-----"
)

func TestMaskPatterns(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, in, want string }{
		{
			"plain text", "nothing to see: ghs_short, sk-ant-x, AKIA, -----BEGIN",
			"nothing to see: ghs_short, sk-ant-x, AKIA, -----BEGIN",
		},
		{"installation token, old form", "token " + oldToken + " end", "token *** end"},
		{"installation token, new form with dots", `{"t":"` + newToken + `"}`, `{"t":"***"}`},
		{"personal token", "ghp_" + strings.Repeat("a", 36) + "!", "***!"},
		{
			"oauth, user, refresh",
			"gho_" + strings.Repeat("a", 36) + " ghu_" + strings.Repeat("b", 36) + " ghr_" + strings.Repeat("c", 40),
			"*** *** ***",
		},
		{"fine-grained token", "github_pat_11ABCDEFG0" + strings.Repeat("x", 40), "***"},
		{"anthropic key", "key=sk-ant-api03-" + strings.Repeat("Ab_-", 20), "key=***"},
		{"aws key", "AKIAIOSFODNN7EXAMPLE.", "***."},
		{"clone address", "https://x-access-token:abc%2Fdef@github.com/o/r", "https://***@github.com/o/r"},
		{"private key", "a\n" + pemBlock + "\nb", "a\n***\nb"},
		{"private key in JSON", `{"k":"` + strings.ReplaceAll(pemBlock, "\n", `\n`) + `"}`, `{"k":"***"}`},
		{"private key cut off", "a -----BEGIN PRIVATE KEY-----\nMIIEabc\n", "a ***"},
		{
			"certificate stays", "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
			"-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
		},
		{"text after a private key stays", pemBlock + " and then", "*** and then"},
		{"two side by side share a mask", oldToken + oldToken, "***"},
		{"one that begins inside another", "ghp_" + strings.Repeat("a", 36) + "x-access-token:s3cret@h", "***@h"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, (*redact.Masker)(nil).Mask(c.in)); diff != "" {
				t.Errorf("nil Masker: %s", diff)
			}
			if diff := cmp.Diff(c.want, redact.New().Mask(c.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMaskKnown(t *testing.T) {
	t.Parallel()
	const secret = "hunter2/p+ss w?rd"
	m := redact.New(secret, "short", "line one of it\nline two of it\n")
	b64 := base64.StdEncoding.EncodeToString
	cases := []struct{ name, in, want string }{
		{"plain", "<" + secret + ">", "<***>"},
		{"query", "<" + url.QueryEscape(secret) + ">", "<***>"},
		{"path", "<" + url.PathEscape(secret) + ">", "<***>"},
		{"hex", "<" + hex.EncodeToString([]byte(secret)) + ">", "<***>"},
		{"upper hex", "<" + strings.ToUpper(hex.EncodeToString([]byte(secret))) + ">", "<***>"},
		{"short values are left", "a short one", "a short one"},
		{"whole of several lines", "line one of it\nline two of it", "***"},
		{"one of several lines", "> line two of it <", "> *** <"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, m.Mask(c.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for shift := range 3 {
		in := b64([]byte(strings.Repeat("u", shift) + secret + "tail"))
		got := m.Mask(in)
		if !strings.Contains(got, "***") || len(got) > len(in)/2 {
			t.Errorf("base64 at alignment %d stays: %s", shift, got)
		}
	}
}

// TestMaskOfMasks has values that could come together from a mask and what
// stands around it.
func TestMaskOfMasks(t *testing.T) {
	t.Parallel()
	m := redact.New("aa***bb", "secret")
	if got := m.Mask("aasecretbb"); strings.Contains(got, "aa***bb") {
		t.Errorf("masking made a known value: %q", got)
	}
}

// brokenWriter fails after some bytes.
type brokenWriter struct{ left int }

var errBroken = errors.New("broken")

func (w *brokenWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return 0, errBroken
	}
	w.left -= len(p)
	return len(p), nil
}

func TestWriterPassesErrorsOn(t *testing.T) {
	t.Parallel()
	w := redact.New().Writer(&brokenWriter{left: 3})
	if _, err := w.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("def")); !errors.Is(err, errBroken) {
		t.Errorf("write = %v, want broken", err)
	}
	if err := w.Close(); !errors.Is(err, errBroken) {
		t.Errorf("close = %v, want broken", err)
	}
}

// TestWriterKeepsUp: text that cannot become a secret is passed on at once.
func TestWriterKeepsUp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := redact.New("hunter22").Writer(&out)
	if _, err := w.Write([]byte("step 1 done\nhunt")); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "step 1 done\n"; got != want {
		t.Errorf("passed on %q, want %q", got, want)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "step 1 done\nhunt"; got != want {
		t.Errorf("after close %q, want %q", got, want)
	}
}

// TestLongRunsAreCheap would take hours if the work grew with the square of
// the text.
func TestLongRunsAreCheap(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{
		"ghs_", "-----BEGIN RSA PRIVATE KEY-----", "x-access-token:", "-----END ", "hunter2hunter",
	} {
		in := strings.Repeat(unit, (256<<10)/len(unit))
		var out bytes.Buffer
		w := redact.New("hunter2hunter3").Writer(&out)
		for len(in) > 0 {
			n := min(len(in), 512)
			if _, err := w.Write([]byte(in[:n])); err != nil {
				t.Fatal(err)
			}
			in = in[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzMask: no known value leaves, in any form the Masker promises to know,
// and chunks make no difference.
func FuzzMask(f *testing.F) {
	f.Add("hunter2", "second", "say hunter2 now", uint8(3))
	f.Add("aa***bb", "secret", "aasecretbb", uint8(1))
	f.Add("abcabcabd", "cabdab", "abcabcabcabdabd", uint8(2))
	f.Add("MIIEpAIBAAK", "-----END", pemBlock+"x", uint8(7))
	f.Add(oldToken, "aB3xaB3xzz", "a"+oldToken+"zz "+newToken, uint8(5))
	f.Add("•••***", "███▒▒▒", "•••***███▒▒▒", uint8(1))
	f.Fuzz(func(t *testing.T, one, two, text string, chunk uint8) {
		if len(text) > 1<<14 || len(one) > 1<<10 || len(two) > 1<<10 {
			return
		}
		m := redact.New(one, two)
		for _, in := range []string{
			text, text + one + text, one + two, url.QueryEscape(text + two), hex.EncodeToString([]byte(one + text)),
		} {
			got := m.Mask(in)
			for _, s := range []string{one, two} {
				s = strings.Trim(s, "\r\n")
				if len(s) < redact.MinSecret || onlyMask(s) {
					continue
				}
				if strings.Contains(got, s) {
					t.Fatalf("%q left in %q", s, got)
				}
			}
			got = written(t, m, in, len(in)+1)
			step := int(chunk)%16 + 1
			if again := written(t, m, in, step); again != got {
				t.Fatalf("in chunks of %d: %q, whole: %q", step, again, got)
			}
		}
	})
}

// written is what m leaves of a text that is written in steps.
func written(t *testing.T, m *redact.Masker, text string, step int) string {
	t.Helper()
	var out bytes.Buffer
	w := m.Writer(&out)
	for rest := text; rest != ""; {
		n := min(step, len(rest))
		if _, err := w.Write([]byte(rest[:n])); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// onlyMask says whether s is made of nothing but mask characters; hiding it
// behind another mask is all that can be asked for.
func onlyMask(s string) bool { return strings.Trim(s, "*•█▒") == "" }
