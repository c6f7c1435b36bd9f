package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/appsetup"
	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/httpd"
	"github.com/org/ralph-action/internal/run"
)

// setupCmd is `bot setup`.
type setupCmd struct {
	Webhook string `required:"" help:"The URL where GitHub reaches the bot: https://HOST, with a path if a proxy needs one." placeholder:"URL"`
	URL     string `name:"url" default:"https://github.com" help:"GitHub or your Enterprise Server (default: ${default})." placeholder:"URL"`
	Org     string `help:"The organisation that will own the App (default: you)." placeholder:"ORG"`
	Name    string `default:"ralph-bot" help:"The App's name; you can change it on GitHub's page (default: ${default})." placeholder:"NAME"`
	Dir     string `default:"." help:"Where to write the credentials and, if missing, ralph.yaml (default: here)." placeholder:"DIR" type:"path"`
	Listen  string `help:"Written into ralph.yaml: where the server listens (default: its own)." placeholder:"HOST:PORT"`
	Image   string `default:"ralph-agent:latest" help:"Written into ralph.yaml: the image with the tools that agents and checks need (default: ${default})." placeholder:"IMAGE"`
	Addr    string `default:"127.0.0.1:0" help:"The loopback address to serve the setup page on (default: a free port)." placeholder:"HOST:PORT"`
	Force   bool   `help:"Replace existing credentials."`

	AgentPath string `name:"agent-path" help:"Written into ralph.yaml: the agent's program (default: the one in PATH)." placeholder:"FILE"`

	Timeout time.Duration `default:"1h" help:"How long to wait for you to finish in the browser (default: ${default})." placeholder:"DURATION"`
}

// configFile is what bot serve and bot doctor look for.
const configFile = "ralph.yaml"

// Run serves the page until there is an App, a signal, or the time is up.
func (c *setupCmd) Run(ctx bound, io stdio) error {
	hook, err := c.hook()
	if err != nil {
		return err
	}
	gitHub, err := gitHubAt(c.URL)
	if err != nil {
		return err
	}
	if addr, err := netip.ParseAddrPort(c.Addr); err != nil || !addr.Addr().IsLoopback() {
		return &run.UserError{
			Message: fmt.Sprintf("--addr %q is not an address on loopback", c.Addr),
			Hint:    "use 127.0.0.1:PORT; from elsewhere: ssh -L PORT:127.0.0.1:PORT",
		}
	}
	files := appsetup.Files{Dir: c.Dir, Force: c.Force}
	if err := files.Check(); errors.Is(err, appsetup.ErrExists) {
		return &run.UserError{
			Message: err.Error(), Hint: "use another directory with --dir, or replace them with --force", Err: err,
		}
	} else if err != nil {
		return &run.UserError{
			Message: "cannot store the credentials: " + err.Error(), Hint: "name a directory that you may write to with --dir",
			Err: err,
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return &run.UserError{
			Message: "cannot listen on " + c.Addr + ": " + err.Error(), Hint: "choose another address with --addr", Err: err,
		}
	}
	base := "http://" + l.Addr().String()
	flow, err := appsetup.New(appsetup.Config{
		Web: gitHub.web, Org: c.Org,
		Manifest: ghapp.Manifest{
			Name: c.Name, URL: "https://github.com/org/ralph-action", Hook: ghapp.ManifestHook{URL: hook, Active: true},
			Permissions: ghapp.Permissions(), Events: handlers.Subscriptions(),
		},
		Register: func(ctx context.Context, code string) (ghapp.Registration, error) {
			return ghapp.Register(ctx, gitHub.api, code, nil)
		},
		Save: files.Save,
	}, base)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	server := httpd.New(flow)
	server.ReadTimeout, server.ErrorLog = time.Minute, slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	fmt.Fprintf(io.out, "Open this page in your browser:\n\n  %s\n\n"+
		"It takes you to %s and back. Waiting for you; press Ctrl-C to stop.\n", flow.Page(), gitHub.web)

	waiting, cancel := context.WithTimeoutCause(ctx, c.Timeout,
		&run.UserError{Message: "no App was created within " + c.Timeout.String(), Hint: "run " + calledAs() + " setup again"})
	defer cancel()
	app, err := flow.Wait(waiting)
	// The page that is being answered says how it went.
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	err = errors.Join(err, server.Shutdown(grace))
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return setupFailed(app, err)
	}
	return c.tell(io, gitHub, app)
}

