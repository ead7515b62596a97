package bedrockclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"agentd/internal/base/authz"
	"agentd/internal/base/cache"
	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

const (
	keysTimeout = 20 * time.Second
	// keysMargin is how long before their end temporary keys are replaced.
	keysMargin  = 5 * time.Minute
	maxKeys     = 10_000
	maxKeysBody = 64 << 10
	stsVersion  = "2011-06-15"
	sessionName = "agentd"
)

// keyring gets temporary keys of roles, and keeps them until they end.
type keyring struct {
	machine   Machine
	transport func(*model.Target) (http.RoundTripper, error)
	signer    *v4.Signer
	kept      *cache.Cache[ringKey, aws.Credentials]
	now       func() time.Time
}

// ringKey is what temporary keys are got for.
type ringKey struct {
	guardedFor       string // the tenant whose egress rules hold; "": none
	own              bool   // a tenant's keys
	from, id, region string
	secret           [sha256.Size]byte
	role, externalID string
}

func newKeyring(m Machine, c *modelcall.Caller, signer *v4.Signer, now func() time.Time) *keyring {
	began := now()
	r := &keyring{machine: m, transport: c.Transport, signer: signer, now: now}
	r.kept = cache.New(cache.Options[ringKey, aws.Credentials]{
		Most: maxKeys, Elapsed: func() time.Duration { return now().Sub(began) },
		Lasts: func(k aws.Credentials) time.Duration { return max(time.Second, k.Expires.Sub(now())-keysMargin) },
	})
	return r
}

// keys returns the keys that calls of a target are signed with: its own, those of the role
// that they assume, or those of the machine. Errors: *model.Error; the context's.
func (r *keyring) keys(ctx context.Context, to *model.Target, region string) (aws.Credentials, error) {
	a := to.Access.AWS
	if a.From == "" && a.RoleARN == "" {
		return static(a), nil
	}
	if a.From != "" && (to.OwnKey || to.Guarded) { // the checks of what is stored do not allow it either
		return aws.Credentials{}, &model.Error{
			Code: modelcall.CodeNotConfigured, Detail: "Only the operator's own providers may use the identity of the machine.",
		}
	}
	key := ringKey{
		own: to.OwnKey || to.Guarded, from: a.From, id: a.AccessKeyID, region: region, role: a.RoleARN, externalID: a.ExternalID,
		secret: sha256.Sum256([]byte(a.SecretAccessKey.Reveal() + "\x00" + a.SessionToken.Reveal())),
	}
	if key.own {
		key.guardedFor = to.TenantID
	}
	return r.kept.Load(ctx, key, func(ctx context.Context, _ ringKey) (aws.Credentials, error) {
		// Other calls wait for the same keys, so their request outlives this one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTimeout)
		defer cancel()
		keys, err := r.fetch(ctx, to, region)
		return keys, describe(to, err)
	})
}

func static(a *model.AWS) aws.Credentials {
	return aws.Credentials{
		AccessKeyID: a.AccessKeyID, SecretAccessKey: a.SecretAccessKey.Reveal(), SessionToken: a.SessionToken.Reveal(),
	}
}

func (r *keyring) fetch(ctx context.Context, to *model.Target, region string) (keys aws.Credentials, err error) {
	a := to.Access.AWS
	// A tenant's keys go the way of what tenants name, though the address is Amazon's.
	by := model.Target{Guarded: to.OwnKey || to.Guarded, TenantID: to.TenantID}
	transport, err := r.transport(&by)
	if err != nil {
		return keys, err
	}
	if by.Guarded {
		ctx = authz.WithTenant(ctx, by.TenantID)
	}
	keys = static(a)
	if a.From != "" {
		if keys, err = r.machine.keys(ctx, transport, region); err != nil || a.RoleARN == "" {
			return keys, err
		}
	}
	form := url.Values{"Action": {"AssumeRole"}, "RoleArn": {a.RoleARN}, "RoleSessionName": {r.machine.session()}}
	if a.ExternalID != "" {
		form.Set("ExternalId", a.ExternalID)
	}
	return r.machine.assume(ctx, transport, region, form, func(req *http.Request, body []byte) error {
		hash := sha256.Sum256(body)
		return r.signer.SignHTTP(ctx, keys, req, hex.EncodeToString(hash[:]), "sts", region, r.now())
	})
}

