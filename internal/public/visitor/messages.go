package visitor

import (
	"bytes"
	"context"
	"io"
	"slices"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/ratelimit"
)

type (
	messageIn struct {
		SessionID string `path:"sessionId"`
		holding
		Body newMessage
	}
	newMessage struct {
		_ struct{} `json:"-" name:"PublicMessageCreate"`

		Content string   `json:"content" required:"true" maxLength:"10000" doc:"What the visitor says."`
		FileIDs []string `json:"file_ids,omitzero" maxItems:"5" maxLength:"36" doc:"Images that were uploaded in this session."`
	}
	accepted struct {
		_ struct{} `json:"-" name:"PublicMessageAccepted"`

		RunID     string `json:"run_id" format:"uuid" required:"true" doc:"The answer, which the event stream brings."`
		Remaining int64  `json:"messages_remaining" required:"true" doc:"Messages that the visitor may still send."`
	}
)

// send sends a message of a visitor.
func (s *Service) send(ctx context.Context, who authz.Caller, in *messageIn) (*accepted, error) {
	v, err := s.enterToWrite(ctx, in.SessionID, in.token(), in.page)
	if err != nil {
		return nil, err
	}
	for _, id := range in.Body.FileIDs {
		own, err := s.Store.HasFile(ctx, v.TenantID, v.SessionID, id)
		if err != nil {
			return nil, err
		}
		if !own {
			return nil, fault.NewNotFound("file")
		}
	}
	set := s.settings()
	if err := s.spend("messages from your network address", ratelimit.Network(who.Address), perMinute(set.AddressMessages)); err != nil {
		return nil, err
	}
	minute := narrower(set.MessagesPerMinute, v.config.MessagesPerMinute)
	if err := s.spend("messages in this session", v.SessionID, perMinute(minute)); err != nil {
		return nil, err
	}
	most, had := narrower(set.SessionMessages, v.config.SessionMessages), int64(0)
	caller, body := authz.Caller{TenantID: v.TenantID}, &in.Body
	made, err := s.Sessions.Post(ctx, caller, v.SessionID, body.Content, body.FileIDs, func(req *run.Request) {
		req.Options.Visitor = true
		req.Options.Sources = model.JoinSources(req.Options.Sources, []string{model.SourceVisitor})
		req.Metadata = metadata
		req.StartedBy = run.Initiator{Type: run.ByVisitor, ID: v.SessionID}
		admit := req.Admit
		req.Admit = func(tx txn.Tx, r *run.Record) (now bool, err error) {
			if now, err = admit(tx, r); err != nil {
				return now, err
			}
			had, err = s.claimTx(tx, v, most)
			return now, err
		}
	})
	if fault.Is(err, fault.NotFound) { // the company deleted the session
		return nil, errOther
	}
	if err != nil {
		if closed, talkErr := s.closed(ctx, v.Record, err); talkErr != nil || closed {
			return nil, orElse(talkErr, errOther)
		}
		return nil, outward(err)
	}
	return &accepted{RunID: made.RunID, Remaining: most - had}, nil
}

// closed reports whether a message was refused because its session was closed.
func (s *Service) closed(ctx context.Context, r *Record, err error) (bool, error) {
	if f := fault.From(err); f.Kind != fault.Conflict || f.Code == "SESSION_BUSY" {
		return false, nil
	}
	talk, err := s.Sessions.Talk(ctx, r.TenantID, r.SessionID, 1)
	return err == nil && talk.Status == session.Closed, err
}

// claimTx counts a message, in the transaction that stores its run, and returns how many
// the session has had.
func (s *Service) claimTx(tx txn.Tx, v visit, most int64) (int64, error) {
	now := s.Clock.Now()
	had, err := s.Store.ClaimMessageTx(tx, v.TenantID, v.SessionID, most, now)
	if err != nil {
		return 0, err
	}
	if had == 0 {
		e := fault.New(fault.Limited, "MESSAGE_LIMIT", "This session has had all of its messages. Begin a new one.")
		e.RetryAfter = max(time.Second, v.ExpiresAt.Sub(now))
		return 0, e
	}
	daily := int64(0)
	if v.config.MessagesPerDay != nil {
		daily = *v.config.MessagesPerDay
	}
	ok, err := s.Store.ClaimDayTx(tx, v.TenantID, v.AgentID, now.UTC().Format(dayFormat), daily)
	if err == nil && !ok {
		e := fault.New(fault.Limited, "DAILY_LIMIT", "This agent has had all of today's messages. Come back tomorrow.")
		e.RetryAfter = quota.Day.End(now).Sub(now)
		e.Extra = map[string]any{"retry_after": retrySeconds(e.RetryAfter)}
		err = e
	}
	return had, err
}

type (
	respondIn struct {
		SessionID string `path:"sessionId"`
		holding
		Body answerBody
	}
	answerBody struct {
		_ struct{} `json:"-" name:"PublicResponse"`

		Response string `json:"response" required:"true" minLength:"1" maxLength:"10000" doc:"The answer to the agent's question."`
	}
	responded struct {
		_ struct{} `json:"-" name:"PublicResponseAccepted"`

		Status string `json:"status" enum:"ok" required:"true" doc:"Always ok."`
		RunID  string `json:"run_id" format:"uuid" required:"true" doc:"The run that continues."`
	}
)

