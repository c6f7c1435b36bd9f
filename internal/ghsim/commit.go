package ghsim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// person is an author or committer.
type person struct {
	Name, Email string
	When        time.Time
}

func (p person) header() string {
	return fmt.Sprintf("%s <%s> %d +0000", gitName(p.Name), gitName(p.Email), p.When.Unix())
}

// gitName drops what would end a field of a commit header.
func gitName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '<' || r == '>' || r == '\n' || r == 0 {
			return -1
		}
		return r
	}, s)
}

// commitObject is a parsed commit.
type commitObject struct {
	OID, Tree         string
	Parents           []string
	Author, Committer person
	Message           string
}

func (c *commitObject) subject() string {
	subject, _, _ := strings.Cut(c.Message, "\n")
	return subject
}

func (c *commitObject) body() string {
	_, body, _ := strings.Cut(c.Message, "\n")
	return strings.Trim(body, "\n")
}

func parseCommit(oid string, data []byte) *commitObject {
	head, message, _ := strings.Cut(string(data), "\n\n")
	c := &commitObject{OID: oid, Message: message}
	for line := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "tree":
			c.Tree = value
		case "parent":
			c.Parents = append(c.Parents, value)
		case "author":
			c.Author = parsePerson(value)
		case "committer":
			c.Committer = parsePerson(value)
		}
	}
	return c
}

// parsePerson reads "Name <mail> 1700000000 +0100".
func parsePerson(s string) person {
	name, rest, _ := strings.Cut(s, " <")
	mail, stamp, _ := strings.Cut(rest, "> ")
	seconds, _, _ := strings.Cut(stamp, " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		n = 0 // git accepts such commits, so must we
	}
	return person{Name: name, Email: mail, When: time.Unix(n, 0).UTC()}
}

// writeCommit stores a commit object; no ref moves.
func (g *gitStore) writeCommit(c commitObject) (string, error) {
	var b strings.Builder
	b.WriteString("tree " + c.Tree + "\n")
	for _, p := range c.Parents {
		b.WriteString("parent " + p + "\n")
	}
	b.WriteString("author " + c.Author.header() + "\ncommitter " + c.Committer.header() + "\n")
	return g.writeObject("commit", []byte(b.String()+"\n"+c.Message))
}