// refusal is an answer of AWS that no further attempt changes.
type refusal struct {
	by     string // which service
	code   string // its word; "": the status alone
	status int
	check  string // what to look at
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s refused (%s)", r.by, cmp.Or(r.code, fmt.Sprint("status ", r.status)))
}

// describe returns the error of a call whose keys could not be got.
func describe(to *model.Target, err error) error {
	refused, isRefusal := errors.AsType[*refusal](err)
	_, known := errors.AsType[*model.Error](err)
	switch {
	case err == nil || known:
		return err
	case isRefusal:
		return &model.Error{Code: modelcall.CodeAuth, Status: http.StatusForbidden, Cause: err, Detail: fmt.Sprintf(
			"The AWS keys of the provider %q could not be got: %s; check %s.", to.Provider, refused, refused.check)}
	}
	return &model.Error{
		Code: modelcall.CodeModel, Retryable: true, Passing: true, Cause: err,
		Detail: fmt.Sprintf("The AWS keys of the provider %q could not be got: %s could not be reached.", to.Provider, unreached(err)),
	}
}

// assumed is the answer of AWS's Security Token Service, of either action.
type assumed struct {
	Role        keysXML `xml:"AssumeRoleResult>Credentials"`
	WebIdentity keysXML `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
}

type keysXML struct {
	ID      string    `xml:"AccessKeyId"`
	Secret  string    `xml:"SecretAccessKey"`
	Token   string    `xml:"SessionToken"`
	Expires time.Time `xml:"Expiration"`
}

// word matches the codes of errors that AWS documents.
var word = regexp.MustCompile(`^[A-Za-z.]{1,64}$`)

// assume calls the Security Token Service. sign may be nil.
func (m *Machine) assume(
	ctx context.Context, transport http.RoundTripper, region string, form url.Values, sign func(*http.Request, []byte) error,
) (keys aws.Credentials, err error) {
	form.Set("Version", stsVersion)
	body := []byte(form.Encode())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.stsAddress(region), bytes.NewReader(body))
	if err != nil {
		return keys, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	if sign != nil {
		if err := sign(req, body); err != nil {
			return keys, err
		}
	}
	const by = "AWS's Security Token Service"
	status, raw, err := roundTrip(transport, req, by)
	if err != nil {
		return keys, err
	}
	if status != http.StatusOK {
		var failed struct {
			Code string `xml:"Error>Code"`
		}
		_ = xml.Unmarshal(raw, &failed) // another answer has no code
		if !word.MatchString(failed.Code) {
			failed.Code = ""
		}
		return keys, &refusal{by, failed.Code, status, "role_arn, external_id, and whom the role's trust policy allows to assume it"}
	}
	var got assumed
	if err := xml.Unmarshal(raw, &got); err != nil {
		return keys, &unreachable{by, err}
	}
	k := got.Role
	if k.ID == "" {
		k = got.WebIdentity
	}
	return checked(aws.Credentials{AccessKeyID: k.ID, SecretAccessKey: k.Secret, SessionToken: k.Token, Expires: k.Expires}, by)
}

func (m *Machine) stsAddress(region string) string {
	if m.STS != "" {
		return m.STS
	}
	address := "https://sts." + region + ".amazonaws.com/"
	if strings.HasPrefix(region, "cn-") {
		address = "https://sts." + region + ".amazonaws.com.cn/"
	}
	return address
}

// checked returns temporary keys that are whole.
func checked(k aws.Credentials, by string) (aws.Credentials, error) {
	if k.AccessKeyID == "" || k.SecretAccessKey == "" || k.Expires.IsZero() {
		return aws.Credentials{}, &unreachable{by, errors.New("the answer has no keys")}
	}
	return k, nil
}

// unreachable is a service that did not answer as it should; a later attempt may help.
type unreachable struct {
	by    string
	cause error
}

func (u *unreachable) Error() string { return u.by + ": " + u.cause.Error() }
func (u *unreachable) Unwrap() error { return u.cause }

func unreached(err error) string {
	if u, ok := errors.AsType[*unreachable](err); ok {
		return u.by
	}
	return "AWS"
}

// roundTrip makes a small call, without redirects. Answers of a service in trouble are
// errors.
func roundTrip(transport http.RoundTripper, req *http.Request, by string) (status int, body []byte, err error) {
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, nil, &unreachable{by, err}
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxKeysBody))
	if err == nil && (resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests) {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	if err != nil {
		return 0, nil, &unreachable{by, err}
	}
	return resp.StatusCode, body, nil
}
