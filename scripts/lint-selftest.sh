#!/usr/bin/env bash
# Checks the linter's configuration itself: plants one violation at each border
# of .golangci.yml into a copy of the package tree and expects each of them to
# be found; then plants what the borders allow and expects silence. A border
# whose pattern matches no file would otherwise guard nothing, unnoticed.
#
#   lint-selftest.sh GOLANGCI-LINT
set -euo pipefail

lint=$(realpath "${1:?usage: lint-selftest.sh GOLANGCI-LINT}")
cd "$(dirname "$0")/.."
top=$PWD
# Always the same path, and a cache of its own: the linter's cache goes by the
# contents of a file and remembers the path where it saw them first.
tree=$top/.cache/lint-selftest/tree
export GOLANGCI_LINT_CACHE=$top/.cache/lint-selftest/cache

module=$(go list -m)
us=$module/internal

packages=(run strs admission machine progress progress/formats plan prompt claim gate supervise history review loop sim agent sandbox sandbox/docker sandbox/local sandbox/shim
	proc httpd gateway gateway/egress gateway/spend fstree gitrepo redact config ghapp ghsim store store/queue handlers publish publish/island publish/effects host inline authorization pullrequest delivery feedback redelivery reconcile job ghaction appsetup tui webui)
packages+=(agent/transcript notify sandbox/kube sandbox/internal/syscalls)

# The packages, empty: the borders are about paths and imports, and the selftest
# must not depend on whether the real code compiles.
fresh() {
	rm -rf "$tree"
	mkdir -p "$tree"
	cp "$top/go.mod" "$top/go.sum" "$top/.golangci.yml" "$tree/"
	local p
	for p in "${packages[@]}"; do
		mkdir -p "$tree/internal/$p"
		printf '// Package %s is empty.\npackage %s\n' "${p##*/}" "${p##*/}" >"$tree/internal/$p/doc.go"
	done
	mkdir -p "$tree/cmd/bot"
	printf '// Command bot is empty.\npackage main\n\nfunc main() {}\n' >"$tree/cmd/bot/main.go"
}

count=0
expected=()

# plant DIR SUFFIX: a new file in DIR, its source from stdin; sets $planted.
planted=
plant() {
	count=$((count + 1))
	planted=$1/zz_$count$2.go
	cat >"$tree/$planted"
}

package_of() {
	case $1 in cmd/bot) echo main ;; *) echo "${1##*/}" ;; esac
}

# imports DIR LIST IMPORT…: importing each from DIR breaks the rule LIST.
imports() {
	local dir=$1 list=$2 path
	shift 2
	for path in "$@"; do
		plant "$dir" "" < <(printf 'package %s\n\nimport _ "%s"\n' "$(package_of "$dir")" "$path")
		expected+=("$planted:3:8: import '$path' is not allowed from list '$list'")
	done
}

# code DIR SUFFIX LINTER MESSAGE: the source on stdin is found by LINTER.
code() {
	plant "$1" "$2"
	expected+=("$planted:.*$4.*($3)")
}

# may DIR IMPORT…: importing each from DIR is fine.
may() {
	local dir=$1 path
	shift
	for path in "$@"; do
		plant "$dir" "" < <(printf 'package %s\n\nimport _ "%s"\n' "$(package_of "$dir")" "$path")
	done
}

# --- violations --------------------------------------------------------------
fresh

