package config

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
)

// maxModelStart bounds AGENTD_MODEL_START_TIMEOUT: an answer takes an hour at most.
const maxModelStart = time.Hour

// maxDiskReserve bounds AGENTD_DISK_RESERVE_MIB: an exbibyte.
const maxDiskReserve = 1 << 40

// maxDrain bounds AGENTD_DRAIN_TIMEOUT: no step of a run takes longer.
const maxDrain = time.Hour

// Validate reports every setting that cannot work, each with the name of its
// environment variable. It makes no network calls.
func (c *Config) Validate() error {
	var v verdict
	v.check("AGENTD_LISTEN", true, func() error { return checkListen(c.Server.Listen) })
	v.check("AGENTD_PUBLIC_URL", c.Server.PublicURL != "", func() error { return checkHTTP(c.Server.PublicURL) })
	v.check("AGENTD_TLS_CERT", c.Server.TLSCert != "" || c.Server.TLSKey != "", func() error {
		if c.Server.TLSCert == "" || c.Server.TLSKey == "" {
			return errors.New("and AGENTD_TLS_KEY must be set together")
		}
		return errors.Join(checkFile(c.Server.TLSCert), checkFile(c.Server.TLSKey))
	})
	v.check("AGENTD_METRICS_LISTEN", c.Server.MetricsListen != "", func() error { return checkListen(c.Server.MetricsListen) })
	v.check("AGENTD_TRUSTED_PROXIES", true, func() error {
		_, err := c.Server.Proxies()
		return err
	})
	v.check("AGENTD_CORS_ORIGINS", true, func() error { return checkOrigins(c.Server.Origins()) })
	v.check("AGENTD_STREAMS_PER_TENANT", true, func() error {
		if c.Server.StreamsPerTenant < 0 {
			return errors.New("must be 0 or more")
		}
		return nil
	})
	v.check("AGENTD_MODEL_START_TIMEOUT", true, func() error {
		if c.Models.StartTimeout < 0 || c.Models.StartTimeout > maxModelStart {
			return fmt.Errorf("must be from 0s, for the default, to %v", maxModelStart)
		}
		return nil
	})
	v.check("AGENTD_DISK_RESERVE_MIB", c.Server.DiskReserveMiB != 0, func() error {
		if c.Server.DiskReserveMiB < 0 || c.Server.DiskReserveMiB > maxDiskReserve {
			return fmt.Errorf("must be from 0 to %d", maxDiskReserve)
		}
		return nil
	})
	v.check("AGENTD_ROLE", c.Server.Role == RoleAPI || c.Server.Role == RoleWorker, func() error {
		if c.Storage.DatabaseURL.Empty() {
			return fmt.Errorf("%s needs AGENTD_DATABASE_URL: a SQLite database has one node, which does everything", c.Server.Role)
		}
		return nil
	})
	v.check("AGENTD_DRAIN_TIMEOUT", true, func() error {
		if c.Server.DrainTimeout < 0 || c.Server.DrainTimeout > maxDrain {
			return fmt.Errorf("must be from 0s to %v", maxDrain)
		}
		return nil
	})
	v.check("AGENTD_SECRET_KEY", !c.Security.SecretKey.Empty(), func() error {
		_, err := decodeKeys(c.Security.SecretKey.Reveal())
		return err
	})
	v.check("AGENTD_MCP_STDIO", c.Security.MCPStdio != "", func() error { return checkCommands(c.Security.plainCommands()) })
	v.check("AGENTD_MCP_STDIO_COMMANDS", c.Security.MCPStdioCommands != "", func() error {
		_, err := c.Security.Commands()
		return err
	})
	v.check("AGENTD_NATS_URL", !c.Bus.NATSURL.Empty(), func() error { return c.Bus.NATSURL.check(hostful, "nats", "tls") })
	c.Models.validate(&v)
	c.Search.validate(&v)
	v.check("AGENTD_PLANS", c.Tenancy.Plans != "", func() error { return checkFile(c.Tenancy.Plans) })
	v.check("AGENTD_WEBHOOK_RETRY_WAITS", true, func() error {
		_, err := c.Webhooks.Waits()
		return err
	})
	c.Mail.validate(&v)
	v.check("AGENTD_GOVERNANCE", c.Governance.Governance != "", func() error { return checkSwitch(c.Governance.Governance) })
	v.check("AGENTD_SIGNUP", c.SignIn.Signup != "", func() error { return checkSwitch(c.SignIn.Signup) })
	v.check("AGENTD_OIDC_PROVIDERS", c.SignIn.OIDCProviders != "", func() error { return checkFile(c.SignIn.OIDCProviders) })
	c.Observability.validatePush(&v)
	v.check("OTEL_EXPORTER_OTLP_ENDPOINT", c.Observability.OTLPEndpoint != "", func() error {
		return checkHTTP(c.Observability.OTLPEndpoint)
	})
	return errors.Join(c.Storage.Validate(), v.err())
}

