package config

import (
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// People says who may use the bot, and how often.
type People struct {
	// Repositories are those the bot works in, as owner/name or owner/*; none
	// means all in which the App is installed.
	Repositories []string
	// Bots are the numeric user ids of other bots that may ask for runs, on
	// behalf of authors who may.
	Bots []int64
	// How often within an hour: commands by one person, commands on one issue,
	// runs of one issue.
	CommandsPerPerson, CommandsPerIssue, RunsPerIssue int
}

type peopleFile struct {
	Repositories []string `yaml:"repositories"`
	Bots         []whole  `yaml:"bots"`
}

// DefaultPeople is what a file that says nothing means.
func DefaultPeople() People {
	return People{CommandsPerPerson: 30, CommandsPerIssue: 60, RunsPerIssue: 12}
}

var repositoryPattern = strs.Lazy(`^[A-Za-z0-9][A-Za-z0-9-]{0,99}/(\*|[A-Za-z0-9._-]{1,100})$`)

func people(f peopleFile, report reporter) People {
	p := DefaultPeople()
	p.Repositories = f.Repositories
	for i, r := range f.Repositories {
		if !repositoryPattern().MatchString(r) {
			report(fmt.Sprintf("$.people.repositories[%d]", i), "%q is neither owner/name nor owner/*", clip(r))
		}
	}
	for i, id := range f.Bots {
		if id <= 0 {
			report(fmt.Sprintf("$.people.bots[%d]", i),
				"must be the numeric id of a bot's user, as https://api.github.com/users/NAME%%5Bbot%%5D gives it")
		}
		p.Bots = append(p.Bots, int64(id))
	}
	return p
}

// Serves says whether the bot works in a repository.
func (p People) Serves(owner, name string) bool {
	return matchesRepository(p.Repositories, owner, name)
}

// matchesRepository says whether a list of owner/name and owner/* holds a
// repository; an empty one holds all.
func matchesRepository(list []string, owner, name string) bool {
	if len(list) == 0 {
		return true
	}
	for _, r := range list {
		o, n, _ := strings.Cut(r, "/")
		if strings.EqualFold(o, owner) && (n == "*" || strings.EqualFold(n, name)) {
			return true
		}
	}
	return false
}