imports internal/run run os/exec database/sql net net/http github.com/goccy/go-yaml "$us/webui"
imports internal/strs strs os/exec database/sql net/http "$us/run" "$us/webui"
imports internal/admission admission os/exec database/sql net/http "$us/store" "$us/webui"
imports internal/machine machine os/exec database/sql net/http "$us/run" "$us/webui"
imports internal/progress progress os/exec database/sql github.com/goccy/go-yaml "$us/webui"
imports internal/publish/island island os/exec database/sql github.com/yuin/goldmark "$us/redact" "$us/webui"
imports internal/progress/formats formats os/exec database/sql github.com/goccy/go-yaml "$us/webui"
imports internal/plan plan os/exec "$us/webui"
imports internal/prompt prompt os/exec github.com/yuin/goldmark "$us/webui"
imports internal/claim claim os/exec database/sql net/http "$us/webui" "$us/progress"
imports internal/gate gate os/exec "$us/webui"
imports internal/supervise supervise os/exec database/sql net/http "$us/webui" "$us/gate" "$us/progress"
imports internal/history history os/exec database/sql "$us/webui"
imports internal/review review os/exec database/sql net/http "$us/gate" "$us/webui"
imports internal/gateway/spend spend os/exec database/sql "$us/webui"
imports internal/loop loop os/exec database/sql "$us/webui" "$us/gitrepo" "$us/sandbox" github.com/google/go-github/v60/github
imports internal/sim sim os/exec database/sql net/http "$us/webui" "$us/gitrepo"
imports internal/agent agent os/exec "$us/webui" "$us/sandbox"
imports internal/sandbox sandbox os/exec "$us/webui" github.com/moby/moby/client
imports internal/sandbox/docker sandbox-docker os/exec "$us/webui" k8s.io/client-go/rest
imports internal/sandbox/local sandbox-local os/exec "$us/webui" github.com/moby/moby/client
imports internal/sandbox/kube sandbox-kube "$us/webui" github.com/moby/moby/client
imports internal/sandbox/shim shim "$us/webui" github.com/rs/zerolog
imports internal/proc proc "$us/webui" github.com/rs/zerolog
imports internal/gateway gateway os/exec "$us/webui"
imports internal/httpd httpd os/exec database/sql "$us/webui"
imports internal/gateway/egress egress os/exec net net/http "$us/webui"
imports internal/gitrepo gitrepo os/exec "$us/webui"
imports internal/fstree fstree os/exec "$us/run"
imports internal/redact redact os/exec "$us/webui"
imports internal/config config os/exec "$us/webui"
imports internal/tui tui os/exec "$us/loop"
for p in ghapp ghsim store store/queue handlers publish publish/effects host inline authorization pullrequest delivery feedback redelivery reconcile job \
	ghaction appsetup; do
	imports "internal/$p" "${p##*/}" "$us/webui"
done

imports internal/agent/transcript transcript "$us/webui"
imports internal/notify notify "$us/webui"
imports internal/publish github-home github.com/google/go-github/v60/github github.com/palantir/go-githubapp/githubapp \
	github.com/bradleyfalzon/ghinstallation/v2 github.com/shurcooL/githubv4 github.com/sony/gobreaker/v2
imports cmd/bot github-home github.com/google/go-github/v60/github
imports internal/host database-home database/sql
imports internal/reconcile database-home database/sql
imports internal/reconcile queue-home github.com/riverqueue/river modernc.org/sqlite github.com/pressly/goose/v3
imports internal/reconcile graphql-home github.com/vektah/gqlparser/v2
imports internal/host docker-home github.com/moby/moby/client
imports internal/host kong-home github.com/alecthomas/kong
imports internal/host prometheus-home github.com/prometheus/client_golang/prometheus
imports internal/publish loop-callers "$us/loop"
# No two of these may make a cycle: the linter could not read the packages.
imports internal/authorization authorization "$us/loop" "$us/publish"
imports internal/delivery delivery "$us/reconcile" "$us/feedback"
imports internal/feedback feedback "$us/host"
imports internal/redelivery redelivery "$us/reconcile" "$us/plan"
imports internal/pullrequest pullrequest "$us/store"
imports internal/reconcile reconcile "$us/job"
imports internal/reconcile exec-home os/exec
imports cmd/bot exec-home os/exec
imports internal/store tests-only testing github.com/google/go-cmp/cmp pgregory.net/rapid go.uber.org/goleak \
	github.com/rogpeppe/go-internal/testscript github.com/getkin/kin-openapi/openapi3 github.com/creack/pty \
	github.com/hinshun/vt10x
imports internal/store nobody github.com/rs/zerolog/log github.com/pkg/errors io/ioutil math/rand

for p in run progress publish/island plan prompt claim gate supervise history review gateway/spend loop sim; do
	code "internal/$p" "" forbidigo "pure package: time is handed in" <<EOF
