module github.com/org/ralph-action

go 1.26.0

// What is required, and why. A new module needs a reason here, and a home in
// .golangci.yml where one package can hide it.
require (
	charm.land/bubbles/v2 v2.2.1 // the log that one scrolls in run --tui
	charm.land/bubbletea/v2 v2.1.1 // the full screen of run --tui
	github.com/alecthomas/kong v1.17.0 // flags and sub-commands from one struct, without globals; in cmd/bot only
	github.com/bradleyfalzon/ghinstallation/v2 v2.10.0 // tokens for one repository; v2.10.0 alone has go-github v60's types
	github.com/containerd/errdefs v1.0.0 // tells "no such container" from "engine away"
	github.com/creack/pty v1.1.24 // tests: a real terminal for the program
	github.com/goccy/go-yaml v1.19.2 // strict YAML, with the line and column of a problem
	github.com/golang-jwt/jwt/v4 v4.5.2 // parses the App's key, and tokens in ghsim; above what go-githubapp asks for, for a security fix
	github.com/google/go-cmp v0.7.0 // tests: compares
	github.com/google/go-github/v60 v60.0.0 // REST; in ghapp and handlers only
	github.com/hinshun/vt10x v0.0.0-20220301184237-5011da428d02 // tests: what stands on a screen; it has no releases
	github.com/jotaen/kong-completion v0.0.4 // completes commands and flags in shells, from the same struct
	github.com/mattn/go-runewidth v0.0.31 // how many columns a text takes
	github.com/moby/moby/api v1.56.1 // the types of the engine's API
	github.com/moby/moby/client v0.6.2 // the Docker engine; in sandbox/docker only
	github.com/palantir/go-githubapp v0.24.1 // dispatches webhooks; v0.24.1 alone fits go-github v60
	github.com/prometheus/client_golang v1.25.0 // a server's figures, as everybody's monitoring reads them
	github.com/rogpeppe/go-internal v1.16.0 // testscript, for tests; its txtar holds the demonstration's repository
	github.com/rs/zerolog v1.35.1 // logs; the logger travels in the context, as go-githubapp has it
	github.com/tidwall/gjson v1.20.3 // where things stand in prd.json, and what an agent's messages hold
	github.com/vektah/gqlparser/v2 v2.5.30 // ghsim answers GraphQL
	github.com/yuin/goldmark v1.8.7 // where things stand in Markdown; we edit the bytes ourselves
	go.uber.org/goleak v1.3.0 // tests: no goroutine outlives them
	golang.org/x/net v0.62.0 // the HTML of issues, as a browser reads it
	golang.org/x/sync v0.24.0 // bounds the memory of webhooks and model requests under way
	golang.org/x/sys v0.49.0 // openat, sub-reapers and what else syscall lacks
	golang.org/x/term v0.47.0 // is stderr a terminal, and how wide
	golang.org/x/text v0.43.0 // names that a file system takes for one
	golang.org/x/time v0.15.0 // how fast an installation writes to GitHub
	modernc.org/sqlite v1.60.1 // SQLite without C: one static program
	pgregory.net/rapid v1.3.0 // tests: properties, with shrinking
)

require (
	charm.land/lipgloss/v2 v2.0.5 // indirect
	github.com/Microsoft/go-winio v0.6.2 // indirect
	github.com/agnivade/levenshtein v1.2.1 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/charmbracelet/colorprofile v0.4.3 // indirect
	github.com/charmbracelet/ultraviolet v0.0.0-20261008173134-6b8d4baf91b4 // indirect
	github.com/charmbracelet/x/ansi v0.11.9 // indirect
	github.com/charmbracelet/x/term v0.2.2 // indirect
	github.com/charmbracelet/x/termios v0.1.1 // indirect
	github.com/charmbracelet/x/windows v0.2.2 // indirect
	github.com/clipperhouse/displaywidth v0.11.0 // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/containerd/errdefs/pkg v0.3.0 // indirect
	github.com/distribution/reference v0.6.0 // indirect
	github.com/docker/go-connections v0.8.2 // indirect
	github.com/docker/go-units v0.5.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/go-querystring v1.1.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/gregjones/httpcache v0.0.0-20190611155906-901d90724c79 // indirect
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/hashicorp/golang-lru v0.6.0 // indirect
	github.com/lucasb-eyer/go-colorful v1.4.1 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/moby/docker-image-spec v1.3.1 // indirect
	github.com/muesli/cancelreader v0.2.2 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/patrickmn/go-cache v2.1.0+incompatible // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/posener/complete v1.2.3 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/rcrowley/go-metrics v0.0.0-20201227073835-cf1acfcdf475 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/riywo/loginshell v0.0.0-20200815045211-7d26008be1ab // indirect
	github.com/shurcooL/githubv4 v0.0.0-20240120211514-18a1ae0e79dc // indirect
	github.com/shurcooL/graphql v0.0.0-20181231061246-d48a9a75455f // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.3.0 // indirect
	github.com/xo/terminfo v1.0.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp v0.69.0 // indirect
	go.opentelemetry.io/otel v1.44.0 // indirect
	go.opentelemetry.io/otel/metric v1.44.0 // indirect
	go.opentelemetry.io/otel/trace v1.44.0 // indirect
	golang.org/x/exp v0.0.0-20260718201538-764159d718ef // indirect
	golang.org/x/oauth2 v0.37.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
)
