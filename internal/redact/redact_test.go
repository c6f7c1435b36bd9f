package redact

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			if diff := cmp.Diff(c.want, (*Masker)(nil).Mask(c.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMaskKnown(t *testing.T) {
	t.Parallel()
	m := New("hunter2/p+ss w?rd", "short", "line one of it\nline two of it\n")
	for in, want := range map[string]string{
		"a short one":                    "a short one",
		"<hunter2/p+ss w?rd>":            "<***>",
		"line one of it\nline two of it": "***",
		"> line two of it <":             "> *** <",
	} {
		if diff := cmp.Diff(want, m.Mask(in)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestMaskOfMasks has values that could come together from a mask and what
// stands around it.
func TestMaskOfMasks(t *testing.T) {
	t.Parallel()
	m := New("aa***bb", "secret")
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
	w := New().Writer(&brokenWriter{left: 3})
	if _, err := w.Write([]byte("ab\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("de\n")); !errors.Is(err, errBroken) {
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
	w := New("hunter22").Writer(&out)
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

// FuzzMask: no known value leaves, in any form the Masker promises to know,
// wherever chunks end.
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
		m := New(one, two)
		for _, in := range []string{
			text, text + one + text, one + two, url.QueryEscape(text + two), hex.EncodeToString([]byte(one + text)),
		} {
			for _, got := range []string{m.Mask(in), inChunks(t, m, in, len(in)+1), inChunks(t, m, in, int(chunk)%16+1)} {
				for _, s := range []string{one, two} {
					s = strings.Trim(s, "\r\n")
					if len(s) >= MinSecret && !onlyMask(s) && strings.Contains(got, s) {
						t.Fatalf("%q left in %q", s, got)
					}
				}
			}
		}
	})
}

// onlyMask says whether s is made of nothing but mask characters; hiding it
// behind another mask is all that can be asked for.
func onlyMask(s string) bool { return strings.Trim(s, "*•█▒") == "" }