package ${p##*/}

import "time"

var a = time.Now
EOF
done

code internal/loop "" forbidigo "not for the clock" <<'EOF'
package loop

import "time"

var b = time.Sleep
EOF

code internal/loop _test forbidigo "not for the clock" <<'EOF'
package loop

import (
	"testing"
	"time"
)

func TestSlow(t *testing.T) { time.Sleep(time.Second) }
EOF

code internal/loop _test forbidigo "put it behind a build tag" <<'EOF'
package loop

import "testing"

func TestSkipped(t *testing.T) { t.Skip("no engine") }
EOF

code internal/gitrepo "" forbidigo "processes are started by internal/proc only" <<'EOF'
package gitrepo

import (
	"context"
	run "os/exec"
)

var a = run.CommandContext(context.TODO(), "git")
EOF

code internal/gitrepo "" forbidigo "only cmd/bot writes" <<'EOF'
package gitrepo

import "fmt"

func b() { fmt.Println("hello") }
EOF

code internal/store "" gochecknoinits "init. function" <<'EOF'
package store

func init() {}
EOF

code internal/store "" zerologlint "must be dispatched" <<'EOF'
package store

import "github.com/rs/zerolog"

func a(l *zerolog.Logger) { l.Info() }
EOF

code internal/store "" errorlint "errors.Is" <<'EOF'
package store

import "io"

func b(err error) bool { return err == io.EOF }
EOF

code internal/store "" rowserrcheck "must be checked" <<'EOF'
package store

import (
	"context"
	"database/sql"
)

func c(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, "SELECT 1")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
	}
	return nil
}
EOF

code internal/store "" sqlclosecheck "Rows/Stmt/NamedStmt was not closed" <<'EOF'
package store

import (
	"context"
	"database/sql"
)

func d(ctx context.Context, db *sql.DB) (bool, error) {
	rows, err := db.QueryContext(ctx, "SELECT 1")
	if err != nil {
		return false, err
	}
	return rows.Next(), rows.Err()
}
EOF

code internal/ghapp "" bodyclose "response body must be closed" <<'EOF'
package ghapp

import "net/http"

func a(c *http.Client, r *http.Request) (int, error) {
	resp, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}
EOF

code internal/ghapp "" noctx "must not be called" <<'EOF'
package ghapp

import "net/http"

func b() (*http.Request, error) { return http.NewRequest(http.MethodGet, "https://example.com", nil) }
EOF

code internal/ghapp "" contextcheck "context" <<'EOF'
package ghapp

import "context"

func c(ctx context.Context) error { return d(context.Background()) }

func d(ctx context.Context) error { return ctx.Err() }
EOF

code internal/ghapp "" gosec "G114" <<'EOF'
package ghapp

import "net/http"

func e() error { return http.ListenAndServe(":1", nil) }
EOF

code internal/ghapp "" errcheck "not checked" <<'EOF'
package ghapp

import "os"

func f() { os.Remove("x") }
EOF

code internal/ghapp "" forcetypeassert "must be checked" <<'EOF'
package ghapp

func j(x any) int { return x.(int) }
EOF

code internal/ghapp "" modernize "interface{} can be replaced by any" <<'EOF'
package ghapp

func g(x interface{}) bool { return x == nil }
EOF

code internal/ghapp "" nolintlint "should provide explanation" <<'EOF'
package ghapp

func h() {} //nolint:unused
EOF

code internal/ghapp "" revive "should have comment or be unexported" <<'EOF'
package ghapp

func I() {}
EOF

code internal/ghapp _test usetesting "could be replaced by t.TempDir" <<'EOF'
package ghapp

import (
	"os"
	"testing"
)

func TestTemp(t *testing.T) {
	dir, err := os.MkdirTemp("", "x")
	t.Log(dir, err)
}
EOF

found=$tree/found
(cd "$tree" && "$lint" run --allow-parallel-runners --allow-parallel-runners --output.text.path "$found" --output.text.print-issued-lines=false --output.text.colors=false >"$tree/log" 2>&1) || true
if [ ! -s "$found" ]; then
	echo "lint-selftest: the linter found nothing at all" >&2
	cat "$tree/log" >&2
	exit 1
fi
missed=0
for want in "${expected[@]}"; do
	if ! grep -q -- "^$want" "$found"; then
		missed=$((missed + 1))
		echo "lint-selftest: not found: $want" >&2
		grep -- "^${want%%:*}:" "$found" >&2 || true
	fi
