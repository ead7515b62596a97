// Command goclient talks with agentd through the official Go clients of OpenAI
// and Anthropic: a whole answer, a streamed one, a tool.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	if err := talk(context.Background(), os.Stdout, os.Getenv("AGENTD_URL"), os.Getenv("AGENTD_KEY"), os.Getenv("AGENT")); err != nil {
		log.Fatal(err)
	}
}

func talk(ctx context.Context, out io.Writer, url, key, agent string) error {
	agents := openai.NewClient(option.WithBaseURL(url+"/v1/"), option.WithAPIKey(key))
	hello := openai.ChatCompletionNewParams{
		Model:    agent, // an agent's id
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say hello.")},
	}
	answer, err := agents.Chat.Completions.New(ctx, hello)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, answer.Choices[0].Message.Content)

	stream := agents.Chat.Completions.NewStreaming(ctx, hello)
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			fmt.Fprint(out, choice.Delta.Content)
		}
	}
	fmt.Fprintln(out)
	if err := stream.Err(); err != nil {
		return err
	}

	asking := openai.ChatCompletionNewParams{
		Model:    agent,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is the weather in Bern?")},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: "weather", Description: openai.String("Tells the weather of a city."),
			Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]string{"type": "string"}}},
		})},
	}
	for {
		answer, err := agents.Chat.Completions.New(ctx, asking)
		if err != nil {
			return err
		}
		message := answer.Choices[0].Message
		if len(message.ToolCalls) == 0 {
			fmt.Fprintln(out, message.Content)
			break
		}
		asking.Messages = append(asking.Messages, message.ToParam())
		for _, call := range message.ToolCalls { // call.Function has the name, and the arguments as JSON
			asking.Messages = append(asking.Messages, openai.ToolMessage("sunny in Bern", call.ID))
		}
	}

	models := anthropic.NewClient(anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey(key))
	said, err := models.Messages.New(ctx, anthropic.MessageNewParams{
		Model:     "claude-agentd", // every claude-… is the model that the operator chose for this route
		MaxTokens: 1024,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Say hello."))},
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, said.Content[0].Text)
	return nil
}
