package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestMailAndSignIn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mail Mail
		sign SignIn
		want string // "": it is fine
	}{
		"nothing":      {},
		"smtp":         {mail: Mail{SMTPURL: NewURL("smtp://u:s3cret@mail.example.com:587?tls=off"), From: "Acme <a@example.com>"}},
		"smtps, on":    {mail: Mail{SMTPURL: NewURL("smtps://mail.example.com"), From: "a@example.com"}, sign: SignIn{Signup: "on"}},
		"no sender":    {mail: Mail{SMTPURL: NewURL("smtp://u:s3cret@mail.example.com")}, want: "AGENTD_MAIL_FROM"},
		"bad sender":   {mail: Mail{SMTPURL: NewURL("smtp://u:s3cret@mail.example.com"), From: "Acme"}, want: "AGENTD_MAIL_FROM"},
		"other scheme": {mail: Mail{SMTPURL: NewURL("http://u:s3cret@mail.example.com"), From: "a@example.com"}, want: "AGENTD_SMTP_URL"},
		"no host":      {mail: Mail{SMTPURL: NewURL("smtp://"), From: "a@example.com"}, want: "AGENTD_SMTP_URL"},
		"signup maybe": {sign: SignIn{Signup: "maybe"}, want: "AGENTD_SIGNUP"},
		"no such file": {sign: SignIn{OIDCProviders: "/nonexistent/providers.json"}, want: "AGENTD_OIDC_PROVIDERS"},
		"a directory":  {sign: SignIn{OIDCProviders: "."}, want: "AGENTD_OIDC_PROVIDERS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Config{Mail: tt.mail, SignIn: tt.sign}
			c.Server.Listen, c.Storage.DataDir = "127.0.0.1:0", "."
			err := c.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret")) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if strings.Contains(fmt.Sprintf("%v %+v", c.Mail, c.Mail), "s3cret") {
				t.Error("the password is shown")
			}
		})
	}
}
