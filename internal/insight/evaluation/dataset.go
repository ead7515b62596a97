package evaluation

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/resource"
)

// Limits of datasets.
const (
	maxCases     = 100_000
	maxCaseBytes = 256 << 10
	maxDatasets  = 1000 // of an agent
	maxTags      = 50
	maxTagBytes  = 200
)

// Dataset is the head of a dataset; its cases are stored beside it.
type Dataset struct {
	resource.Meta `json:"-"`

	AgentID     string `json:"agent_id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Cases       int    `json:"case_count"`
}

var datasets = resource.Kind[Dataset]{
	Name: "dataset", Path: "/api/v1/datasets", IDField: "dataset_id", Tag: "Evaluations",
	Readers: resource.Access{Scopes: []authz.Scope{"evaluations:read"}},
	Writers: resource.Access{Scopes: []authz.Scope{"evaluations:write"}, Role: authz.Developer},
	Indexes: []resource.Index[Dataset]{{Name: "agent", Of: func(d *Dataset) string { return d.AgentID }}},
	Label:   func(d *Dataset) string { return d.Name },
}

// Case is one case of a dataset as it is stored. Its id follows from the dataset and its
// position.
type Case struct {
	Input             schema.Object  `json:"input"`
	ExpectedOutput    jsontext.Value `json:"expected_output,omitzero"`
	ExpectedToolCalls []ExpectedCall `json:"expected_tool_calls,omitzero"` // nil: any
	Tags              []string       `json:"tags,omitzero"`
	Metadata          schema.Object  `json:"metadata,omitzero"`
}

// ExpectedCall is a tool call that an agent should make.
type ExpectedCall struct {
	_ struct{} `json:"-" name:"EvalExpectedToolCall"`

	Name      string        `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"Name of the tool."`
	Arguments schema.Object `json:"arguments,omitzero" doc:"The arguments that the call must have; others may be there too. Left out: any."`
}

// caseIn is a case as callers send it.
type caseIn struct {
	_ struct{} `json:"-" name:"EvalCaseCreate"`

	Input             schema.Any     `json:"input" required:"true" doc:"The input of the run, as POST /runs takes it: an object with message. A text is the message itself."`
	ExpectedOutput    schema.Any     `json:"expected_output,omitzero" doc:"What the agent should answer: a text, an object with text, or any JSON that the answer should be equal to."`
	ExpectedToolCalls []ExpectedCall `json:"expected_tool_calls,omitzero" maxItems:"200" doc:"The tool calls that the agent should make, in order. An empty array: none. Left out: any."`
	Tags              []string       `json:"tags,omitzero" maxItems:"50" maxLength:"200" doc:"Words of yours to find the case by."`
	Metadata          schema.Object  `json:"metadata,omitzero" doc:"Data of yours, kept and shown with the case."`
}

// caseOf checks a case and returns it as it is stored. The error is a sentence for the
// author of the case.
func (c *caseIn) caseOf() (Case, error) {
	out := Case{
		ExpectedOutput: jsontext.Value(c.ExpectedOutput), ExpectedToolCalls: c.ExpectedToolCalls, Tags: c.Tags, Metadata: c.Metadata,
	}
	if string(c.ExpectedOutput) == "null" {
		out.ExpectedOutput = nil
	}
	switch jsontext.Value(c.Input).Kind() {
	case '"':
		var text string
		if err := json.Unmarshal(c.Input, &text); err != nil {
			return out, fmt.Errorf("input cannot be read")
		}
		if strings.TrimSpace(text) == "" {
			return out, fmt.Errorf("input is blank")
		}
		input, err := json.Marshal(struct {
			Message string `json:"message"`
		}{text})
		if err != nil {
			return out, fmt.Errorf("input is not UTF-8")
		}
		out.Input = input
	case '{':
		if f := fault.From(run.CheckInput(schema.Object(c.Input))); f != nil {
			if len(f.Fields) > 0 {
				return out, fmt.Errorf("%s %s", f.Fields[0].Field, strings.TrimPrefix(f.Fields[0].Message, "it "))
			}
			return out, fmt.Errorf("input: %s", f.Detail)
		}
		out.Input = schema.Object(c.Input)
	default:
		return out, fmt.Errorf("input is neither an object with message nor a text")
	}
	if len(c.Input)+len(c.ExpectedOutput)+len(c.Metadata) > maxCaseBytes {
		return out, fmt.Errorf("the case is larger than %d KiB", maxCaseBytes>>10)
	}
	return out, nil
}

// caseID returns the id of the case at a position of a dataset.
func caseID(datasetID string, seq int) string {
	return ident.Derive(datasetID, "case", fmt.Sprint(seq))
}

// size returns about how many bytes a case has.
func (c Case) size() int { return 200 + len(c.Input) + len(c.ExpectedOutput) + len(c.Metadata) }

// someCases returns up to limit cases from a position on, but no more than fit on a page.
func (s *Service) someCases(ctx context.Context, tenant, datasetID string, first, limit int) (cases []Case, err error) {
	for len(cases) < limit {
		block, err := s.Store.ListCases(ctx, tenant, datasetID, first+len(cases), min(BlockSize, limit-len(cases)))
		if err != nil || len(block) == 0 {
			return cases, err
		}
		cases = append(cases, block...)
		if fit, more := page.Cut(cases, limit, Case.size); more {
			return fit, nil
		}
	}
	return cases, nil
}

// caseView is a case as callers see it.
type caseView struct {
	_ struct{} `json:"-" name:"EvalCase"`

	CaseID            string         `json:"case_id" format:"uuid" required:"true"`
	Input             schema.Object  `json:"input" required:"true"`
	ExpectedOutput    schema.Any     `json:"expected_output,omitzero"`
	ExpectedToolCalls []ExpectedCall `json:"expected_tool_calls,omitzero"`
	Tags              []string       `json:"tags" required:"true"`
	Metadata          schema.Object  `json:"metadata" required:"true"`
}

func viewOfCase(datasetID string, seq int, c *Case) caseView {
	return caseView{
		CaseID: caseID(datasetID, seq), Input: c.Input, ExpectedOutput: schema.Any(c.ExpectedOutput),
		ExpectedToolCalls: c.ExpectedToolCalls, Tags: append([]string{}, c.Tags...), Metadata: c.Metadata,
	}
}

// datasetView is a dataset as callers see it.
type datasetView struct {
	_ struct{} `json:"-" name:"EvalDataset"`

	DatasetID   string     `json:"dataset_id" format:"uuid" required:"true"`
	TenantID    string     `json:"tenant_id" required:"true"`
	AgentID     string     `json:"agent_id" format:"uuid" required:"true"`
	Name        string     `json:"name" required:"true"`
	Description string     `json:"description" required:"true"`
	CaseCount   int        `json:"case_count" required:"true"`
	Cases       []caseView `json:"cases,omitzero" doc:"The first cases, in order, up to 1,000 and 4 MiB; GET …/cases has all of them. Not in lists."`
	Skipped     []string   `json:"skipped,omitzero" doc:"After an import with skip_bad_rows: the rows that were left out, and why."`
	CreatedAt   time.Time  `json:"created_at" required:"true"`
}

func viewOfDataset(d *Dataset) datasetView {
	return datasetView{
		DatasetID: d.ID, TenantID: d.TenantID, AgentID: d.AgentID, Name: d.Name, Description: d.Description, CaseCount: d.Cases,
		CreatedAt: d.CreatedAt,
	}
}

// maxShownCases is how many cases the answers about one dataset show.
const maxShownCases = 1000

func withCases(d *Dataset, cases []Case) datasetView {
	v := viewOfDataset(d)
	v.Cases = []caseView{}
	shown, _ := page.Cut(cases, maxShownCases, Case.size)
	for i := range shown {
		v.Cases = append(v.Cases, viewOfCase(d.ID, i, &cases[i]))
	}
	return v
}

// createDataset stores a dataset with its cases. Errors: fault.NotFound for the agent;
// fault.Conflict where the agent has as many as it may.
func (s *Service) createDataset(ctx context.Context, who authz.Caller, d *Dataset, cases []Case, skipped []string) (*datasetView, error) {
	d.Cases = len(cases)
	var answer datasetView
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.AgentTx(tx, who.TenantID, d.AgentID); err != nil {
			return err
		}
		if err := checkCount(tx, s.datasets, who.TenantID, d.AgentID, maxDatasets, "datasets"); err != nil {
			return err
		}
		kept := *d
		if err := s.datasets.CreateTx(tx, who, &kept); err != nil {
			return err
		}
		for first := 0; first < len(cases); first += BlockSize {
			block := cases[first:min(first+BlockSize, len(cases))]
			if err := s.Store.AppendCasesTx(tx, who.TenantID, kept.ID, first, block); err != nil {
				return err
			}
		}
		answer = withCases(&kept, cases)
		answer.Skipped = skipped
		return txn.Answer(tx, &answer)
	})
	if err != nil {
		return nil, err
	}
	return &answer, nil
}

// checkCount refuses a further thing of an agent that has as many as it may.
func checkCount[T any](tx txn.Tx, store *resource.Store[T], tenant, agentID string, limit int, noun string) error {
	all, err := store.ListTx(tx, tenant, resource.Find{Where: map[string]string{"agent": agentID}, Limit: limit})
	if err == nil && len(all) >= limit {
		err = fault.New(fault.Conflict, "COUNT_LIMIT_REACHED", "An agent has at most %d %s. Delete some first.", limit, noun)
	}
	return err
}

// getDataset returns a dataset of an agent. Errors: fault.NotFound.
func (s *Service) getDataset(ctx context.Context, tenant, agentID, datasetID string) (*Dataset, error) {
	d, err := s.datasets.Get(ctx, tenant, datasetID)
	if err == nil && d.AgentID != agentID {
		err = fault.NewNotFound("dataset")
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}
