package config_test

import (
	"testing"

	"github.com/org/ralph-action/internal/config"
)

func TestServes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		list        []string
		owner, name string
		want        bool
	}{
		{nil, "anyone", "anything", true},
		{[]string{"acme/*"}, "acme", "app", true},
		{[]string{"acme/*"}, "ACME", "app", true},
		{[]string{"acme/*"}, "acme-evil", "app", false},
		{[]string{"acme/app"}, "acme", "App", true},
		{[]string{"acme/app"}, "acme", "app2", false},
		{[]string{"other/x", "acme/app"}, "acme", "app", true},
	} {
		if got := (config.People{Repositories: tt.list}).Serves(tt.owner, tt.name); got != tt.want {
			t.Errorf("%v serves %s/%s: %t", tt.list, tt.owner, tt.name, got)
		}
	}
}
