package providerkey

import (
	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
)

// Access is what the wires of cloud providers need beside the key.
type Access struct {
	_ struct{} `json:"-" name:"LlmCredentialAccess"`

	APIVersion string    `json:"api_version,omitzero" doc:"Of the wire azure_openai; absent: its current version."`
	Entra      *entraApp `json:"entra,omitzero" doc:"Of the wire azure_openai: the application whose client secret api_key is."`

	Region string   `json:"region,omitzero" maxLength:"64" doc:"Of the wire bedrock; absent: that of the address."`
	AWS    *awsKeys `json:"aws,omitzero" doc:"Of the wire bedrock: the AWS identity whose secret access key api_key is. Absent: api_key is a key of Bedrock's own."`
}

type awsKeys struct {
	_ struct{} `json:"-" name:"LlmCredentialAWS"`

	AccessKeyID string `json:"access_key_id" required:"true" maxLength:"64" doc:"Id of a long-term access key, as in AKIA…"`
	RoleARN     string `json:"role_arn,omitzero" maxLength:"2048" doc:"Role that these keys assume, and whose temporary keys the calls are signed with, as in arn:aws:iam::123456789012:role/models. Absent: the calls are signed with the keys themselves."`
	ExternalID  string `json:"external_id,omitzero" maxLength:"1224" doc:"External id that the trust policy of the role wants; with role_arn only."`
}

type entraApp struct {
	_ struct{} `json:"-" name:"LlmCredentialEntra"`

	TenantID string `json:"tenant_id" required:"true" maxLength:"64" doc:"Of Microsoft Entra ID."`
	ClientID string `json:"client_id" required:"true" maxLength:"64" doc:"The application (client) id of the app registration in Entra."`
}

// with returns the access with a key, and the key where it stands alone.
func (a *Access) with(key secret.String) (model.Access, secret.String) {
	out := model.Access{APIVersion: a.APIVersion, Region: a.Region}
	if a.AWS != nil {
		out.AWS = &model.AWS{AccessKeyID: a.AWS.AccessKeyID, SecretAccessKey: key, RoleARN: a.AWS.RoleARN, ExternalID: a.AWS.ExternalID}
		return out, secret.String{}
	}
	if a.Entra == nil {
		return out, key
	}
	out.Entra = &model.Entra{TenantID: a.Entra.TenantID, ClientID: a.Entra.ClientID, ClientSecret: key}
	return out, secret.String{}
}

// setAccess sets the wire and the access of a key that is stored. Absent ones are
// unchanged. Errors: fault.Invalid.
func (s *Service) setAccess(r *Row, wire *string, requested *Access) error {
	if wire != nil {
		if r.Origin != model.OriginOwn && *wire != "" {
			const message = "is set by the provider; it belongs to a provider of the company's own, with endpoint_url"
			return fault.BadFields(fault.Field{Field: "wire", Message: message})
		}
		r.Wire = model.Wire(*wire)
	}
	if requested != nil {
		b, err := json.Marshal(requested)
		if err != nil {
			return err
		}
		r.Access = string(b)
	}
	var a Access
	if r.Access != "" {
		if err := json.Unmarshal([]byte(r.Access), &a); err != nil {
			return err
		}
	}
	access, _ := a.with(secret.New("set"))
	if err := access.Check(s.wireOf(r)); err != nil {
		field := "access"
		if !s.wireOf(r).Known() {
			field = "wire"
		}
		return fault.BadFields(fault.Field{Field: field, Message: err.Error()})
	}
	return nil
}

// wireOf returns the wire of a key's endpoint.
func (s *Service) wireOf(r *Row) model.Wire {
	wire := r.Wire
	if to, ok := s.Catalogue.Endpoint(r.ProviderID); ok && r.Origin == model.OriginPlatform {
		wire = to.Wire
	}
	if wire == "" {
		wire = model.WireAt(r.ProviderID, r.Endpoint)
	}
	if wire == "" {
		wire = model.WireChat
	}
	return wire
}
