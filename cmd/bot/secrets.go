package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// lookEvery is the pause between two looks at the files of secrets.
const lookEvery = time.Minute

// secrets are a server's secrets. Those in files are read again while it runs: from time to time,
// with the configuration, and at once where one is refused.
type secrets struct {
	// mask knows all that were ever read.
	mask *redact.Masker
	// held is the configuration that the server began with, with the secrets of now.
	held atomic.Pointer[config.Server]

	// looking: one look after the other; it guards the rest.
	looking sync.Mutex
	users   []func(config.Server) error
	log     zerolog.Logger
	// said is what the log has of a file that cannot be used, by the name of its secret.
	said map[string]string
}

func newSecrets(cfg config.Server) *secrets {
	k := &secrets{mask: serverMask(cfg), said: map[string]string{}}
	k.held.Store(&cfg)
	return k
}

// now is the configuration that the server began with, with the secrets of now.
func (k *secrets) now() config.Server { return *k.held.Load() }

// serve has users told of secrets that have changed. What one of them refuses stays as it was.
func (k *secrets) serve(log zerolog.Logger, users ...func(config.Server) error) {
	k.looking.Lock()
	defer k.looking.Unlock()
	k.log, k.users = log, users
}

// unusable is a file whose secret stays as it was, and why.
type unusable struct {
	name string
	err  *run.UserError
}

// look reads the files again, and gives the names of the secrets that have changed.
func (k *secrets) look() (changed []string, wrong []unusable) {
	k.looking.Lock()
	defer k.looking.Unlock()
	for _, f := range k.now().SecretFiles {
		switch fresh, err := k.read(f); {
		case err != nil:
			wrong = append(wrong, unusable{f.Name, err})
		case fresh:
			changed = append(changed, f.Name)
		}
	}
	return changed, wrong
}

// read reads one file again, and says whether the secret in it is another one.
func (k *secrets) read(f config.SecretFile) (fresh bool, _ *run.UserError) {
	value, err := f.Read(os.ReadFile)
	if err == nil {
		now := k.now()
		next := now.WithSecret(f.Name, value)
		if reflect.DeepEqual(now, next) {
			return false, nil
		}
		k.mask.Add(append(serverSecrets(next), value)...)
		for _, use := range k.users {
			if err = use(next); err != nil {
				break
			}
		}
		if err == nil {
			k.held.Store(&next)
			return true, nil
		}
	}
	message, hint := err.Error(), ""
	if user, ok := errors.AsType[*run.UserError](err); ok {
		message, hint = user.Message, user.Hint
	}
	return false, &run.UserError{
		Message: fmt.Sprintf("%s stays as it was: %s", f.Name, message), Hint: hint, Err: err,
	}
}

// mind looks, and has the log say what has changed, and once what cannot be used.
func (k *secrets) mind(context.Context) {
	changed, wrong := k.look()
	k.looking.Lock()
	defer k.looking.Unlock()
	if len(changed) > 0 {
		k.log.Info().Strs("secrets", changed).Msg("read secrets again")
	}
	said := map[string]string{}
	for _, w := range wrong {
		if said[w.name] = w.err.Error(); k.said[w.name] != said[w.name] {
			k.log.Error().Err(w.err).Str("secret", w.name).Msg("a secret could not be read again")
		}
	}
	k.said = said
}

// keepLooking looks from time to time. What it returns ends that, and waits for it.
func (k *secrets) keepLooking(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				k.mind(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}

// reload has a configuration hold the secrets of now, and gives the names of those that have
// changed. A file that cannot be used is an error.
func (k *secrets) reload(cfg *config.Server) (changed []string, err error) {
	changed, wrong := k.look()
	now := k.now()
	cfg.GitHub, cfg.Model, cfg.Notify = now.GitHub, now.Model, now.Notify
	for _, w := range wrong {
		err = errors.Join(err, w.err)
	}
	return changed, err
}

// ofModel gives the credential of an API, for the gateway.
func (k *secrets) ofModel(api run.Provider) func(ctx context.Context, refused bool) (apiKey, authToken string) {
	return func(ctx context.Context, refused bool) (apiKey, authToken string) {
		if refused {
			k.mind(ctx)
		}
		return modelKey(k.now().Model, api)
	}
}

// credentials are what an agent may know where there is no gateway: the model's, and nothing
// else of the server's.
func credentials(k *secrets) func(variable string) string {
	if k.now().Sandbox.Gated() {
		return nil
	}
	return func(variable string) string {
		model := k.now().Model
		return map[string]config.Secret{
			config.EnvAPIKey: model.APIKey, config.EnvAuthToken: model.AuthToken,
			config.EnvOpenAIKey: model.OpenAIKey, config.EnvGeminiKey: model.GeminiKey,
		}[variable].Reveal()
	}
}

// webhookSecrets are those that webhooks may be signed with.
func webhookSecrets(cfg config.Server) []string {
	var secrets []string
	for _, s := range cfg.GitHub.WebhookSecrets {
		secrets = append(secrets, s.Reveal())
	}
	return secrets
}
