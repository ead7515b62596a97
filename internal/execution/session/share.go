package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// Share is a public link to a conversation, as stored. Its secret token gives
// read access; a link is found by the hash of the token, which is kept sealed.
type Share struct {
	TenantID, SessionID string
	Hash                string
	Sealed              []byte
	Role                string
	ExpiresAt           time.Time // zero: never
}

// ShareStore is the port to the table of share links.
type ShareStore interface {
	// PutShareTx replaces the link of a session.
	PutShareTx(tx txn.Tx, sh *Share) error
	DeleteShareTx(tx txn.Tx, tenant, session string) error
	// GetShare returns the link of a session, GetShareByHash the link with a hash, of any
	// tenant. Both return fault.NotFound if there is none.
	GetShare(ctx context.Context, tenant, session string) (*Share, error)
	GetShareByHash(ctx context.Context, hash string) (*Share, error)
}

// shareService makes public links to conversations, and serves what they show.
type shareService struct {
	store     ShareStore
	sessions  Store
	todos     TodoStore
	reader    *reader
	runs      Runs
	artifacts Artifacts
	writer    txn.Writer
	clock     clock.Clock
	box       *secret.Box
	audit     audit.Recorder
	publicURL func() string
}

type (
	shareIn struct {
		SessionID string `path:"sessionId"`
		Body      struct {
			_ struct{} `json:"-" name:"SessionShareCreate"`

			Role    string  `json:"role" enum:"viewer,editor" default:"viewer" doc:"Shown with the conversation. Whatever the role, the link gives read access only."`
			Expires float64 `json:"expires_in_hours,omitzero" minimum:"1" maximum:"87600" doc:"Default: the link does not expire."`
		}
	}
	// shareView is a link as the API shows it. Its fields are null if there is none.
	shareView struct {
		_ struct{} `json:"-" name:"SessionShare"`

		URL       *string    `json:"share_url"`
		PageURL   *string    `json:"page_url" doc:"The same conversation as a page for browsers."`
		Role      *string    `json:"role"`
		ExpiresAt *time.Time `json:"expires_at"`
	}
	sharedIn struct {
		ShareID string `path:"shareId" format:"any"`
	}
)

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// sharedPage is the path of the pages for people, before the token: webpage.SharedPath.
const sharedPage = "/shared/"

// formerContext is what tokens were bound to that do not name their secret key.
const formerContext = "session_share"

// context returns what the sealed token is bound to.
func (sh *Share) context() string { return "session_share/" + sh.TenantID + "/" + sh.SessionID }

func (s *shareService) create(ctx context.Context, who authz.Caller, in *shareIn) (shareView, error) {
	token := rand.Text()
	sh := &Share{
		TenantID: who.TenantID, SessionID: in.SessionID, Hash: hashOf(token), Role: in.Body.Role,
	}
	sh.Sealed = s.box.Seal([]byte(token), sh.context())
	if in.Body.Expires > 0 {
		sh.ExpiresAt = s.clock.Now().Add(time.Duration(in.Body.Expires * float64(time.Hour))).Truncate(time.Microsecond)
	}
	answer := s.view(sh, token)
	ctx = txn.WithAnswer(ctx, func() any { return answer })
	err := s.writer.Write(ctx, func(tx txn.Tx) error {
		if _, err := s.sessions.LockTx(tx, who.TenantID, in.SessionID); err != nil {
			return err
		}
		if err := recordAudit(s.audit, tx, who, "shared", in.SessionID); err != nil {
			return err
		}
		return s.store.PutShareTx(tx, sh)
	})
	return answer, err
}

func (s *shareService) view(sh *Share, token string) shareView {
	url := s.publicURL() + "/api/v1/shared/" + token
	page := s.publicURL() + sharedPage + token
	out := shareView{URL: &url, PageURL: &page, Role: &sh.Role}
	if !sh.ExpiresAt.IsZero() {
		out.ExpiresAt = &sh.ExpiresAt
	}
	return out
}

func (sh *Share) expired(now time.Time) bool {
	return !sh.ExpiresAt.IsZero() && !now.Before(sh.ExpiresAt)
}

func (s *shareService) get(ctx context.Context, who authz.Caller, in *idIn) (shareView, error) {
	if _, err := s.sessions.Get(ctx, who.TenantID, in.SessionID); err != nil {
		return shareView{}, err
	}
	sh, err := s.store.GetShare(ctx, who.TenantID, in.SessionID)
	if fault.Is(err, fault.NotFound) || err == nil && sh.expired(s.clock.Now()) {
		return shareView{}, nil
	}
	if err != nil {
		return shareView{}, err
	}
	token, err := s.box.Open(sh.Sealed, sh.context(), formerContext)
	if err != nil {
		return shareView{}, err
	}
	return s.view(sh, string(token)), nil
}

func (s *shareService) revoke(ctx context.Context, who authz.Caller, in *idIn) (nothing, error) {
	return nothing{}, s.writer.Write(ctx, func(tx txn.Tx) error {
		if _, err := s.sessions.LockTx(tx, who.TenantID, in.SessionID); err != nil {
			return err
		}
		if err := recordAudit(s.audit, tx, who, "share_revoked", in.SessionID); err != nil {
			return err
		}
		return s.store.DeleteShareTx(tx, who.TenantID, in.SessionID)
	})
}

func (s *shareService) routes() []route.Route {
	const path = "/{sessionId}/share"
	public := route.Row{
		Method: "GET", Path: "/api/v1/shared/{shareId}", ID: "getSharedSession", Tag: tag, Summary: "Get a shared conversation",
		Doc: "Needs no API key: the link gives access.", Public: true, Refused: "session.share_refused", Errors: []int{404},
	}
	create := with(write("POST", path, "createSessionShare", "Create a public link to a session", talkers), 200)
	create.Optional = true
	create.Doc = "Each call makes a new link and invalidates the previous one."
	return []route.Route{
		route.Action(read(path, "getSessionShare", "Get the public link to a session"), s.get),
		route.Action(create, s.create),
		route.Action(with(write("DELETE", path, "revokeSessionShare", "Revoke the public link to a session", talkers), 204), s.revoke),
		route.Action(public, s.shared),
		route.Action(read("/{sessionId}/artifacts", "listSessionArtifacts", "List the artifacts of a session"), s.listArtifacts),
	}
}
