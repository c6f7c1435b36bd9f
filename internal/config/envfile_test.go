package config

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const envFile = `# portableralph
RALPH_A="https://hooks.example/a?x=1&y=2"   # a remark
export RALPH_B='it''s $HOME and "so"'
RALPH_C=plain#text
RALPH_D=~/notify.sh
RALPH_E="${HOME}/bin"/x
RALPH_F="a \"b\" \$c \n"
RALPH_G=
RALPH_H=a\ b
RALPH_A2=one
RALPH_A2=two
`

const envHostile = `RALPH_X=$(touch owned)
RALPH_X="` + "`touch owned`" + `"
RALPH_X=a; touch owned
RALPH_X=a touch owned
touch owned
if true; then RALPH_X=1; fi
RALPH_X="open
RALPH_X=$OTHER
RALPH_X=$HOMES
`

// TestParseEnv: the values are those a shell would take, and what a shell would do
// besides is not done and told by line.
func TestParseEnv(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	got, skipped := ParseEnv([]byte(strings.ReplaceAll(envFile, "\n", "\r\n")), home)
	want := map[string]string{
		"RALPH_A": "https://hooks.example/a?x=1&y=2", "RALPH_B": `its $HOME and "so"`, "RALPH_C": "plain#text",
		"RALPH_D": home + "/notify.sh", "RALPH_E": home + "/bin/x", "RALPH_F": `a "b" $c \n`, "RALPH_G": "", "RALPH_H": "a b",
		"RALPH_A2": "two",
	}
	if diff := cmp.Diff(want, got); diff != "" || len(skipped) > 0 {
		t.Errorf("skipped %v (-want +got)\n%s", skipped, diff)
	}
	for name, value := range want {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", envFile+`printf %s "$`+name+`"`)
		cmd.Env = []string{"HOME=" + home}
		if out, err := cmd.Output(); err != nil || string(out) != value {
			t.Errorf("a shell reads %s as %q: %v", name, out, err)
		}
	}
	got, skipped = ParseEnv([]byte(envHostile), home)
	if len(got) != 0 || len(skipped) != strings.Count(envHostile, "\n") {
		t.Errorf("read %v, skipped %v", got, skipped)
	}
}

// FuzzParseEnv: every line is a comment, a value or skipped, and a value in single
// quotes is taken as it is.
func FuzzParseEnv(f *testing.F) {
	f.Add(envFile)
	f.Add(envHostile)
	f.Fuzz(func(t *testing.T, src string) {
		values, skipped := ParseEnv([]byte(src), "/home/ada")
		if lines := strings.Count(src, "\n") + 1; len(values)+len(skipped) > lines {
			t.Errorf("%d values and %d skipped of %d lines", len(values), len(skipped), lines)
		}
		if strings.ContainsAny(src, "'\n") {
			return
		}
		if got, _ := ParseEnv([]byte("A='"+src+"'"), "/"); got["A"] != src {
			t.Errorf("%q became %q", src, got["A"])
		}
	})
}
