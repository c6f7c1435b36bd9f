package handlers

import "encoding/json"

func repositoryActions() []string { return []string{"renamed", "transferred", "deleted", "archived"} }

// repository decodes the repository event. The node id stays; the name is what
// changes.
func (d *Decoder) repository(payload []byte) (Intent, error) {
	var p common
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	var r required
	p.check(&r)
	if err := r.err(); err != nil {
		return nil, err
	}
	switch p.Action {
	case "renamed", "transferred":
		return RenameIntent{Subject: p.subject(), What: p.Action}, nil
	case "deleted", "archived":
		return RenameIntent{Subject: p.subject(), What: p.Action, Gone: true}, nil
	default:
		return nil, nil
	}
}