// Validate reports what is wrong with the storage settings alone.
func (s *Storage) Validate() error {
	var v verdict
	v.check("AGENTD_DATA_DIR", true, func() error {
		if strings.TrimSpace(s.DataDir) == "" {
			return errors.New("must name a directory")
		}
		return nil
	})
	v.check("AGENTD_DATABASE_URL", !s.DatabaseURL.Empty(), func() error { return s.DatabaseURL.check(hostless, "postgres", "postgresql") })
	return v.err()
}

func (o *Observability) validatePush(v *verdict) {
	v.check("AGENTD_AUDIT_PUSH", !o.AuditPush.Empty(), func() error {
		return o.AuditPush.check(hostful, "https", "http", "syslog+tls", "syslog+tcp")
	})
	v.check("AGENTD_AUDIT_PUSH_SECRET", !o.AuditPushSecret.Empty(), func() error {
		encoded, ok := strings.CutPrefix(o.AuditPushSecret.Reveal(), "whsec_")
		if key, err := base64.StdEncoding.DecodeString(encoded); !ok || err != nil || len(key) < 24 || len(key) > 64 {
			return errors.New("must be whsec_ and the base64 of 24 to 64 bytes")
		}
		return nil
	})
}

func (m *Models) validate(v *verdict) {
	v.check("AGENTD_MODEL_BASE_URL", m.BaseURL != "", func() error { return checkHTTP(m.BaseURL) })
	served := func(name string) func() error {
		return func() error {
			if m.BaseURL == "" && m.Providers == "" && name != "builtin/echo" {
				return fmt.Errorf("names the model %s, but neither AGENTD_MODEL_BASE_URL nor AGENTD_PROVIDERS says where it is served", name)
			}
			return nil
		}
	}
	v.check("AGENTD_MODEL", m.Model != "", served(m.Model))
	v.check("AGENTD_FALLBACK_MODEL", m.Fallback != "", served(m.Fallback))
	v.check("AGENTD_MESSAGES_MODEL", m.MessagesModel != "", served(m.MessagesModel))
	v.check("AGENTD_RERANK_BASE_URL", m.RerankBaseURL != "", func() error { return checkHTTP(m.RerankBaseURL) })
	v.check("AGENTD_EMBEDDING_BASE_URL", m.EmbeddingBaseURL != "", func() error { return checkHTTP(m.EmbeddingBaseURL) })
	v.check("AGENTD_EMBEDDING_MODEL", m.EmbeddingModel != "", func() error {
		if m.EmbeddingBaseURL == "" && m.BaseURL == "" {
			return fmt.Errorf("names the model %s, but neither AGENTD_EMBEDDING_BASE_URL nor AGENTD_MODEL_BASE_URL says where it is served",
				m.EmbeddingModel)
		}
		return nil
	})
	v.check("AGENTD_SEARCH_MEMORY_MIB", m.SearchMemoryMiB != 0, func() error {
		if m.SearchMemoryMiB < 16 || m.SearchMemoryMiB > 1<<20 {
			return errors.New("must be from 16 to 1048576")
		}
		return nil
	})
	v.check("AGENTD_SPEECH_MODEL", m.SpeechModel != "", served(m.SpeechModel))
	v.check("AGENTD_TRANSCRIPTION_MODEL", m.TranscriptionModel != "", served(m.TranscriptionModel))
	v.check("AGENTD_MODEL_PRICES", m.Prices != "", func() error { return checkFile(m.Prices) })
	v.check("AGENTD_PROVIDERS", m.Providers != "", func() error { return checkFile(m.Providers) })
}

func checkFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if info.IsDir() {
		return fmt.Errorf("must be a file; %s is a directory", path)
	}
	return nil
}

func checkSwitch(text string) error {
	if text != "on" && text != "off" {
		return fmt.Errorf("must be on or off, not %q", text)
	}
	return nil
}

func (m *Mail) validate(v *verdict) {
	v.check("AGENTD_SMTP_URL", !m.SMTPURL.Empty(), func() error { return m.SMTPURL.check(hostful, "smtp", "smtps") })
	v.check("AGENTD_MAIL_FROM", m.From != "" || !m.SMTPURL.Empty(), func() error {
		if m.From == "" {
			return errors.New("must say who sends the letters, where AGENTD_SMTP_URL is set")
		}
		if _, err := mail.ParseAddress(m.From); err != nil {
			return errors.New("must be an email address, as in agentd@example.com or Acme <agentd@example.com>")
		}
		return nil
	})
}

func (s *Search) validate(v *verdict) {
	v.check("AGENTD_SEARCH_PROVIDER", true, func() error {
		switch s.Provider {
		case "searxng":
			if s.URL == "" {
				return errors.New("is searxng, and AGENTD_SEARCH_URL does not say where it is")
			}
		case "brave":
			if s.APIKey.Empty() {
				return errors.New("is brave, and AGENTD_SEARCH_API_KEY holds no token for it")
			}
		case "":
			if s.URL != "" || !s.APIKey.Empty() {
				return errors.New("must say who searches, searxng or brave, where AGENTD_SEARCH_URL or AGENTD_SEARCH_API_KEY is set")
			}
		default:
			return fmt.Errorf("must be searxng or brave, not %q", s.Provider)
		}
		return nil
	})
	v.check("AGENTD_SEARCH_URL", s.URL != "", func() error { return checkHTTP(s.URL) })
}

func checkHTTP(raw string) error { return checkURL(raw, hostful, "http", "https") }

func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address to listen on; write 127.0.0.1:8080, or :8080 for every interface", address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q is no port; ports are 0 (any that is free) to 65535", port)
	}
	return nil
}

// maxKeys is how many secret keys may be configured: the sealing one, and those
// that are being replaced.
const maxKeys = 8

// decodeKeys reads secret keys that stand behind each other, by commas or lines.
func decodeKeys(text string) ([][]byte, error) {
	all := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(all) == 0 {
		return nil, errors.New("is empty; make a key with: openssl rand -base64 32")
	}
	if len(all) > maxKeys {
		return nil, fmt.Errorf("holds %d keys and may hold %d", len(all), maxKeys)
	}
	keys := make([][]byte, len(all))
	for i, one := range all {
		var err error
		if keys[i], err = decodeKey(one); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(keys[:i], func(k []byte) bool { return bytes.Equal(k, keys[i]) }) {
			return nil, errors.New("holds the same key twice")
		}
	}
	return keys, nil
}

// decodeKey reads 32 bytes in any spelling of base64. The error does not
// repeat the key.
func decodeKey(text string) ([]byte, error) {
	text = strings.TrimRight(strings.TrimSpace(text), "=")
	text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
	key, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("is not base64; make one with: openssl rand -base64 32")
	}
	if len(key) != 32 {
		return nil, fmt.Errorf("holds %d bytes and must hold 32; make one with: openssl rand -base64 32", len(key))
	}
	return key, nil
}

// verdict collects the errors of all settings.
type verdict struct{ errs []error }

func (v *verdict) check(name string, given bool, check func() error) {
	if !given {
		return
	}
	if err := check(); err != nil {
		v.errs = append(v.errs, fmt.Errorf("%s %w", name, err))
	}
}

func (v *verdict) err() error { return errors.Join(v.errs...) }