// respond answers the agent's question.
func (s *Service) respond(ctx context.Context, who authz.Caller, in *respondIn) (*responded, error) {
	v, err := s.enterToWrite(ctx, in.SessionID, in.token(), in.page)
	if err != nil {
		return nil, err
	}
	most := perMinute(s.settings().AddressMessages)
	if err := s.spend("messages from your network address", ratelimit.Network(who.Address), most); err != nil {
		return nil, err
	}
	id, err := s.Sessions.UnderWay(ctx, v.TenantID, v.SessionID)
	if fault.Is(err, fault.NotFound) {
		return nil, errOther
	}
	if err != nil {
		return nil, err
	}
	nothing := fault.New(fault.Conflict, "INVALID_STATE_TRANSITION", "The agent asks nothing at this time. Send a message instead.")
	if id == "" {
		return nil, nothing
	}
	if err := s.Runs.Respond(ctx, v.TenantID, id, in.Body.Response); err != nil {
		if fault.Is(err, fault.Conflict) {
			return nil, nothing.Because(err)
		}
		return nil, outward(err)
	}
	return &responded{Status: "ok", RunID: id}, nil
}

type (
	cancelIn struct {
		SessionID string `path:"sessionId"`
		RunID     string `path:"runId"`
		holding
	}
	cancelled struct {
		_ struct{} `json:"-" name:"PublicRunCancelled"`

		Cancelled bool   `json:"cancelled" required:"true" doc:"Always true."`
		RunID     string `json:"run_id" format:"uuid" required:"true" doc:"The run."`
	}
)

// cancel stops an answer.
func (s *Service) cancel(ctx context.Context, _ authz.Caller, in *cancelIn) (*cancelled, error) {
	v, err := s.enter(ctx, in.SessionID, in.token(), in.page)
	if err != nil {
		return nil, err
	}
	r, err := s.Runs.Get(ctx, v.TenantID, in.RunID)
	if fault.Is(err, fault.NotFound) || err == nil && (r.SessionID == nil || *r.SessionID != v.SessionID) {
		return nil, errOther
	}
	if err != nil {
		return nil, err
	}
	if _, err := s.Runs.Cancel(ctx, v.TenantID, in.RunID); err != nil {
		return nil, err
	}
	return &cancelled{Cancelled: true, RunID: in.RunID}, nil
}

type (
	uploadIn struct {
		SessionID string `path:"sessionId"`
		holding
		Body route.Upload
	}
	uploaded struct {
		_ struct{} `json:"-" name:"PublicUpload"`

		FileID   string `json:"file_id" format:"uuid" required:"true" doc:"Name it in file_ids of a message."`
		MimeType string `json:"mime_type" required:"true" doc:"What it is."`
		Size     int64  `json:"size" required:"true" doc:"Bytes."`
	}
)

// images are what visitors may send: formats that models read, and that no browser runs.
var images = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// imageType returns what an image is by its first bytes; "" for anything else, whatever
// the client calls it.
func imageType(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return images[0]
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return images[1]
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return images[2]
	case len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return images[3]
	}
	return ""
}

// uploadsPerSession is how many images a session may have.
const uploadsPerSession = 20

var errTooLarge = fault.New(fault.TooLarge, "", "The image has more than 8 MiB. Send a smaller one.")

// upload stores an image of a visitor.
func (s *Service) upload(ctx context.Context, who authz.Caller, in *uploadIn) (*uploaded, error) {
	v, err := s.enterToWrite(ctx, in.SessionID, in.token(), in.page)
	if err != nil {
		return nil, err
	}
	if err := s.spend("images from your network address", ratelimit.Network(who.Address), perMinute(20)); err != nil {
		return nil, err
	}
	if in.Body.Size > maxImage {
		return nil, errTooLarge
	}
	had, err := s.Store.CountFiles(ctx, v.TenantID, v.SessionID)
	if err != nil {
		return nil, err
	}
	if had >= uploadsPerSession {
		return nil, busy("This session has had all of its images.", time.Hour)
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(in.Body.Content, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	kind := imageType(head[:n])
	if kind == "" {
		return nil, fault.New(fault.UnsupportedMedia, "FILE_TYPE_NOT_ALLOWED", "Send an image: PNG, JPEG, GIF or WebP.")
	}
	whole := io.MultiReader(bytes.NewReader(head[:n]), &capped{in.Body.Content, maxImage - int64(n)})
	id, size, err := s.Files.Add(ctx, v.TenantID, "visitor", kind, whole)
	if err != nil {
		return nil, outward(err)
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Store.CreateFileTx(tx, v.TenantID, v.SessionID, id, s.Clock.Now()) })
	if err != nil {
		return nil, err
	}
	return &uploaded{FileID: id, MimeType: kind, Size: size}, nil
}

// capped refuses to read more than left bytes.
type capped struct {
	from io.Reader
	left int64
}

// Read implements io.Reader.
func (c *capped) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return n, errTooLarge
	}
	return n, err
}

type fileIn struct {
	FileID string `path:"fileId"`
}

var errNoImage = fault.New(fault.NotFound, "", "There is no public image with this id.")

// content returns an image that is public.
func (s *Service) content(ctx context.Context, _ authz.Caller, in *fileIn) (*route.Content, error) {
	tenant, err := s.Store.GetFileTenant(ctx, in.FileID)
	if err != nil {
		return nil, err
	}
	if tenant == "" {
		if tenant, err = s.Shows(ctx, in.FileID); err != nil {
			return nil, err
		}
	}
	if tenant == "" {
		return nil, errNoImage
	}
	c, err := s.Files.Open(ctx, tenant, in.FileID)
	if fault.Is(err, fault.NotFound) {
		return nil, errNoImage
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(images, c.Type) {
		_ = c.Body.Close() // nothing was read
		return nil, fault.New(fault.Forbidden, "", "Only images are public.")
	}
	c.Inline = true
	return c, nil
}