done
if [ "$missed" -gt 0 ]; then
	grep -- typecheck "$found" >&2 || true
	echo "lint-selftest: $missed of ${#expected[@]} planted violations were not found" >&2
	exit 1
fi

# --- what the borders allow ----------------------------------------------------
fresh

may internal/progress "$us/run" github.com/yuin/goldmark
may internal/publish/island "$us/run" "$us/progress"
may internal/progress/formats "$us/run" "$us/progress" github.com/yuin/goldmark
may internal/run net/url
may internal/plan "$us/run" "$us/progress" "$us/progress/formats" github.com/yuin/goldmark
may internal/prompt "$us/run" "$us/progress"
may internal/claim "$us/run"
may internal/gate "$us/run"
may internal/supervise "$us/run"
may internal/history "$us/run"
may internal/review "$us/run" "$us/plan" github.com/yuin/goldmark
may internal/gateway/spend "$us/run"
may internal/loop "$us/run" "$us/progress" "$us/plan" "$us/prompt" "$us/gate" "$us/supervise" "$us/history"
may internal/sim "$us/run" "$us/progress" "$us/plan" "$us/prompt" "$us/gate" "$us/supervise" "$us/history" "$us/loop" github.com/goccy/go-yaml
may internal/agent "$us/run" github.com/goccy/go-yaml
may internal/sandbox "$us/run"
may internal/sandbox/docker "$us/sandbox" github.com/moby/moby/client github.com/containerd/errdefs
may internal/sandbox/local "$us/sandbox" "$us/proc" "$us/sandbox/shim" "$us/sandbox/internal/syscalls"
may internal/sandbox/internal/syscalls github.com/moby/profiles/seccomp
may internal/sandbox/kube "$us/sandbox" k8s.io/client-go/rest
may internal/proc os/exec
may internal/gateway "$us/run" "$us/gateway/spend" "$us/httpd" "$us/redact" net/http
may internal/gitrepo "$us/run" "$us/proc" "$us/fstree"
may internal/sandbox/docker "$us/fstree"
may internal/config "$us/run" "$us/gate" "$us/supervise" github.com/goccy/go-yaml
may internal/ghapp "$us/run" github.com/google/go-github/v60/github github.com/bradleyfalzon/ghinstallation/v2 github.com/sony/gobreaker/v2
may internal/handlers "$us/run" "$us/store" "$us/store/queue" github.com/palantir/go-githubapp/githubapp
may internal/store "$us/run" "$us/history" "$us/gateway/spend" database/sql modernc.org/sqlite
may internal/store/queue "$us/run" "$us/store" github.com/riverqueue/river
may internal/host "$us/loop" "$us/gitrepo" "$us/sandbox/docker" "$us/agent"
may internal/inline "$us/history" "$us/loop" "$us/host" "$us/gitrepo" "$us/store"
may internal/agent/transcript "$us/run" "$us/agent" "$us/redact" "$us/strs"
may internal/ghsim "$us/proc" github.com/vektah/gqlparser/v2
may internal/ghaction "$us/run" "$us/proc"
may internal/appsetup "$us/ghapp"
may internal/authorization "$us/ghapp" "$us/store" "$us/config"
may internal/pullrequest "$us/loop" "$us/host" "$us/publish"
may internal/delivery "$us/authorization" "$us/pullrequest" "$us/review"
may internal/feedback "$us/authorization" "$us/review" "$us/loop"
may internal/redelivery "$us/ghapp" "$us/publish" "$us/store"
may internal/job "$us/delivery" "$us/reconcile" "$us/redelivery"
may internal/reconcile "$us/loop" "$us/host" "$us/publish" "$us/ghapp" "$us/store" "$us/delivery" "$us/feedback"
may cmd/bot github.com/rogpeppe/go-internal/txtar "$us/loop" "$us/reconcile" github.com/alecthomas/kong

(cd "$tree" && "$lint" run --allow-parallel-runners --enable-only depguard --output.text.print-issued-lines=false) || {
	echo "lint-selftest: the borders refuse what they should allow" >&2
	exit 1
}
echo "lint-selftest: ${#expected[@]} planted violations found, $((count - ${#expected[@]})) allowed imports let through"