// setupFailed says what is left of an App whose credentials are lost.
func setupFailed(app ghapp.Registration, err error) error {
	if stopped, ok := errors.AsType[interrupted](err); ok {
		return ended{signalCode(stopped.signal)}
	}
	if app.AppID == 0 {
		return err
	}
	return &run.UserError{
		Message: "the App " + app.Slug + " was created, but its credentials could not be stored: " + err.Error(),
		Hint: "delete it at " + app.URL + " and run " + calledAs() +
			" setup again, or create a new private key and webhook secret there",
		Err: err,
	}
}

// hook is the whole address of the webhook.
func (c *setupCmd) hook() (string, error) {
	u, err := url.Parse(c.Webhook)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !onLoopback(u)) || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return "", &run.UserError{
			Message: fmt.Sprintf("--webhook %q is not an address GitHub can reach", c.Webhook),
			Hint:    "use a public one, such as https://ralph.example.com", Err: err,
		}
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = handlers.DefaultPath
	}
	return u.String(), nil
}

func onLoopback(u *url.URL) bool {
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// gitHubURLs are the roots of one GitHub, as the configuration names them.
type gitHubURLs struct{ web, api, graphQL string }

// gitHubAt finds the APIs of a GitHub by the address of its pages.
func gitHubAt(web string) (gitHubURLs, error) {
	u, err := url.Parse(web)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !onLoopback(u)) ||
		strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return gitHubURLs{}, &run.UserError{
			Message: fmt.Sprintf("--url %q is not the address of a GitHub", web),
			Hint:    "use https://github.com or https://HOST of your Enterprise Server", Err: err,
		}
	}
	root := u.Scheme + "://" + u.Host
	switch {
	case u.Host == "github.com" || strings.HasSuffix(u.Host, ".ghe.com"):
		api := u.Scheme + "://api." + u.Host
		return gitHubURLs{web: root, api: api + "/", graphQL: api + "/graphql"}, nil
	default:
		return gitHubURLs{web: root, api: root + "/api/v3/", graphQL: root + "/api/graphql"}, nil
	}
}

// tell writes ralph.yaml where there is none, and says what comes next.
func (c *setupCmd) tell(io stdio, gitHub gitHubURLs, app ghapp.Registration) error {
	text := c.config(gitHub, app)
	file := filepath.Join(c.Dir, configFile)
	fmt.Fprintf(io.out, "\nCreated the App %s (%d). Its credentials are in %s. Keep them secret and out of "+
		"version control.\n", app.Slug, app.AppID, c.Dir)
	switch err := writeNew(file, text); {
	case errors.Is(err, fs.ErrExist):
		fmt.Fprintf(io.out, "\n%s already exists and was not changed. Add this to it:\n\n%s", file, indented(text))
	case err != nil:
		return &run.UserError{
			Message: "the App was created, but " + file + " could not be written: " + err.Error(),
			Hint:    "write it yourself:\n" + indented(text), Err: err,
		}
	default:
		fmt.Fprintf(io.out, "%s refers to them.\n", file)
	}
	fmt.Fprintf(io.out, "\nNext steps:\n  1. Install it on repositories: %[1]s\n"+
		"  2. Set the model's key, such as ANTHROPIC_API_KEY, and check the set-up: %[2]s doctor --config %[3]s\n"+
		"  3. Start it: %[2]s serve --config %[3]s\n", appsetup.InstallURL(app), calledAs(), file)
	return nil
}

// config is the beginning of a server's configuration.
func (c *setupCmd) config(gitHub gitHubURLs, app ghapp.Registration) string {
	var b strings.Builder
	if c.Listen != "" {
		fmt.Fprintf(&b, "listen: %q\n", c.Listen)
	}
	b.WriteString("github:\n")
	if gitHub.web != "https://github.com" {
		fmt.Fprintf(&b, "  api_url: %s\n  graphql_url: %s\n  web_url: %s\n", gitHub.api, gitHub.graphQL, gitHub.web)
	}
	fmt.Fprintf(&b, "  app_id: %d\n  private_key_file: %s\n  webhook_secret_file: %s\n", app.AppID, appsetup.KeyFile,
		appsetup.WebhookFile)
	if c.AgentPath != "" {
		fmt.Fprintf(&b, "agent:\n  path: %q\n", c.AgentPath)
	}
	fmt.Fprintf(&b, "sandbox:\n  image: %q # has the tools that your checks need\n", c.Image)
	return b.String()
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// writeNew writes a file that is not there yet.
func writeNew(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // G304: whoever runs this names the directory
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
