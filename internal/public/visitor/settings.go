package visitor

import (
	"net/url"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/ratelimit"
	"agentd/internal/operation/setting"
)

// Settings are the operator's limits for visitors. What an agent's public_config sets
// holds where it is narrower.
type Settings struct {
	_ struct{} `json:"-" name:"PublicChatSettings"`

	Enabled           bool          `json:"enabled" doc:"Whether visitors can talk with public agents. Off: the operations are 501. Default: true."`
	SessionMinutes    int64         `json:"session_minutes" minimum:"1" maximum:"1440" doc:"How long a visitor's session takes messages, in minutes. Default: 120."`
	SessionMessages   int64         `json:"messages_per_session" minimum:"1" maximum:"100000" doc:"Messages of one session. Default: 50."`
	MessagesPerMinute int64         `json:"messages_per_minute" minimum:"1" maximum:"6000" doc:"Messages of one session per minute. Default: 6."`
	AddressMessages   int64         `json:"messages_per_address_per_minute" minimum:"1" maximum:"100000" doc:"Messages from one network address per minute. Default: 60."`
	AgentSessions     int64         `json:"sessions_per_agent" minimum:"1" maximum:"1000000" doc:"Sessions of one agent with a message in the last half hour. Default: 100."`
	SessionsPerMinute int64         `json:"sessions_per_address_per_minute" minimum:"1" maximum:"100000" doc:"Sessions that one network address may begin per minute. Default: 30."`
	SessionsPerHour   int64         `json:"sessions_per_address_per_hour" minimum:"1" maximum:"1000000" doc:"Sessions that one network address may begin per hour. Default: 300."`
	StreamsPerMinute  int64         `json:"streams_per_address_per_minute" minimum:"1" maximum:"100000" doc:"Event streams that one network address may open per minute. Default: 240."`
	CaptchaURL        string        `json:"captcha_verify_url,omitzero" maxLength:"2000" doc:"Where the answers of captchas are verified, as https://challenges.cloudflare.com/turnstile/v0/siteverify. Empty: visitors need none."`
	CaptchaKey        string        `json:"captcha_site_key,omitzero" maxLength:"500" doc:"Public key of the captcha, which cards show."`
	CaptchaSecret     secret.String `json:"captcha_secret,omitzero" doc:"Secret with which answers are verified. Never shown."`
}

// Defaults are the settings of an operator who set none.
func Defaults() Settings {
	return Settings{
		Enabled: true, SessionMinutes: 120, SessionMessages: 50, MessagesPerMinute: 6, AddressMessages: 60, AgentSessions: 100,
		SessionsPerMinute: 30, SessionsPerHour: 300, StreamsPerMinute: 240,
	}
}

// section is the name of the settings.
const section = "public-chat"

// Section adds the settings of visitors to those of the operator.
func Section(all *setting.Service) *setting.Section[Settings] {
	return setting.Add(all, &setting.Section[Settings]{Name: section, Secret: true, Initial: Defaults(), Check: check})
}

// check validates what the schema cannot: settings are merged before they are checked.
func check(s *Settings) error {
	if s.CaptchaURL == "" {
		return nil
	}
	if u, err := url.Parse(s.CaptchaURL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fault.BadFields(fault.Field{Field: "captcha_verify_url", Message: "it is no address that begins with https:// or http://"})
	}
	if s.CaptchaSecret.Reveal() == "" {
		return fault.BadFields(fault.Field{
			Field: "captcha_secret", Message: "it is needed to verify captchas; set it together with captcha_verify_url",
		})
	}
	return nil
}

// settingRoutes returns the operations on the settings.
func (s *Service) settingRoutes() []route.Route {
	return setting.Routes(s.Limits, setting.Published[Settings]{
		Name: section, GetID: "getAdminPublicChatConfig", PutID: "updateAdminPublicChatConfig", What: "the limits for visitors",
		Doc:     "Limits of sessions, messages and streams of strangers who talk with public agents, and whether they must solve a captcha.",
		Example: `{"messages_per_session":50,"sessions_per_agent":100}`,
	})
}

// narrower returns the operator's limit, or the agent's where that is less.
func narrower(operator int64, own *int64) int64 {
	if own != nil && *own < operator {
		return *own
	}
	return operator
}

func perMinute(n int64) route.Limit { return route.Limit{N: int(n), Per: time.Minute} }
func perHour(n int64) route.Limit   { return route.Limit{N: int(n), Per: time.Hour} }

// spend counts a use of what is limited by one id: an address, a session or an agent
// together with an address. The buckets are those of strangers, apart from those of
// companies.
func (s *Service) spend(what, id string, limits ...route.Limit) error {
	v := s.Limiter.Reserve(time.Now(), ratelimit.Request{Address: id, Operation: "visitors/" + what, Own: ratelimit.Rules(limits)})
	if v.Bucket == "" {
		return nil
	}
	e := fault.New(fault.Limited, "", "There were too many %s. Retry after the seconds in Retry-After.", what)
	e.RetryAfter = v.Retry
	e.Extra = map[string]any{"retry_after": retrySeconds(v.Retry)}
	return e
}

func retrySeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
