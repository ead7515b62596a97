package a2aserver

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
	"agentd/internal/teams/a2a"
)

// What a method does.
const (
	opSend = iota
	opGet
	opCancel
	opList
	opFollow
	opSetPush
	opGetPush
	opListPush
	opDeletePush
	opCard
)

// method is a method of some version of the protocol.
type method struct {
	op      int
	wire    wire // the version
	streams bool
	writes  bool
}

// methods has the methods of all versions. Methods of the versions before 0.3 that 0.3
// kept the names of are listed once.
var methods = map[string]method{
	"SendMessage":                      {opSend, v1{}, false, true},
	"SendStreamingMessage":             {opSend, v1{}, true, true},
	"GetTask":                          {opGet, v1{}, false, false},
	"ListTasks":                        {opList, v1{}, false, false},
	"CancelTask":                       {opCancel, v1{}, false, true},
	"SubscribeToTask":                  {opFollow, v1{}, true, false},
	"CreateTaskPushNotificationConfig": {opSetPush, v1{}, false, true},
	"GetTaskPushNotificationConfig":    {opGetPush, v1{}, false, false},
	"ListTaskPushNotificationConfigs":  {opListPush, v1{}, false, false},
	"DeleteTaskPushNotificationConfig": {opDeletePush, v1{}, false, true},
	"GetExtendedAgentCard":             {opCard, v1{}, false, false},

	"message/send":                        {opSend, v0{}, false, true},
	"message/stream":                      {opSend, v0{}, true, true},
	"tasks/get":                           {opGet, v0{}, false, false},
	"tasks/cancel":                        {opCancel, v0{}, false, true},
	"tasks/resubscribe":                   {opFollow, v0{}, true, false},
	"tasks/pushNotificationConfig/set":    {opSetPush, v0{}, false, true},
	"tasks/pushNotificationConfig/get":    {opGetPush, v0{}, false, false},
	"tasks/pushNotificationConfig/list":   {opListPush, v0{}, false, false},
	"tasks/pushNotificationConfig/delete": {opDeletePush, v0{}, false, true},
	"agent/getAuthenticatedExtendedCard":  {opCard, v0{}, false, false},

	"tasks/send":                 {opSend, v0{old: true}, false, true},
	"tasks/sendSubscribe":        {opSend, v0{old: true}, true, true},
	"tasks/pushNotification/set": {opSetPush, v0{old: true}, false, true},
	"tasks/pushNotification/get": {opGetPush, v0{old: true}, false, false},
}

// op0 reports whether the message starts a task in the way of the versions before 0.3,
// where the id of the task is the sender's.
func (m method) op0() bool {
	w, ok := m.wire.(v0)
	return ok && w.old && m.op == opSend
}

// params has the members of the parameters of all methods and versions.
type params struct {
	Message   *message      `json:"message"`
	Config    configuration `json:"configuration"`
	Metadata  schema.Object `json:"metadata"`
	Tenant    string        `json:"tenant"`
	ID        string        `json:"id"`
	TaskID    string        `json:"taskId"`
	SessionID string        `json:"sessionId"`
	AgentID   string        `json:"agent_id"`

	HistoryLength *int   `json:"historyLength"`
	ContextID     string `json:"contextId"`
	Status        string `json:"status"`
	PageSize      int    `json:"pageSize"`
	PageToken     string `json:"pageToken"`

	PushConfigID string      `json:"pushNotificationConfigId"`
	PushConfig   *pushConfig `json:"pushNotificationConfig"` // 0.x
	Push         *pushConfig `json:"pushNotification"`       // before 0.3
	pushMembers
}

// pushMembers are the members of a pushConfig, which 1.0 has beside taskId.
type pushMembers struct {
	URL   string    `json:"url"`
	Token string    `json:"token"`
	Auth  *pushAuth `json:"authentication"`
}

type pushConfig struct {
	ID string `json:"id"`
	pushMembers
}

type pushAuth struct {
	Scheme      string   `json:"scheme"`
	Schemes     []string `json:"schemes"` // 0.x
	Credentials string   `json:"credentials"`
}

type configuration struct {
	Immediately   bool        `json:"returnImmediately"` // 1.0
	Blocking      *bool       `json:"blocking"`          // 0.x
	HistoryLength *int        `json:"historyLength"`
	TaskPush      *pushConfig `json:"taskPushNotificationConfig"` // 1.0
	Push          *pushConfig `json:"pushNotificationConfig"`     // 0.x
}

type message struct {
	MessageID string        `json:"messageId"`
	ContextID string        `json:"contextId"`
	TaskID    string        `json:"taskId"`
	Role      string        `json:"role"`
	Parts     []part        `json:"parts"`
	Metadata  schema.Object `json:"metadata"`
}

type part struct {
	Text *string        `json:"text"`
	Data jsontext.Value `json:"data"`

	Raw       *string `json:"raw"` // 1.0
	URL       *string `json:"url"`
	Filename  string  `json:"filename"`
	MediaType string  `json:"mediaType"`

	File *file `json:"file"` // 0.x
}

