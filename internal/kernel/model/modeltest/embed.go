package modeltest

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
)

// Dimensions is how long the simulated vectors are.
const Dimensions = 128

// Embeddings decides the answers to calls of the embeddings endpoint, counted
// from 1; where it says false the answer is the usual one: see [Vector].
func Embeddings(decide func(call int, texts []string) (Answer, bool)) Option {
	return func(s *Server) { s.embed = decide }
}

// EmbedCalls is how many calls of the embeddings endpoint came in.
func (s *Server) EmbedCalls() int { return int(s.embeds.Load()) }

// Vector is the simulated embedding of a text: hashed counts of its words and
// of the groups of three letters in them, so that texts are near which share
// words, or words of one stem.
func Vector(text string) []float32 {
	v := make([]float32, Dimensions)
	add := func(s string, weight float32) {
		h := fnv.New32a()
		h.Write([]byte(s))
		v[h.Sum32()%Dimensions] += weight
	}
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	for _, word := range words {
		add(word, 2)
		letters := []rune(word)
		for i := 0; i+3 <= len(letters); i++ {
			add("3:"+string(letters[i:i+3]), 1)
		}
	}
	var sum float64
	for _, f := range v {
		sum += float64(f * f)
	}
	if sum == 0 {
		v[0], sum = 1, 1
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func (s *Server) serveEmbeddings(w http.ResponseWriter, r *http.Request) {
	n := int(s.embeds.Add(1))
	body, err := readBody(nil, r)
	if err != nil {
		return
	}
	var ask struct {
		Input []string `json:"input"`
		Model string   `json:"model"`
	}
	if s.key != "" && r.Header.Get("Authorization") != "Bearer "+s.key {
		unauthorized.send(w, r, false)
		return
	}
	if err := json.Unmarshal(body, &ask); err != nil || len(ask.Input) == 0 {
		Answer{Status: http.StatusBadRequest, Error: "input is missing or no list of texts"}.compile().send(w, r, false)
		return
	}
	if s.embed != nil {
		if answer, ok := s.embed(n, ask.Input); ok {
			answer.compile().send(w, r, false)
			return
		}
	}
	data := make([]object, len(ask.Input))
	for i, text := range ask.Input {
		data[i] = object{"object": "embedding", "index": i, "embedding": Vector(text)}
	}
	w.Header().Set("Content-Type", "application/json")
	tokens := 0
	for _, text := range ask.Input {
		tokens += len(strings.Fields(text))
	}
	fmt.Fprintf(w, "%s", encode(object{
		"object": "list", "data": data, "model": ask.Model, "usage": object{"prompt_tokens": tokens, "total_tokens": tokens},
	}))
}
