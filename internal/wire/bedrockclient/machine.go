package bedrockclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/go-json-experiment/json"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// Machine is where agentd runs, as AWS's environment variables describe it. The first that
// is set gives the keys: a web identity, a container, else the instance.
type Machine struct {
	TokenFile, RoleARN, SessionName string // web identity: a file with a token of the cluster's, and the role
	ContainerPath, ContainerURL     string // address that gives a container's keys
	ContainerToken                  secret.String
	ContainerTokenFile              string
	Metadata                        string // address of the instance's metadata service; "": the usual one
	STS                             string // address of the Security Token Service; "": the region's
}

const (
	containerHost   = "http://169.254.170.2"
	metadataAddress = "http://169.254.169.254"
	rolePath        = "/latest/meta-data/iam/security-credentials/"
	metadata        = "the instance's metadata service"
	maxTokenFile    = 64 << 10
	// metadataTimeout is short: outside of AWS nothing answers there.
	metadataTimeout = 5 * time.Second
)

func (m *Machine) session() string { return cmp.Or(m.SessionName, sessionName) }

// keys gets the keys of the machine.
func (m *Machine) keys(ctx context.Context, transport http.RoundTripper, region string) (aws.Credentials, error) {
	switch {
	case m.TokenFile != "":
		if m.RoleARN == "" {
			return aws.Credentials{}, incomplete("AWS_WEB_IDENTITY_TOKEN_FILE is set, but not AWS_ROLE_ARN, the role to assume with it.")
		}
		token, err := readToken(m.TokenFile, "AWS_WEB_IDENTITY_TOKEN_FILE")
		if err != nil {
			return aws.Credentials{}, err
		}
		return m.assume(ctx, transport, region, url.Values{
			"Action": {"AssumeRoleWithWebIdentity"}, "RoleArn": {m.RoleARN}, "RoleSessionName": {m.session()}, "WebIdentityToken": {token},
		}, nil)
	case m.ContainerPath != "" || m.ContainerURL != "":
		return m.container(ctx, transport)
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	return m.instance(ctx, transport)
}

func incomplete(detail string) error {
	return &model.Error{Code: modelcall.CodeNotConfigured, Detail: detail}
}

// readToken reads a token from its file each time, because its issuer rotates it.
func readToken(file, setting string) (string, error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxTokenFile {
		err = errors.New("too large")
	}
	var token []byte
	if err == nil {
		token, err = os.ReadFile(file)
	}
	if err != nil || len(token) == 0 {
		return "", &model.Error{
			Code: modelcall.CodeNotConfigured, Detail: "The file of " + setting + " could not be read, or is empty.", Cause: err,
		}
	}
	return strings.TrimSpace(string(token)), nil
}

// temporary are keys as containers and instances give them.
type temporary struct {
	Code    string    `json:"Code"` // of instances; "Success"
	ID      string    `json:"AccessKeyId"`
	Secret  string    `json:"SecretAccessKey"`
	Token   string    `json:"Token"`
	Expires time.Time `json:"Expiration"`
}

func readTemporary(raw []byte, by string) (aws.Credentials, error) {
	var k temporary
	if err := json.Unmarshal(raw, &k, modelcall.Lenient); err != nil {
		return aws.Credentials{}, &unreachable{by, err}
	}
	if k.Code != "" && k.Code != "Success" {
		return aws.Credentials{}, &unreachable{by, errors.New("it has no keys now")}
	}
	return checked(aws.Credentials{AccessKeyID: k.ID, SecretAccessKey: k.Secret, SessionToken: k.Token, Expires: k.Expires}, by)
}

// container gets the keys of a task of ECS or a pod of EKS.
func (m *Machine) container(ctx context.Context, transport http.RoundTripper) (keys aws.Credentials, err error) {
	address := m.ContainerURL
	if m.ContainerPath != "" {
		address = containerHost + m.ContainerPath
	}
	if !trusted(address) {
		return keys, incomplete("AWS_CONTAINER_CREDENTIALS_FULL_URI must be an https address, or one of this machine or of AWS's containers.")
	}
	token := m.ContainerToken.Reveal()
	if m.ContainerTokenFile != "" {
		if token, err = readToken(m.ContainerTokenFile, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); err != nil {
			return keys, err
		}
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", token)
	}
	const by = "the container's credentials endpoint"
	raw, err := get(ctx, transport, http.MethodGet, address, header, by, "the role of the task or the pod")
	if err != nil {
		return keys, err
	}
	return readTemporary(raw, by)
}

// containerHosts are the addresses that AWS gives to containers.
var containerHosts = []netip.Addr{
	netip.MustParseAddr("169.254.170.2"), netip.MustParseAddr("169.254.170.23"), netip.MustParseAddr("fd00:ec2::23"),
}

// trusted reports whether keys may come from an address: over TLS, or from nearby.
func trusted(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	near := u.Hostname() == "localhost" || err == nil && (ip.IsLoopback() || slices.Contains(containerHosts, ip))
	return u.Scheme == "https" || u.Scheme == "http" && near
}

// instance gets the keys of an instance's role from its metadata service, version 2.
func (m *Machine) instance(ctx context.Context, transport http.RoundTripper) (keys aws.Credentials, err error) {
	base := strings.TrimRight(cmp.Or(m.Metadata, metadataAddress), "/")
	const check = "that the instance has a role, and that its metadata service answers version 2 from within containers (a hop limit of 2)"
	token, err := get(ctx, transport, http.MethodPut, base+"/latest/api/token",
		http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"300"}}, metadata, check)
	if err != nil {
		return keys, err
	}
	header := http.Header{"X-Aws-Ec2-Metadata-Token": {string(token)}}
	names, err := get(ctx, transport, http.MethodGet, base+rolePath, header, metadata, check)
	if err != nil {
		return keys, err
	}
	name, _, _ := strings.Cut(strings.TrimSpace(string(names)), "\n")
	raw, err := get(ctx, transport, http.MethodGet, base+rolePath+url.PathEscape(name), header, metadata, check)
	if err != nil {
		return keys, err
	}
	return readTemporary(raw, metadata)
}

// get calls an address of the machine, and returns its answer.
func get(ctx context.Context, transport http.RoundTripper, method, address string, header http.Header, by, check string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return nil, &unreachable{by, err}
	}
	req.Header = header
	status, body, err := roundTrip(transport, req, by)
	if err == nil && status != http.StatusOK {
		err = &refusal{by, "", status, check}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return body, nil
}
