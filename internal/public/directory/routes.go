package directory

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/quota"
	"agentd/internal/operation/setting"
)

const (
	tag  = "Public"
	path = "/api/v1/public"
)

// Routes returns the operations for strangers, and the one by which the operator reads
// what was counted.
func (s *Service) Routes() []route.Route {
	row := func(method, at, id, summary string, errors ...int) route.Row {
		return route.Row{
			Method: method, Path: path + at, ID: id, Tag: tag, Summary: summary, Public: true, Errors: errors,
			Limits: []route.Limit{{N: 600, Per: time.Minute}},
		}
	}
	get := row("GET", "/tenants/{slug}", "getPublicTenantProfile", "Get the profile of a company", 404)
	css := row("GET", "/tenants/{slug}/style.css", "getPublicTenantStylesheet", "Get the style sheet of a company", 404)
	css.Doc = "Custom properties of the company's branding: --brand-primary-color: #1f5fbf. " +
		"Colours are as they are, all else is a quoted string."
	get.Refused, css.Refused = "public_profile.refused", "public_profile.refused"
	track := row("POST", "/track", "publicTrackEvent", "Count an event of a page")
	track.Status, track.Example = 204, `{"event":"pricing.viewed"}`
	track.Doc = "Only the name and the day are counted. Nothing is kept of who sent it."
	counted := setting.Operation("GET", "/public-events", "listPublicEvents", "List what pages for strangers counted",
		"The events of POST /public/track by day and name, newest day first.")
	return []route.Route{
		route.Action(row("GET", "/plans", "listPublicPlans", "List plans"), s.plans),
		route.Action(row("GET", "/tenants", "listPublicTenants", "List companies with a public profile"), s.list),
		route.Action(get, s.get), route.Action(css, s.css), route.Action(track, s.track), route.Action(counted, s.counted),
	}
}

type (
	planList struct {
		_ struct{} `json:"-" name:"PublicPlanList"`

		Plans []plan `json:"plans" required:"true" doc:"The plans, in the operator's order."`
	}
	plan struct {
		_ struct{} `json:"-" name:"PublicPlan"`

		ID            string       `json:"id" required:"true" doc:"The plan."`
		Name          string       `json:"name" required:"true" doc:"Its name."`
		PriceCents    int64        `json:"price_amount_cents" required:"true" doc:"Its price, in hundredths of price_currency; 0: none is named."`
		PriceCurrency string       `json:"price_currency" required:"true" doc:"ISO 4217, lower case."`
		Quotas        quota.Limits `json:"quotas" required:"true" doc:"What it allows. Null: no limit."`
	}
)

func (s *Service) plans(context.Context, authz.Caller, *struct{}) (planList, error) {
	out := planList{Plans: []plan{}}
	for _, p := range s.Plans() {
		out.Plans = append(out.Plans, plan{
			ID: p.ID, Name: p.Name, PriceCents: p.PriceCents, PriceCurrency: cmp.Or(p.PriceCurrency, "usd"), Quotas: p.Limits,
		})
	}
	return out, nil
}

type (
	listIn struct {
		Category string `query:"category" maxLength:"50" doc:"Only companies of this field of business."`
		Sort     string `query:"sort" enum:"recent,agents,name" doc:"recent: newest profiles first, the default. agents: most public agents first. name: by name."`
		Search   string `query:"search" maxLength:"200" doc:"Only companies that have all of these words in name, description, category or tags."`
		Limit    string `query:"limit" doc:"Companies per page, 1 to 100. Default: 50."`
		Cursor   string `query:"cursor"`
	}
	tenantList struct {
		_ struct{} `json:"-" name:"PublicTenantList"`

		Items   []Listing `json:"items" required:"true" doc:"The companies."`
		Cursor  *string   `json:"cursor" required:"true" doc:"Of the next page; null: there is none."`
		HasMore bool      `json:"has_more" required:"true" doc:"Whether there is another page."`
		Total   int       `json:"total" required:"true" doc:"Number of companies that match, of the newest 1,000."`
	}
)

