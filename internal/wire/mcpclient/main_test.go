package mcpclient

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	_ "agentd/internal/wire/sandbox" // whose children the test binary becomes
)

// The test binary is also the server of the tests over standard streams: it is
// one where its first argument says how to behave.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if behaviour, ok := strings.CutPrefix(os.Args[1], "serve="); ok {
			serveStdio(behaviour)
			return
		}
	}
	goleak.VerifyTestMain(m)
}

func serveStdio(behaviour string) {
	switch behaviour {
	case "mute":
		forever()
	case "noise":
		fmt.Println("this is no message")
		forever()
	case "exit":
		fmt.Fprintln(os.Stderr, "cannot start: out of luck")
		os.Exit(3)
	}
	s := newServer()
	sdk.AddTool(s, &sdk.Tool{Name: "environment"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		dir, err := os.Getwd()
		return textResult(strings.Join(os.Environ(), "\n") + "\ncwd=" + dir), nil, err
	})
	sdk.AddTool(s, &sdk.Tool{Name: "die"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		os.Exit(1)
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "flood"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		line := strings.Repeat("x", 1<<20)
		for range 100 {
			fmt.Print(line)
		}
		return textResult("done"), nil, nil
	})
	if behaviour == "stubborn" { // the end of its input does not end it
		_ = s.Run(context.Background(), &sdk.StdioTransport{})
		forever()
	}
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

// forever waits for what the tests do not send.
func forever() {
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	<-interrupt
}

// newServer has the tools that the tests call over both transports.
func newServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	type echoIn struct {
		Message string `json:"message" jsonschema:"what to say"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "Says it again.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
			return textResult("you said " + in.Message), nil, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no such city"}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "hang"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	return s
}

func textResult(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}
