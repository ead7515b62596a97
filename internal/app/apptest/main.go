package apptest

import (
	"context"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"agentd/internal/agents/mcp/mcptest"
	"agentd/internal/app"
)

// StdioServer is the argument with which a test binary is an MCP server over
// standard streams.
const StdioServer = "serve-mcp"

// Main is the TestMain of a package of whole-program tests. It fails when
// goroutines are left at the end.
func Main(m *testing.M) {
	app.Child()
	if len(os.Args) > 1 && os.Args[1] == StdioServer {
		if err := mcptest.New().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(programs)
		os.Exit(code)
	}),
		// A DNS lookup goes on for a while after its caller gave up.
		goleak.IgnoreAnyFunction("net.(*Resolver).tryOneName"), goleak.IgnoreAnyFunction("net.(*Resolver).goLookupIPCNAMEOrder"),
		goleak.IgnoreAnyFunction("net.(*Resolver).lookupIPAddr.func2"), goleak.IgnoreAnyFunction("net.(*Resolver).lookupIPAddr"))
}
