package cli

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/client"
)

// apiKey is what is shown of a key.
type apiKey struct {
	KeyID      string    `json:"key_id"`
	Name       string    `json:"name"`
	Prefix     string    `json:"prefix"`
	Status     string    `json:"status"`
	Scopes     []string  `json:"scopes"`
	CreatedAt  time.Time `json:"created_at"`
	LastUsedAt time.Time `json:"last_used_at"`
	RawKey     string    `json:"raw_key"`
}

const keysPath = "/api/v1/tenants/me/keys"

type keysListCommand struct{ listing }

// Run implements the command.
func (cmd *keysListCommand) Run(s *server) error {
	return list[apiKey]{
		path: keysPath, limit: cmd.Limit,
		empty:   "You have no keys. Make one:  " + s.deps.Program + " keys create NAME",
		heading: []string{"KEY", "~NAME", "BEGINS WITH", "STATUS", "CREATED", "LAST USED", "~SCOPES"},
		row: func(k apiKey) []string {
			return []string{k.KeyID, k.Name, k.Prefix, k.Status, formatTime(s.now(), k.CreatedAt), formatTime(s.now(), k.LastUsedAt),
				strings.Join(k.Scopes, " ")}
		},
	}.show(s)
}

type keysCreateCommand struct {
	remote
	Name   string   `arg:"" help:"Name of the key."`
	Scopes []string `placeholder:"SCOPE" help:"Scopes of the key; several by commas. Left out: the default ones."`
}

// Run implements the command.
func (cmd *keysCreateCommand) Run(s *server) error {
	body := map[string]any{"name": cmd.Name}
	if cmd.Scopes != nil {
		body["scopes"] = cmd.Scopes
	}
	made, err := call[apiKey](s, http.MethodPost, keysPath, body)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(made.Raw)
	}
	s.fields("Created", made.Value.Name, "Id", made.Value.KeyID, "Scopes", strings.Join(made.Value.Scopes, " "), "Key", made.Value.RawKey)
	s.note("Save the key now: it is not stored and cannot be shown again.")
	return nil
}

type keysRevokeCommand struct {
	remote
	Key string `arg:"" help:"Id of the key, as keys list shows it."`
}

// Run implements the command.
func (cmd *keysRevokeCommand) Run(s *server) error {
	return s.send(http.MethodDelete, client.Path(keysPath, cmd.Key), nil, "Revoked key %s.", cmd.Key)
}

// member is what is shown of a member, or of an invite.
type member struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Email     string    `json:"email"`
	Role      string    `json:"role"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"`
	InviteURL string    `json:"invite_url"`
	EmailSent bool      `json:"email_sent"`
}

const (
	usersPath   = "/api/v1/users"
	invitesPath = "/api/v1/users/invites"
)

type membersListCommand struct{ listing }

// Run implements the command: the members, then the open invites.
func (cmd *membersListCommand) Run(s *server) error {
	members, more, err := list[member]{path: usersPath, limit: cmd.Limit}.read(s)
	if err != nil {
		return err
	}
	invites, moreInvites, err := list[member]{path: invitesPath, limit: cmd.Limit}.read(s)
	if err != nil {
		return err
	}
	all := slices.Concat(members, invites)
	if cmd.JSON {
		raw := make([]jsontext.Value, len(all))
		for i, d := range all {
			raw[i] = d.Raw
		}
		return s.printAny(items[jsontext.Value]{raw, more || moreInvites})
	}
	rows := make([][]string, len(all))
	for i, d := range all {
		m := d.Value
		if i >= len(members) {
			m.Status = "invited"
		}
		rows[i] = []string{m.ID, m.Email, m.Name, m.Role, m.Status, formatTime(s.now(), m.CreatedAt)}
	}
	if err := s.table([]string{"MEMBER", "~EMAIL", "~NAME", "ROLE", "STATUS", "SINCE"}, rows); err != nil {
		return err
	}
	if more || moreInvites {
		s.note("There are more; --limit 0 lists all.")
	}
	return nil
}

type membersInviteCommand struct {
	remote
	Email string `arg:"" help:"Email address of the person."`
	Role  string `default:"developer" enum:"viewer,developer,admin,owner" placeholder:"ROLE" help:"Role of the person: ${enum}."`
}

// Run implements the command.
func (cmd *membersInviteCommand) Run(s *server) error {
	made, err := call[member](s, http.MethodPost, invitesPath, map[string]string{"email": cmd.Email, "role": cmd.Role})
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(made.Raw)
	}
	s.say("Invited %s as %s.", oneLine(cmd.Email), cmd.Role)
	if made.Value.InviteURL != "" {
		s.say("Link  %s", oneLine(made.Value.InviteURL))
	}
	if made.Value.EmailSent {
		s.note("The link was sent by email too.")
	} else {
		s.note("No email was sent; give the person the link.")
	}
	return nil
}

