// Package banner tells a person who started agentd what to do next.
package banner

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"

	"agentd/internal/base/secret"
)

// Info is what there is to tell.
type Info struct {
	Version   string
	Program   string // what is typed to run agentd: bin/agentd
	Listening string // the address that the server listens on: 127.0.0.1:8080
	PublicURL string // AGENTD_PUBLIC_URL, or empty
	Database  string // "SQLite in ./agentd-data"
	Model     string // the default model's name, as default/llama; empty: none is configured
	Endpoint  string // where that model is served

	FirstStart bool
	OwnerKey   secret.String // the key that the first start made; empty: it was given
	// Link is the path with the token that signs the owner in once; empty: there is none.
	Link secret.String
}

// Write shows what there is to tell. A new owner's key is shown here and
// nowhere else.
func Write(w io.Writer, i Info) error {
	var b strings.Builder
	base := i.base()
	fmt.Fprintf(&b, "agentd %s is ready.\n\n", i.Version)
	fmt.Fprintf(&b, "  Console   %s\n", base)
	fmt.Fprintf(&b, "  API       %s/api/v1  (described by %s/api/v1/openapi.json)\n", base, base)
	fmt.Fprintf(&b, "  Chat      %s/v1  (the base URL for OpenAI's SDKs)\n", base)
	fmt.Fprintf(&b, "  Database  %s\n", i.Database)
	switch {
	case i.Model == "" && i.Endpoint != "":
		fmt.Fprintf(&b, "  Model     none is chosen of those at %s. Agents use builtin/echo, which is no model.\n"+
			"            Set AGENTD_MODEL to the name of one of them.\n", i.Endpoint)
	case i.Model == "":
		b.WriteString("  Model     none. Agents use builtin/echo, which is no model: it repeats what it is told.\n" +
			"            For a real one set AGENTD_MODEL_BASE_URL, AGENTD_MODEL_API_KEY and AGENTD_MODEL.\n")
	case i.Endpoint == "":
		fmt.Fprintf(&b, "  Model     %s\n", i.Model)
	default:
		fmt.Fprintf(&b, "  Model     %s at %s\n", i.Model, i.Endpoint)
	}
	if i.FirstStart {
		i.next(&b, base)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// next is what to open and to type after the first start.
func (i Info) next(b *strings.Builder, base string) {
	if !i.Link.Empty() {
		fmt.Fprintf(b, "\nOpen the console with this link; it works once, within 15 minutes:\n\n  %s%s\n", base, i.Link.Reveal())
	}
	where := "In another terminal"
	if strings.Contains(i.Program, "/") && !filepath.IsAbs(i.Program) {
		where += ", in this directory"
	}
	if i.OwnerKey.Empty() {
		fmt.Fprintf(b, "\nThis is the first start. The owner's key is the one that was given as AGENTD_OWNER_KEY.\n"+
			"%s, with that key in AGENTD_KEY:\n\n", where)
	} else {
		fmt.Fprintf(b, "\nThis is the first start. Keep the owner's key: it will not be shown again.\n%s:\n\n", where)
		fmt.Fprintf(b, "  export AGENTD_KEY=%s\n", i.OwnerKey.Reveal())
	}
	fmt.Fprintf(b, "  export AGENTD_URL=%s\n", base)
	fmt.Fprintf(b, "  %s agent create --name hello\n  %s run hello \"Hello\"\n", i.Program, i.Program)
}

// base is the address that a person on this machine can use.
func (i Info) base() string {
	if i.PublicURL != "" {
		return strings.TrimRight(i.PublicURL, "/")
	}
	host, port, err := net.SplitHostPort(i.Listening)
	if err != nil {
		return "http://" + i.Listening
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
