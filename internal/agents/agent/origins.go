package agent

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"agentd/internal/base/fault"
)

// anyOrigin in a list of origins allows all of them.
const anyOrigin = "*"

// checkOrigins requires origins as browsers send them: a scheme and a host, without a
// path.
func checkOrigins(p *PublicConfig) (wrong []fault.Field) {
	if p == nil {
		return nil
	}
	for i, origin := range p.AllowedOrigins {
		if origin != anyOrigin && !isOrigin(origin) {
			wrong = append(wrong, fault.Field{
				Field:   fmt.Sprintf("public_config.allowed_origins[%d]", i),
				Message: "it is no origin; write it without a path, as https://www.example.com or http://localhost:3000, or * for any",
			})
		}
	}
	return wrong
}

func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && text == u.Scheme+"://"+u.Host
}

// Allows reports whether visitors may talk with the agent on the pages of an origin.
func (p *PublicConfig) Allows(origin string) bool {
	return slices.ContainsFunc(p.AllowedOrigins, func(allowed string) bool {
		return allowed == anyOrigin || strings.EqualFold(allowed, origin)
	})
}
