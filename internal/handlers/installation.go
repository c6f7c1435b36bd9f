package handlers

import "encoding/json"

// installationActions are those by which the App loses its access. What it
// gains is found when it is used.
func installationActions() []string { return []string{"deleted", "suspend"} }

func installationRepositoriesActions() []string { return []string{"removed"} }

type installationPayload struct {
	common

	Removed []struct {
		NodeID string `json:"node_id"`
	} `json:"repositories_removed"`
}

// installation decodes the installation event.
func (d *Decoder) installation(payload []byte) (Intent, error) {
	p, err := readInstallation(payload)
	if err != nil {
		return nil, err
	}
	switch p.Action {
	case "deleted":
		return InstallationIntent{Subject: p.subject(), What: "uninstalled"}, nil
	case "suspend":
		return InstallationIntent{Subject: p.subject(), What: "suspended"}, nil
	default:
		return nil, nil
	}
}

// installationRepositories decodes the installation_repositories event.
func (d *Decoder) installationRepositories(payload []byte) (Intent, error) {
	p, err := readInstallation(payload)
	if err != nil || p.Action != "removed" {
		return nil, err
	}
	in := InstallationIntent{Subject: p.subject(), What: "taken off the repository"}
	for _, r := range p.Removed {
		if r.NodeID != "" {
			in.Repositories = append(in.Repositories, r.NodeID)
		}
	}
	if len(in.Repositories) == 0 {
		return nil, nil // which must not read as "all of them"
	}
	return in, nil
}

func readInstallation(payload []byte) (p installationPayload, err error) {
	if err := json.Unmarshal(payload, &p); err != nil {
		return p, err
	}
	var r required
	r.need(p.Installation.ID > 0, "installation.id")
	p.checkSender(&r)
	return p, r.err()
}
