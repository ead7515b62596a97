package evaluation

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

type (
	agentIn struct {
		AgentID string `path:"agentId"`
	}
	datasetIn struct {
		AgentID   string `path:"agentId"`
		DatasetID string `path:"datasetId"`
	}
	scorerIDIn struct {
		AgentID  string `path:"agentId"`
		ScorerID string `path:"scorerId"`
	}
	casesIn struct {
		AgentID   string `path:"agentId"`
		DatasetID string `path:"datasetId"`
		Limit     string `query:"limit" doc:"Cases per page, 1 to 1,000; 100 if omitted."`
		Cursor    string `query:"cursor"`
	}
	createIn struct {
		AgentID string `path:"agentId"`
		Body    datasetBody
	}
	importIn struct {
		AgentID     string `path:"agentId"`
		Name        string `query:"name" maxLength:"200" doc:"What the dataset is called. Default: the name of the file."`
		Format      string `query:"format" enum:"jsonl,csv" doc:"jsonl: a JSON object with the fields of a case on each line. csv: comma-separated values, whose first row names the columns. Default: by the name of the file, or by its first character."`
		SkipBadRows bool   `query:"skip_bad_rows" doc:"Rows that are no cases are left out and named in skipped. Default: the file is refused, and the answer names them."`
		Body        route.Upload
	}
)

// datasetBody is the body of a creation.
type datasetBody struct {
	_ struct{} `json:"-" name:"EvalDatasetCreate"`

	Name        string    `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"What the dataset is called."`
	Description string    `json:"description,omitzero" maxLength:"5000" doc:"What its cases are about."`
	Cases       []caseIn  `json:"cases,omitzero" maxItems:"100000" doc:"The cases. A JSON body is limited to 10 MiB; larger datasets are imported from files."`
	FromRuns    *fromRuns `json:"from_runs,omitzero" doc:"Makes cases of runs of the agent, in place of cases or after them."`
}

type (
	datasetList struct {
		_ struct{} `json:"-" name:"EvalDatasetList"`

		Datasets []datasetView `json:"datasets" required:"true" doc:"Oldest first, without their cases."`
		Total    int           `json:"total" required:"true"`
	}
	scorerList struct {
		_ struct{} `json:"-" name:"AgentScorerList"`

		Scorers []scorerView `json:"scorers" required:"true" doc:"Oldest first."`
		Total   int          `json:"total" required:"true"`
	}
	caseList struct {
		_ struct{} `json:"-" name:"EvalCaseList"`

		Cases   []caseView `json:"cases" required:"true"`
		HasMore bool       `json:"has_more" required:"true"`
		Cursor  string     `json:"cursor,omitzero"`
	}
)

func (s *Service) datasetRoutes() []route.Route {
	const one = "/datasets/{datasetId}"
	create := row("POST", "/datasets", "createDataset", "Create a dataset",
		"The cases stand in the body, or are made of runs of the agent.", 201)
	upload := row("POST", "/datasets/import", "importDataset", "Import a dataset from a file",
		"Takes JSON lines or comma-separated values, up to 100,000 cases. A row that is no case is named by its line.", 201)
	upload.Uploads, upload.AnswerOf = []string{route.Form, route.Bytes}, reflect.TypeFor[datasetView]()
	remove := row("DELETE", one, "deleteDataset", "Delete a dataset",
		"Evaluations of it keep their results. One that is under way ends: its further cases are gone.", 204)
	remove.Destroys = true
	return []route.Route{
		route.Action(create, s.create),
		route.Action(upload, s.upload),
		route.Action(row("GET", "/datasets", "listDatasets", "List the datasets of an agent", "", 200), s.listDatasets),
		route.Action(row("GET", one, "getDataset", "Get a dataset", "", 200), s.showDataset),
		route.Action(row("GET", one+"/cases", "listDatasetCases", "List the cases of a dataset", "", 200), s.listCases),
		route.Action(remove, s.deleteDataset),
	}
}