type file struct {
	Name     string `json:"name"`
	MimeType string `json:"mimeType"`
	Bytes    string `json:"bytes"`
	URI      string `json:"uri"`
}

// maxPartsRead bounds the parts that are read of a message. Package a2a refuses fewer.
const maxPartsRead = 200

// decode reads parameters, which may be left out.
func (c *call) decode(raw jsontext.Value) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &c.params); err != nil {
		return errParams
	}
	if c.Message != nil && len(c.Message.Parts) > maxPartsRead {
		return errParts
	}
	return nil
}

type paramsError string

func (e paramsError) Error() string { return string(e) }

const (
	errParams paramsError = "a member has another type than the protocol's"
	errParts  paramsError = "the message has too many parts"
)

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// task returns the id of the task that is meant. 1.0 calls it id where a method is about
// a task alone, and taskId elsewhere.
func (c *call) task() string {
	if c.op >= opSetPush && c.op <= opDeletePush {
		return first(c.TaskID, c.ID)
	}
	return first(c.ID, c.TaskID)
}

// configID returns the id of the address that is meant; "": the first one.
func (c *call) configID() string {
	if c.TaskID != "" {
		return c.ID
	}
	return c.PushConfigID
}

// config returns where changes are to be sent; nil: nowhere.
func (c *call) config() *pushConfig {
	for _, p := range []*pushConfig{c.Config.TaskPush, c.Config.Push, c.PushConfig, c.Push} {
		if p != nil {
			return p
		}
	}
	if c.op == opSetPush {
		id := ""
		if c.TaskID != "" {
			id = c.ID
		}
		return &pushConfig{id, c.pushMembers}
	}
	return nil
}

// push returns an address in the form of package a2a; nil for nil.
func (c *call) push(p *pushConfig) *a2a.PushConfig {
	if p == nil {
		return nil
	}
	cfg := &a2a.PushConfig{ID: p.ID, URL: p.URL, Token: p.Token, Version: c.wire.version()}
	if a := p.Auth; a != nil {
		cfg.Scheme, cfg.Credentials = a.Scheme, a.Credentials
		if cfg.Scheme == "" && len(a.Schemes) > 0 {
			cfg.Scheme = a.Schemes[0]
		}
		cfg.Scheme = first(cfg.Scheme, "Bearer")
	}
	return cfg
}

// immediate reports whether the message is to be answered before its task is over.
// Versions before 1.0 say so with blocking; where it is left out the answer waits, as
// that of other servers does.
func (c *call) immediate() bool {
	if b := c.Config.Blocking; b != nil {
		return !*b
	}
	return c.Config.Immediately
}

// agent returns the agent that the message names.
func (c *call) agent() string {
	id := first(c.AgentID, agentOf(c.Metadata), c.Tenant)
	if id == "" && c.Message != nil {
		id = agentOf(c.Message.Metadata)
	}
	return id
}

func agentOf(metadata schema.Object) string {
	var m struct {
		AgentID string `json:"agent_id"`
	}
	if len(metadata) > 2 && json.Unmarshal(metadata, &m) != nil {
		return "" // it has another use for the member
	}
	return m.AgentID
}

// metadata returns what the sender keeps with the task.
func (c *call) metadata() schema.Object {
	if len(c.Metadata) > 2 {
		return c.Metadata
	}
	return c.Message.Metadata
}

// clip shortens the messages of a task to what was asked for.
func (c *call) clip(t *a2a.Task) *a2a.Task {
	n := c.HistoryLength
	if n == nil {
		n = c.Config.HistoryLength
	}
	if n != nil && *n >= 0 && *n < len(t.History) {
		t.History = t.History[len(t.History)-*n:]
	}
	return t
}

// plain returns a message in the form of package a2a.
func (m *message) plain() a2a.Message {
	out := a2a.Message{Role: a2a.User, MessageID: m.MessageID}
	if strings.EqualFold(m.Role, "agent") || m.Role == "ROLE_AGENT" {
		out.Role = a2a.Agent
	}
	for i := range m.Parts {
		out.Parts = append(out.Parts, m.Parts[i].plain())
	}
	return out
}

func (p *part) plain() a2a.Part {
	switch {
	case p.File != nil:
		return a2a.Part{Type: a2a.FilePart, File: &a2a.File{Name: p.File.Name, MimeType: p.File.MimeType, Data: p.File.Bytes, URI: p.File.URI}}
	case p.Raw != nil:
		return a2a.Part{Type: a2a.FilePart, File: &a2a.File{Name: p.Filename, MimeType: p.MediaType, Data: *p.Raw}}
	case p.URL != nil && *p.URL != "":
		return a2a.Part{Type: a2a.FilePart, File: &a2a.File{Name: p.Filename, MimeType: p.MediaType, URI: *p.URL}}
	case p.Text != nil:
		return a2a.Part{Type: a2a.TextPart, Text: *p.Text}
	case len(p.Data) > 0:
		return a2a.Part{Type: a2a.DataPart, Data: p.Data}
	}
	return a2a.Part{}
}
