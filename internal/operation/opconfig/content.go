package opconfig

import (
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/operation/setting"
)

// contents is the sections about what agents read, write and remember.
type contents struct {
	code   *setting.Section[CodeInterpreter]
	memory *setting.Section[AgentMemory]
	media  *setting.Section[Multimodal]
}

func (c *contents) addTo(s *setting.Service) {
	*c = contents{
		code: setting.Add(s, &setting.Section[CodeInterpreter]{
			Name: "code-interpreter", Initial: CodeInterpreter{TimeoutMS: 10_000, Output: 48 << 10, Written: 8 << 20, Files: 50},
		}),
		memory: setting.Add(s, &setting.Section[AgentMemory]{
			Name: "agent-memory", Initial: AgentMemory{Entries: 10_000, MaxEntries: 100_000, Recalled: 5}, Check: checkMemory,
		}),
		media: setting.Add(s, &setting.Section[Multimodal]{
			Name: "multimodal", Initial: Multimodal{Text: 256 << 10, Media: 5 << 20, Message: 10 << 20},
		}),
	}
}

// CodeInterpreter is what a call of run_code may take.
type CodeInterpreter struct {
	_ struct{} `json:"-" name:"AdminConfigCodeInterpreter"`

	TimeoutMS int64 `json:"timeout_ms" minimum:"10" maximum:"50000" doc:"Milliseconds after which code is stopped."`
	Output    int64 `json:"max_output_bytes" minimum:"100" maximum:"49152" doc:"Bytes of what code prints, and of its value, that the model reads; the rest is cut off."`
	Written   int64 `json:"max_written_bytes" minimum:"0" maximum:"8388608" doc:"Bytes that a call may write into the workspace; 0: none."`
	Files     int64 `json:"max_written_files" minimum:"0" maximum:"50" doc:"Files that a call may write; 0: none."`
}

// CodeInterpreter returns what a call of run_code may take.
func (c *contents) CodeInterpreter() *CodeInterpreter { return c.code.Get() }

// Timeout returns how long code may run.
func (i *CodeInterpreter) Timeout() time.Duration {
	return time.Duration(i.TimeoutMS) * time.Millisecond
}

// AgentMemory is how much agents remember.
type AgentMemory struct {
	_ struct{} `json:"-" name:"AdminConfigAgentMemory"`

	Entries    int64 `json:"default_max_entries" minimum:"1" maximum:"100000" doc:"Entries of an agent whose memory.max_entries is not set."`
	MaxEntries int64 `json:"max_entries" minimum:"1" maximum:"100000" doc:"Entries that an agent may have, whatever its memory.max_entries is. A memory that has more loses its least relevant entries with the next one that is added."`
	Recalled   int64 `json:"default_retrieval_limit" minimum:"1" maximum:"200" doc:"Entries that a run recalls if the agent's memory.retrieval_limit is not set."`
}

func checkMemory(m *AgentMemory) error {
	if m.MaxEntries < m.Entries {
		return fault.BadFields(fault.Field{Field: "max_entries", Message: "must not be less than default_max_entries"})
	}
	return nil
}

// AgentMemory returns how much agents remember.
func (c *contents) AgentMemory() *AgentMemory { return c.memory.Get() }

// Multimodal is what a message carries of its files to the model.
type Multimodal struct {
	_ struct{} `json:"-" name:"AdminConfigMultimodal"`

	Text    int64 `json:"max_text_file_bytes" minimum:"0" maximum:"262144" doc:"Bytes of a text that the model reads; a larger one is only mentioned to it. 0: none is read."`
	Media   int64 `json:"max_media_file_bytes" minimum:"0" maximum:"5242880" doc:"Bytes of an image, a PDF or a recording that the model is given; a larger one is only mentioned to it. 0: none is given."`
	Message int64 `json:"max_message_file_bytes" minimum:"1024" maximum:"10485760" doc:"Bytes of all files of a message together; a message with more is refused."`
}

// Multimodal returns what a message carries of its files to the model.
func (c *contents) Multimodal() *Multimodal { return c.media.Get() }

// contentRoutes returns the operations of the sections about what agents read, write and
// remember.
func (c *contents) contentRoutes() (all []route.Route) {
	all = append(all, routes(c.code, published[CodeInterpreter, CodeInterpreter]{
		name: "code-interpreter", id: "CodeInterpreter", what: "limits of run_code", shown: itself[CodeInterpreter],
		example: `{"timeout_ms": 10000}`, doc: "What a call of the tool run_code may take. tool-security switches it off.",
	})...)
	all = append(all, routes(c.memory, published[AgentMemory, AgentMemory]{
		name: "agent-memory", id: "AgentMemory", what: "defaults and limits of memories", shown: itself[AgentMemory],
		example: `{"default_retrieval_limit": 5}`, doc: "How much agents remember.",
	})...)
	return append(all, routes(c.media, published[Multimodal, Multimodal]{
		name: "multimodal", id: "Multimodal", what: "limits of files in messages", shown: itself[Multimodal],
		example: `{"max_media_file_bytes": 5242880}`, doc: "What messages carry of their files to the model, from the next message on.",
	})...)
}