func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (*datasetView, error) {
	if err := s.known(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	var wrong []fault.Field
	if strings.TrimSpace(in.Body.Name) == "" {
		wrong = append(wrong, fault.Field{Field: "name", Message: "it is blank"})
	}
	cases := make([]Case, 0, len(in.Body.Cases))
	for i := range in.Body.Cases {
		c, err := in.Body.Cases[i].caseOf()
		if err != nil {
			wrong = append(wrong, fault.Field{Field: fmt.Sprintf("cases[%d]", i), Message: err.Error()})
			continue
		}
		cases = append(cases, c)
	}
	if wrong == nil && in.Body.FromRuns != nil {
		made, err := s.casesOfRuns(ctx, who.TenantID, in.AgentID, in.Body.FromRuns)
		if err != nil {
			return nil, err
		}
		cases = append(cases, made...)
	}
	switch {
	case wrong != nil:
	case len(cases) == 0:
		wrong = append(wrong, fault.Field{Field: "cases", Message: "there is none; send cases, or from_runs that selects some runs"})
	case len(cases) > maxCases:
		wrong = append(wrong, fault.Field{Field: "cases", Message: fmt.Sprintf("there are more than %d", maxCases)})
	}
	if wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	d := s.datasets.Blank()
	d.AgentID, d.Name, d.Description = in.AgentID, in.Body.Name, in.Body.Description
	return s.createDataset(ctx, who, d, cases, nil)
}

func (s *Service) upload(ctx context.Context, who authz.Caller, in *importIn) (*datasetView, error) {
	if err := s.known(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	format := in.Format
	switch file := strings.ToLower(in.Body.Name); {
	case format != "":
	case strings.HasSuffix(file, ".csv"):
		format = commas
	case strings.HasSuffix(file, ".jsonl"), strings.HasSuffix(file, ".ndjson"):
		format = jsonLines
	}
	r, err := readRows(in.Body.Content, format)
	if err != nil {
		return nil, err
	}
	if r.bad != nil && (!in.SkipBadRows || len(r.cases) == 0) {
		return nil, fault.BadFields(r.fields()...)
	}
	d := s.datasets.Blank()
	d.AgentID, d.Name = in.AgentID, strings.TrimSpace(in.Name)
	if d.Name == "" {
		d.Name = strings.TrimSpace(in.Body.Name)
	}
	if d.Name == "" {
		return nil, fault.BadFields(fault.Field{Field: "name", Message: "it is blank, and the file has no name; set the query parameter name"})
	}
	return s.createDataset(ctx, who, d, r.cases, r.skipped())
}

func (s *Service) listDatasets(ctx context.Context, who authz.Caller, in *agentIn) (*datasetList, error) {
	if err := s.known(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	all, err := s.datasets.List(ctx, who.TenantID, ofAgent(in.AgentID, maxDatasets))
	l := &datasetList{Datasets: []datasetView{}, Total: len(all)}
	for _, d := range all {
		l.Datasets = append(l.Datasets, viewOfDataset(d))
	}
	return l, err
}

func (s *Service) showDataset(ctx context.Context, who authz.Caller, in *datasetIn) (*datasetView, error) {
	d, err := s.getDataset(ctx, who.TenantID, in.AgentID, in.DatasetID)
	if err != nil {
		return nil, err
	}
	cases, err := s.someCases(ctx, who.TenantID, d.ID, 0, maxShownCases)
	v := withCases(d, cases)
	return &v, err
}

func (s *Service) listCases(ctx context.Context, who authz.Caller, in *casesIn) (*caseList, error) {
	d, err := s.getDataset(ctx, who.TenantID, in.AgentID, in.DatasetID)
	if err != nil {
		return nil, err
	}
	scope := page.ScopeOf(who.TenantID, "dataset_cases", in)
	position, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	first, limit := 0, page.Limit(in.Limit, 100, maxShownCases)
	if position != "" {
		if first, err = strconv.Atoi(position); err != nil {
			return nil, err
		}
	}
	cases, err := s.someCases(ctx, who.TenantID, d.ID, first, limit)
	if err != nil {
		return nil, err
	}
	l := &caseList{Cases: []caseView{}, HasMore: first+len(cases) < d.Cases}
	for i := range cases {
		l.Cases = append(l.Cases, viewOfCase(d.ID, first+i, &cases[i]))
	}
	if l.HasMore {
		l.Cursor = s.Cursors.Seal(scope, strconv.Itoa(first+len(cases)))
	}
	return l, nil
}

func (s *Service) deleteDataset(ctx context.Context, who authz.Caller, in *datasetIn) (*struct{}, error) {
	if _, err := s.getDataset(ctx, who.TenantID, in.AgentID, in.DatasetID); err != nil {
		return nil, err
	}
	return nil, s.removeDataset(ctx, who, in.DatasetID)
}

func (s *Service) listScorers(ctx context.Context, who authz.Caller, in *agentIn) (*scorerList, error) {
	if err := s.known(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	all, err := s.scorers.List(ctx, who.TenantID, ofAgent(in.AgentID, maxScorers))
	l := &scorerList{Scorers: []scorerView{}, Total: len(all)}
	for _, c := range all {
		l.Scorers = append(l.Scorers, viewOfScorer(c))
	}
	return l, err
}

func (s *Service) deleteScorer(ctx context.Context, who authz.Caller, in *scorerIDIn) (*struct{}, error) {
	c, err := s.scorers.Get(ctx, who.TenantID, in.ScorerID)
	if err == nil && c.AgentID != in.AgentID {
		err = fault.NewNotFound("scorer")
	}
	if err != nil {
		return nil, err
	}
	return nil, s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.scorers.DeleteTx(tx, who, in.ScorerID); err != nil {
			return err
		}
		return txn.Answer(tx, nil)
	})
}
