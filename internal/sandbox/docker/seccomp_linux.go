package docker

import (
	"encoding/json"
	"sync"

	"github.com/moby/profiles/seccomp"
)

// profile is docker's default seccomp profile as we know it, for engines that would
// take an older one.
var profile = sync.OnceValues(func() (string, error) {
	b, err := json.Marshal(seccomp.DefaultProfile())
	return string(b), err
})
