// Command simmodel is the simulated model of the benchmarks: an
// OpenAI-compatible endpoint that answers as fast or as slowly as asked.
//
//	simmodel -addr 127.0.0.1:9100                    # at once, 20 tokens
//	simmodel -ttft 200ms -delay 10ms -tokens 100     # like a model
//	simmodel -tool-rounds 2                          # calls tools first
//
// GET /stats returns how many calls it served. The other wires are answered at once, in as
// many tokens.
package main

import (
	"flag"
	"log"

	"agentd/internal/kernel/model/modeltest"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9100", "address to listen on")
	ttft := flag.Duration("ttft", 0, "time to the first token")
	delay := flag.Duration("delay", 0, "time between tokens")
	tokens := flag.Int("tokens", 20, "tokens of an answer")
	rounds := flag.Int("tool-rounds", 0, "call the first offered tool this many times before answering")
	flag.Parse()
	answer := modeltest.Answer{Text: modeltest.Tokens(*tokens), TTFT: *ttft, Delay: *delay}
	options := []modeltest.Option{modeltest.Unrecorded(), modeltest.Default(answer)}
	if *rounds > 0 {
		options = append(options, modeltest.Respond(modeltest.ToolRounds(*rounds, answer)))
	}
	options = append(options, wires(answer.Text)...)
	server, err := modeltest.Start(*addr, options...)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("simulated model at %s: %d tokens, first after %v, then every %v", server.URL, *tokens, *ttft, *delay)
	server.Wait()
}