type membersRemoveCommand struct {
	remote
	Member string `arg:"" help:"Member or invited person, by id or email address."`
	Yes    bool   `short:"y" help:"Do not ask."`
}

// Run implements the command.
func (cmd *membersRemoveCommand) Run(s *server) error {
	var emails []string
	for _, path := range []string{usersPath, invitesPath} {
		for m, err := range client.List[member](s, s.Client, path, nil, 0) {
			if err != nil {
				return err
			}
			emails = append(emails, m.Value.Email)
			if m.Value.ID != cmd.Member && !strings.EqualFold(m.Value.Email, cmd.Member) {
				continue
			}
			if err := s.confirm(cmd.Yes, "Remove %s from the company?", cmd.Member); err != nil {
				return err
			}
			return s.send(http.MethodDelete, client.Path(path, m.Value.ID), nil, "Removed %s.", cmd.Member)
		}
	}
	return fmt.Errorf("there is no member %q%s\nThey are listed by:  %s members list", cmd.Member, meant(cmd.Member, emails), s.deps.Program)
}

type usageCommand struct {
	remote
	Period string `placeholder:"MONTH" help:"Month, as 2026-09. Left out: the current one."`
	Agent  string `placeholder:"AGENT" help:"Only of this agent, by its id or its exact name."`
}

// tally is an amount of use.
type tally struct {
	Model        string  `json:"model"`
	Runs         int64   `json:"runs_count"`
	Calls        int64   `json:"llm_calls_count"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Cost         float64 `json:"total_cost"`
}

// Run implements the command.
func (cmd *usageCommand) Run(s *server) (err error) {
	agentID := ""
	if cmd.Agent != "" {
		if agentID, err = s.agentID(cmd.Agent); err != nil {
			return err
		}
	}
	type usage struct {
		tally
		Period  string  `json:"period"`
		Plan    string  `json:"plan"`
		Storage int64   `json:"storage_bytes"`
		ByModel []tally `json:"by_model"`
	}
	doc, err := get[usage](s, "/api/v1/usage?"+query("period", cmd.Period, "agent_id", agentID, "breakdown", "model").Encode())
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(doc.Raw)
	}
	u := doc.Value
	s.fields("Period", u.Period, "Plan", u.Plan, "Runs", strconv.FormatInt(u.Runs, 10),
		"Tokens", fmt.Sprintf("%d in, %d out", u.InputTokens, u.OutputTokens), "Cost", formatUSD(u.Cost),
		"Storage", fmt.Sprintf("%d MiB", u.Storage>>20))
	if len(u.ByModel) == 0 {
		return nil
	}
	fmt.Fprintln(s.stdout)
	rows := make([][]string, len(u.ByModel))
	for i, m := range u.ByModel {
		rows[i] = []string{m.Model, strconv.FormatInt(m.Calls, 10), strconv.FormatInt(m.InputTokens, 10), strconv.FormatInt(m.OutputTokens, 10),
			formatUSD(m.Cost)}
	}
	return s.table([]string{"~MODEL", "CALLS", "TOKENS IN", "TOKENS OUT", "COST"}, rows)
}

// since reads the value of --since.
func since(now time.Time, value string) (time.Time, error) {
	if ago, err := time.ParseDuration(value); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, value, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usageError("--since is %q and must be a time as 2026-09-10T12:00:00Z or 2026-09-10, "+
		"or how long ago, as 90m or 24h", value)
}

type whoamiCommand struct{ remote }

// caller is who calls, and with what.
type caller struct {
	Method string   `json:"auth_method"`
	Role   string   `json:"role"`
	Scopes []string `json:"scopes"`
	User   member   `json:"user"`
	Tenant struct {
		TenantID string `json:"tenant_id"`
		Name     string `json:"name"`
		Plan     string `json:"plan"`
	} `json:"tenant"`
}

// Run implements the command.
func (cmd *whoamiCommand) Run(s *server) error {
	doc, err := get[caller](s, "/api/v1/me")
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(doc.Raw)
	}
	me := doc.Value
	s.fields("Server", cmd.Server.URL, "Company", strings.TrimSpace(me.Tenant.Name+" "+parenthesis(me.Tenant.TenantID)),
		"Plan", me.Tenant.Plan, "Name", me.User.Name, "Email", me.User.Email, "Role", me.Role, "Scopes", strings.Join(me.Scopes, " "))
	return nil
}