func (s *Service) list(ctx context.Context, _ authz.Caller, in *listIn) (*tenantList, error) {
	order := orders[cmp.Or(in.Sort, "recent")]
	if order == nil {
		return nil, fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter sort must be recent, agents or name.")
	}
	scope := page.ScopeOf("", "public_tenants", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	all, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	found := []Listing{}
	for _, l := range all {
		if l.matches(in.Category, in.Search) {
			found = append(found, l)
		}
	}
	slices.SortStableFunc(found, order)
	out, n := &tenantList{Items: found, Total: len(found)}, page.Limit(in.Limit, 50, 100)
	if after != "" { // a company that is gone meanwhile: the list starts over
		at := slices.IndexFunc(found, func(l Listing) bool { return l.TenantID == after })
		out.Items = found[at+1:]
	}
	if len(out.Items) > n {
		out.Items, out.HasMore = out.Items[:n], true
		next := s.Cursors.Seal(scope, out.Items[n-1].TenantID)
		out.Cursor = &next
	}
	return out, nil
}

type slugIn struct {
	Slug string `path:"slug" format:"any"`
}

var (
	slugForm  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	errNobody = fault.New(fault.NotFound, "", "There is no public profile of this name.")
)

func (s *Service) find(ctx context.Context, slug string) (*Company, error) {
	if !slugForm.MatchString(slug) {
		return nil, errNobody
	}
	c, err := s.Store.Get(ctx, slug)
	if err == nil && c == nil {
		return nil, errNobody
	}
	return c, err
}

func (s *Service) get(ctx context.Context, _ authz.Caller, in *slugIn) (*Listing, error) {
	c, err := s.find(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	out, err := s.show(ctx, c)
	return &out, err
}

func (s *Service) css(ctx context.Context, _ authz.Caller, in *slugIn) (*route.Content, error) {
	c, err := s.find(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	text := stylesheet(c.Branding)
	sum := sha256.Sum256(text)
	return &route.Content{
		Name: "style.css", Type: "text/css; charset=utf-8", Inline: true, ETag: hex.EncodeToString(sum[:12]), Size: int64(len(text)),
		Body: struct {
			io.ReadSeeker
			io.Closer
		}{bytes.NewReader(text), io.NopCloser(nil)},
	}, nil
}

var (
	propertyName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,49}$`)
	// color matches what stands in a style sheet as it is.
	color = regexp.MustCompile(`^#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})$`)
)

// stylesheet returns the custom properties of a branding. A value is a colour or a quoted
// string, in which nothing ends the string: the author of a branding cannot write other CSS.
func stylesheet(branding jsontext.Value) []byte {
	var members map[string]jsontext.Value
	if len(branding) > 0 && json.Unmarshal(branding, &members) != nil {
		members = nil
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	b := bytes.NewBufferString(":root {\n")
	for _, name := range names {
		var value string
		if !propertyName.MatchString(name) || json.Unmarshal(members[name], &value) != nil || len(value) > 500 {
			continue
		}
		if !color.MatchString(value) {
			if strings.HasSuffix(name, "color") || strings.HasSuffix(name, "colour") {
				continue // stored before colours were checked
			}
			value = quoted(value)
		}
		b.WriteString("  --brand-" + strings.ReplaceAll(name, "_", "-") + ": " + value + ";\n")
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// quoted returns a text as a string of CSS: whatever could mean something there is an
// escape.
func quoted(text string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		if r >= ' ' && r < 0x7f && !strings.ContainsRune(`"\<>&{};/*`, r) || r >= 0xa0 {
			b.WriteRune(r)
			continue
		}
		if r >= 0x100 {
			continue
		}
		b.WriteString(`\0000` + string(digits[r>>4&15]) + string(digits[r&15]))
	}
	b.WriteByte('"')
	return b.String()
}

type (
	trackIn   struct{ Body trackBody }
	trackBody struct {
		_ struct{} `json:"-" name:"PublicTrackEvent"`

		Event      string        `json:"event" required:"true" pattern:"^[a-z][a-z0-9_.:-]{0,63}$" doc:"Name of the event: lower-case letters, digits and _ . : -"`
		Properties schema.Object `json:"properties,omitzero" doc:"Free data of the page, which is accepted and not kept."`
	}
)

// maxNames is how many names of events a day has.
const maxNames = 200

func (s *Service) track(_ context.Context, _ authz.Caller, in *trackIn) (struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.events[in.Body.Event]; known || len(s.events) < maxNames {
		s.events[in.Body.Event]++
	}
	return struct{}{}, nil
}

const dayFormat = "2006-01-02"

// flushEvery is how often counted events are stored: beacons of strangers cause no write
// each.
const flushEvery = 2 * time.Second

// Serve stores what was counted, until ctx ends.
func (s *Service) Serve(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = s.Flush(context.WithoutCancel(ctx)) // a count that is lost here is a count
			return
		case <-tick.C:
			_ = s.Flush(ctx) // the counts stay, and are tried again
		}
	}
}

// Flush stores what was counted.
func (s *Service) Flush(ctx context.Context) error {
	s.mu.Lock()
	counted := s.events
	s.events = map[string]int64{}
	s.mu.Unlock()
	if len(counted) == 0 {
		return nil
	}
	err := s.Store.IncrementEvents(ctx, s.Clock.Now().UTC().Format(dayFormat), counted, maxNames)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		for name, n := range counted {
			s.events[name] += n
		}
	}
	return err
}

type (
	countedIn struct {
		Days int `query:"days" minimum:"1" maximum:"365" default:"30" doc:"How many days, today included."`
	}
	// Counted is the number of an event on a day.
	Counted struct {
		_ struct{} `json:"-" name:"PublicEventCount"`

		Day    string `json:"day" required:"true" doc:"The day, UTC."`
		Event  string `json:"event" required:"true" doc:"Name of the event."`
		Number int64  `json:"number" required:"true" doc:"How often it was counted."`
	}
	countedList struct {
		_ struct{} `json:"-" name:"PublicEventCounts"`

		Events []Counted `json:"events" required:"true" doc:"Newest day first."`
	}
)

// CountedSince returns the numbers of events since a day, newest day first.
func (s *Service) CountedSince(ctx context.Context, day string) ([]Counted, error) {
	if err := s.Flush(ctx); err != nil {
		return nil, err
	}
	return s.Store.ListEvents(ctx, day, 365*maxNames)
}

func (s *Service) counted(ctx context.Context, _ authz.Caller, in *countedIn) (countedList, error) {
	all, err := s.CountedSince(ctx, s.Clock.Now().UTC().AddDate(0, 0, 1-in.Days).Format(dayFormat))
	if all == nil {
		all = []Counted{}
	}
	return countedList{Events: all}, err
}
