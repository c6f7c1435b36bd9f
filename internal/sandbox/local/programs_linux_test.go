package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/local"
)

// install lays out a person's home: a name that ends in a slash is a directory,
// content that begins with "→ " is a link, and with "#!" a program.
func install(t *testing.T, files map[string]string) string {
	t.Helper()
	home := t.TempDir()
	for name, content := range files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // #nosec G301 -- as people's are
			t.Fatal(err)
		}
		content = strings.ReplaceAll(content, "$HOME", home)
		var err error
		if target, ok := strings.CutPrefix(content, "→ "); ok {
			err = os.Symlink(target, path)
		} else {
			mode := os.FileMode(0o644)
			if strings.HasPrefix(content, "#!") {
				mode = 0o755
			}
			err = os.WriteFile(path, []byte(content), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	return home
}

// TestInstallationsOfAgents: the ways in which people install their agents all
// begin, and nothing beside them is shown.
func TestInstallationsOfAgents(t *testing.T) {
	node := "#!/bin/sh\n. \"$1\"\n" // a node that runs shell scripts
	cli := "#!/usr/bin/env node\necho agent; cat \"$(dirname \"$(readlink -f \"$1\")\")/../../dependency/index.js\"\n"
	for name, tt := range map[string]struct {
		files map[string]string
		argv  string
		path  string
		show  string
		hide  string
		want  string
	}{
		"a link into versions": {
			files: map[string]string{
				".local/bin/claude":                      "→ $HOME/.local/share/claude/versions/2.1.220",
				".local/share/claude/versions/2.1.220":   "#!/bin/sh\necho agent\n",
				".local/share/claude/.credentials.json":  "secret",
				".local/share/opencode/auth.json":        "secret",
				".local/share/claude/versions/token.txt": "secret",
				".local/bin/conf/token":                  "secret",
			},
			argv: "claude", path: "$HOME/.local/bin", want: "agent\n",
		},
		"the same, not in PATH": {
			files: map[string]string{
				"bin/claude":               "→ ../versions/current",
				"versions/current":         "→ 2.1.220/claude",
				"versions/2.1.220/claude":  "#!/bin/sh\necho agent\n",
				"versions/2.1.220/secrets": "secret",
			},
			argv: "$HOME/bin/claude", want: "agent\n",
		},
		"node_modules/.bin": {
			files: map[string]string{
				"p/node_modules/.bin/claude":                      "→ ../@anthropic-ai/claude-code/cli.js",
				"p/node_modules/@anthropic-ai/claude-code/cli.js": cli,
				"p/node_modules/dependency/index.js":              "dependency\n",
				"p/.env":                                          "secret",
				"node/bin/node":                                   node,
				"node/config.yml":                                 "secret",
				"p/package.json":                                  "secret",
				"p/node_modules/@anthropic-ai/claude-code/sdk/env.js": "",
			},
			argv: "$HOME/p/node_modules/.bin/claude", path: "$HOME/node/bin", want: "agent\ndependency\n",
		},
		"nvm": {
			files: map[string]string{
				".nvm/versions/node/v22/bin/node":                                          node,
				".nvm/versions/node/v22/bin/claude":                                        "→ ../lib/node_modules/@anthropic-ai/claude-code/cli.js",
				".nvm/versions/node/v22/lib/node_modules/@anthropic-ai/claude-code/cli.js": cli,
				".nvm/versions/node/v22/lib/node_modules/dependency/index.js":              "dependency\n",
				".nvm/alias/default":                                                       "secret",
				".nvm/versions/node/v22/.npmrc":                                            "secret",
				".nvm/versions/node/v22/etc/npmrc":                                         "secret",
				".nvm/versions/node/v22/bin/.npmrc":                                        "secret",
				".nvm/current":                                                             "→ versions/node/v22",
			},
			argv: "claude", path: "$HOME/.nvm/current/bin", want: "agent\ndependency\n",
		},
		"a shim of a version manager": {
			files: map[string]string{
				".pyenv/shims/aider":              "#!/bin/sh\nexec $HOME/.pyenv/libexec/pyenv exec aider\n",
				".pyenv/libexec/pyenv":            "#!/bin/sh\nhere=$(dirname \"$0\"); . \"$here/pyenv-exec\"\n",
				".pyenv/libexec/pyenv-exec":       "exec \"$here/../versions/$(cat \"$here/../version\")/bin/aider\"\n",
				".pyenv/version":                  "3.13",
				".pyenv/versions/3.13/bin/aider":  "#!$HOME/.pyenv/versions/3.13/bin/python\n",
				".pyenv/versions/3.13/bin/python": "#!/bin/sh\necho agent\n",
				".pyenv/credentials":              "secret",
				".aider.conf.yml":                 "secret",
			},
			argv: "aider", path: "$HOME/.pyenv/shims", want: "agent\n",
		},
		"a virtual environment": {
			files: map[string]string{
				".local/bin/aider":                        "→ $HOME/.local/pipx/venvs/aider/bin/aider",
				".local/pipx/venvs/aider/bin/aider":       "#!$HOME/.local/pipx/venvs/aider/bin/python\n",
				".local/pipx/venvs/aider/bin/python":      "→ $HOME/.python/bin/python3",
				".local/pipx/venvs/aider/pyvenv.cfg":      "home\n",
				".local/pipx/venvs/aider/lib/site.py":     "package\n",
				".local/pipx/venvs/aider/credentials":     "secret",
				".python/bin/python3":                     "#!/bin/sh\necho agent; cat \"$(dirname \"$1\")/../lib/site.py\" \"$(dirname \"$(readlink -f \"$0\")\")/../lib/os.py\"\n",
				".python/lib/os.py":                       "library\n",
				".python/config":                          "secret",
				".local/pipx/venvs/other/lib/settings.py": "secret",
			},
			argv: "$HOME/.local/pipx/venvs/aider/bin/aider", want: "agent\npackage\nlibrary\n",
		},
		"Homebrew": {
			files: map[string]string{
				".linuxbrew/bin/claude":                          "→ ../Cellar/claude-code/2/bin/claude",
				".linuxbrew/Cellar/claude-code/2/bin/claude":     "#!/bin/sh\nexec \"$HOME/.linuxbrew/opt/claude-code/libexec/claude\" \"$@\"\n",
				".linuxbrew/opt/claude-code":                     "→ ../Cellar/claude-code/2",
				".linuxbrew/Cellar/claude-code/2/libexec/claude": "#!/bin/sh\necho agent\n",
				".linuxbrew/etc/token":                           "secret",
			},
			argv: "claude", path: "$HOME/.linuxbrew/bin", want: "agent\n",
		},
		"the agent's own installer of old": {
			files: map[string]string{
				".claude/local/claude":                                        "#!/bin/sh\nexec \"$HOME/.claude/local/node_modules/.bin/claude\" \"$@\"\n",
				".claude/local/node_modules/.bin/claude":                      "→ ../@anthropic-ai/claude-code/cli.js",
				".claude/local/node_modules/@anthropic-ai/claude-code/cli.js": "#!/bin/sh\necho agent\n",
				".claude/.credentials.json":                                   "secret",
			},
			argv: "$HOME/.claude/local/claude", want: "agent\n",
		},
		"what is shown besides": {
			files: map[string]string{
				"bin/claude":        "#!/bin/sh\nexec \"$HOME/tools/claude-real\" \"$@\"\n",
				"tools/claude-real": "#!/bin/sh\necho agent\n",
				"other/key":         "secret",
				"bin/.env":          "secret",
			},
			argv: "claude", path: "$HOME/bin", show: "$HOME/tools", want: "agent\n",
		},
		"in a directory that is hidden": {
			files: map[string]string{"etc/ralph/bin/claude": "#!/bin/sh\necho agent\n", "etc/ralph/key": "secret"},
			argv:  "$HOME/etc/ralph/bin/claude", path: "$HOME/etc/ralph/bin", show: "$HOME/etc", hide: "$HOME/etc/ralph",
			want: "agent\n",
		},
		"pnpm": {
			files: map[string]string{
				"share/pnpm/claude": "#!/bin/sh\nbasedir=$(dirname \"$(echo \"$0\" | sed -e 's,a,a,')\")\n" +
					"exec node \"$basedir/global/5/node_modules/@anthropic-ai/claude-code/cli.js\" \"$@\"\n",
				"share/pnpm/node": node,
				"share/pnpm/global/5/node_modules/@anthropic-ai/claude-code":                  "→ ../../.pnpm/c@2/node_modules/@anthropic-ai/claude-code",
				"share/pnpm/global/5/.pnpm/c@2/node_modules/@anthropic-ai/claude-code/cli.js": "echo agent; cat \"$(dirname \"$(readlink -f \"$1\")\")/../../dependency/index.js\"\n",
				"share/pnpm/global/5/.pnpm/c@2/node_modules/dependency":                       "→ ../../d@1/node_modules/dependency",
				"share/pnpm/global/5/.pnpm/d@1/node_modules/dependency/index.js":              "dependency\n",
				"share/pnpm/.env": "secret",
			},
			argv: "claude", path: "$HOME/share/pnpm", want: "agent\ndependency\n",
		},
		"a tool of a check, by a link": {
			files: map[string]string{
				"bin/go":                         "→ ../sdk/go1.26/bin/go",
				"sdk/go1.26/bin/go":              "#!/bin/sh\nhere=$(dirname \"$(readlink -f \"$0\")\")\ncat \"$here/../VERSION\" \"$here/../src/runtime/proc.go\"\n",
				"sdk/go1.26/VERSION":             "1.26\n",
				"sdk/go1.26/src/runtime/proc.go": "runtime\n",
				"sdk/go1.26/credentials":         "secret",
			},
			argv: "sh -c go", path: "$HOME/bin", want: "1.26\nruntime\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			home := install(t, tt.files)
			o := local.Options{Isolation: local.IsolationBubblewrap}
			if tt.show != "" {
				o.Show = []string{strings.ReplaceAll(tt.show, "$HOME", home)}
			}
			if tt.hide != "" {
				o.Hide = []string{strings.ReplaceAll(tt.hide, "$HOME", home)}
			}
			box, err := local.New(o)
			if err == nil {
				err = box.Check(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			var secrets []string
			for file, content := range tt.files {
				if content == "secret" {
					secrets = append(secrets, filepath.Join(home, file))
				}
			}
			at := strings.NewReplacer("$HOME", home)
			path := at.Replace(tt.path) + ":/usr/bin:/bin"
			argv := strings.Fields(at.Replace(tt.argv))
			say := func(argv ...string) string {
				h, spec := start(t, box, func(s *sandbox.Spec) { s.Env = map[string]string{"PATH": path} }, argv...)
				if st, err := box.Wait(t.Context(), h); err != nil || st.Reason != sandbox.ReasonExited {
					t.Fatalf("%+v, %v", st, err)
				}
				out, err := os.ReadFile(filepath.Join(spec.RunDir, "stdout"))
				if err != nil {
					t.Fatal(err)
				}
				return string(out)
			}
			if got := say(argv...); got != tt.want {
				t.Errorf("said %q, want %q", got, tt.want)
			}
			// The same, with a program that looks for what lies beside it.
			spy := filepath.Join(home, "spy")
			if err := os.WriteFile(spy, []byte("#!/bin/sh\n# "+strings.Join(argv, " ")+"\ncat "+strings.Join(secrets, " ")+" 2>/dev/null\n"), 0o755); err != nil { // #nosec G306 -- a program
				t.Fatal(err)
			}
			if got := say(spy); got != "" {
				t.Errorf("a neighbour of the program was shown: %q", got)
			}
		})
	}
}

// TestProgramsThatCannotBeShown are refused by name, with what to do.
func TestProgramsThatCannotBeShown(t *testing.T) {
	home := install(t, map[string]string{
		"bin/script":  "#!/usr/bin/env no-such-interpreter\n",
		"bin/script2": "#!$HOME/gone\n",
		"bin/private": "#!/bin/sh\n",
	})
	if err := os.Chmod(filepath.Join(home, "bin/private"), 0o700); err != nil { // #nosec G302 -- a program
		t.Fatal(err)
	}
	box, err := openApart()
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{
		"script": "no-such-interpreter", "script2": filepath.Join(home, "gone"), "private": "chmod o+rx",
	} {
		if program == "private" && os.Getuid() != 0 {
			continue // it is run by its owner then
		}
		file := filepath.Join(home, "bin", program)
		tree := t.TempDir()
		if err := box.Prepare(t.Context(), tree); err != nil {
			t.Fatal(err)
		}
		_, err = box.Start(t.Context(), "test", sandbox.Spec{
			Argv: []string{file}, Workspace: tree, RunDir: filepath.Join(t.TempDir(), "run"),
		})
		problem, ok := errors.AsType[*run.UserError](err)
		if !ok || !strings.Contains(problem.Message, file) || !strings.Contains(problem.Message+problem.Hint, want) {
			t.Errorf("%s: %v", program, err)
		}
	}
}
