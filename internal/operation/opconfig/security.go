package opconfig

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"agentd/internal/base/fault"
)

// Security is what may be called, and uploaded.
type Security struct {
	_ struct{} `json:"-" name:"AdminConfigSecurityPolicies"`

	Origins     []string `json:"cors_allowed_origins" maxItems:"1000" doc:"Origins of pages that may call the API with a key, as AGENTD_CORS_ORIGINS; * for any."`
	Denied      []string `json:"webhook_url_denylist" maxItems:"1000" doc:"Hosts that no webhook is subscribed for and nothing is delivered to: example.com, with all below it as *.example.com."`
	MaxUpload   int64    `json:"file_upload_max_size_bytes" minimum:"0" maximum:"52428800" doc:"Bytes of an uploaded file at most; 0: the 50 MiB that any upload may have."`
	UploadTypes []string `json:"file_upload_allowed_mime_types" maxItems:"1000" doc:"Media types of files that may be uploaded, as text/plain or image/*; empty: all."`
}

func checkSecurity(s *Security) error {
	var wrong []fault.Field
	add := func(name string, i int, message string) {
		wrong = append(wrong, fault.Field{Field: fmt.Sprintf("%s[%d]", name, i), Message: message})
	}
	for i, one := range s.Origins {
		s.Origins[i] = strings.ToLower(one)
		u, err := url.Parse(one)
		if one != "*" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
			strings.ToLower(one) != u.Scheme+"://"+u.Host) {
			add("cors_allowed_origins", i, "must be an origin without a path, as https://app.example.com, or * for any")
		}
	}
	for i, one := range s.Denied {
		s.Denied[i] = strings.ToLower(one)
		host := strings.TrimPrefix(one, "*.")
		if u, err := url.Parse("http://" + host); err != nil || host == "" || u.Hostname() != host && "["+u.Hostname()+"]" != host {
			add("webhook_url_denylist", i, "must be a host, as example.com, or *.example.com")
		}
	}
	for i, one := range s.UploadTypes {
		kind, sub, ok := strings.Cut(one, "/")
		if !ok || kind == "" || sub == "" || one != strings.ToLower(one) || strings.ContainsAny(one, " ;") {
			add("file_upload_allowed_mime_types", i, "must be a media type in lower case, as text/plain or image/*")
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

// AllowedOrigins returns the origins of pages that may call the API.
func (c *Config) AllowedOrigins() []string { return c.security.Get().Origins }

// CheckWebhook refuses an address that the operator does not let webhooks go to.
func (c *Config) CheckWebhook(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return nil // others refuse it
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	for _, denied := range c.security.Get().Denied {
		base, below := strings.CutPrefix(denied, "*.")
		if host == base || below && strings.HasSuffix(host, "."+base) {
			return fault.New(fault.Invalid, "", "The operator of this service does not let webhooks go to %s.", host)
		}
	}
	return nil
}

// CheckUpload refuses a file that may not be uploaded.
func (c *Config) CheckUpload(mimeType string, size int64) error {
	s := c.security.Get()
	if s.MaxUpload > 0 && size > s.MaxUpload {
		return fault.New(fault.TooLarge, "", "The file has %d bytes; the operator of this service lets files have at most %d.", size, s.MaxUpload)
	}
	kind, _, _ := strings.Cut(strings.ToLower(mimeType), ";")
	kind = strings.TrimSpace(kind)
	group, _, _ := strings.Cut(kind, "/")
	if len(s.UploadTypes) > 0 && !slices.Contains(s.UploadTypes, kind) && !slices.Contains(s.UploadTypes, group+"/*") {
		return fault.New(fault.Invalid, "FILE_TYPE_NOT_ALLOWED", "Files of the type %s cannot be uploaded here; those that can are: %s.",
			kind, strings.Join(s.UploadTypes, ", "))
	}
	return nil
}
