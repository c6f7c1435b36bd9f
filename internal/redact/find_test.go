package redact

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// noise is text of n characters that looks drawn by lot; none was ever a key.
func noise(n int) string {
	const set = "aB3xK9mQ7pZ2wT5vR8nL4cJ6hF1gD0sY"
	return strings.Repeat(set, n/len(set)+1)[:n]
}

func TestFind(t *testing.T) {
	t.Parallel()
	upper := strings.ToUpper(strings.NewReplacer("0", "B", "1", "C", "8", "D", "9", "E").Replace(noise(16)))
	tests := []struct{ name, text, want string }{
		{"nothing", "package main\n", ""},
		{
			"installation token, new form", "t = ghs_123456_" + noise(200) + "." + noise(200) + "." + noise(80), "github_token!",
		},
		{"installation token, old form", "t = ghs_" + noise(36), "github_token!"},
		{"fine-grained token", "github_pat_" + noise(40), "github_token!"},
		{"aws", "id = AKIA" + upper, "aws_access_key!"},
		{"aws, of the documentation", "id = AKIAIOSFODNN7EXAMPLE", ""},
		{"private key", "-----BEGIN RSA PRIVATE KEY-----\n" + noise(64) + "\n-----END RSA PRIVATE KEY-----", "private_key!"},
		{"private key in JSON", `{"private_key":"-----BEGIN PRIVATE KEY-----\n` + noise(64) + `\n"}`, "private_key!"},
		{"private key without a body", "-----BEGIN RSA PRIVATE KEY-----\n...\n", ""},
		{"certificate", "-----BEGIN CERTIFICATE-----\n" + noise(64) + "\n", ""},
		{"anthropic", "sk-ant-api03-" + noise(40), "anthropic_key!"},
		{"openai", "sk-proj-" + noise(40), "openai_key!"},
		{"slack", "xoxb-" + noise(24), "slack_token!"},
		{"stripe", "sk_live_" + noise(24), "stripe_key!"},
		{"stripe, for tests", "sk_test_" + noise(24), ""},
		{"google", "AIza" + noise(35), "google_api_key!"},
		{"npm", "npm_" + noise(36), "npm_token!"},
		{"web token", "eyJ" + noise(20) + ".eyJ" + noise(30) + "." + noise(43), "json_web_token"},
		{"password in an address", "postgres://app:" + noise(16) + "@db/x", "password_in_url"},
		{"simple password in an address", "postgres://app:password@db/x", ""},
		{"assigned", `apiKey := "` + noise(32) + `"`, "assigned_secret"},
		{"assigned from the environment", `apiKey := os.Getenv("API_KEY_OF_THE_SERVICE_1")`, ""},
		{"place holder", `password = "your-password-goes-here-1"`, ""},
		{"template", `token: "${{ secrets.DEPLOY_TOKEN_1234 }}"`, ""},
		{"words", `secret = "thisissimplysometext"`, ""},
		{"a token within a word", "x" + "npm_" + noise(36) + " 7npm_" + noise(36) + " x_npm_" + noise(36), ""},
		{"a token behind a sign", "=npm_" + noise(36), "npm_token!"},
		{"a token that is one character", "ghp_" + strings.Repeat("a", 36), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, s := range find(t, nil, []byte("first line\n"+tt.text+"\nlast line\n")) {
				if s.Line != 2 || !strings.Contains(tt.text, strings.TrimSuffix(s.Value, "\n")) {
					t.Errorf("found on line %d, want 2", s.Line)
				}
				rule := s.Rule
				if s.Critical {
					rule += "!"
				}
				got = append(got, rule)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzFind: whatever the text, each finding is in it, on the line it names.
func FuzzFind(f *testing.F) {
	f.Add("a\nghs_" + noise(40) + "\n")
	f.Add(`password: "` + noise(20) + `"`)
	f.Add("-----BEGIN PRIVATE KEY-----\n" + noise(80))
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		for _, s := range find(t, nil, []byte(text)) {
			first, _, _ := strings.Cut(s.Value, "\n")
			if s.Line < 1 || s.Line > len(lines) || !strings.Contains(lines[s.Line-1], first) {
				t.Errorf("%s is not on line %d", s.Rule, s.Line)
			}
		}
	})
}

// Wherever a secret stands, it is found once and whole: at the seams between the
// parts of a large text, and where the words of its form stand everywhere.
func TestFindInLargeTexts(t *testing.T) {
	t.Parallel()
	token := "ghs_" + noise(40)
	for name, filler := range map[string]string{"plain": "x ", "words": "ghs_ "} {
		for _, at := range []int{0, 1, 65_000, 65_530, 65_536, 65_537, 130_000} {
			text := strings.Repeat(filler, 70_000)
			text = text[:at] + "\n" + token + "\n" + text[at:]
			found := find(t, nil, []byte(text))
			if len(found) != 1 || found[0].Value != token || found[0].Line != 2 {
				t.Errorf("%s at %d: %+v", name, at, found)
			}
		}
	}
}
