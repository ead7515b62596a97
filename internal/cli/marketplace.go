package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/client"
)

const marketPath = "/api/v1/marketplace"

// offer is what is shown of a listing of the marketplace.
type offer struct {
	ListingID   string         `json:"listing_id"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Status      string         `json:"status"`
	Category    string         `json:"category"`
	Pricing     jsontext.Value `json:"pricing"`
	Stats       struct {
		RatingAvg   float64 `json:"rating_avg"`
		RatingCount int     `json:"rating_count"`
		Invocations int     `json:"invocation_count"`
	} `json:"stats"`
}

func (o *offer) rating() string {
	return fmt.Sprintf("%.1f (%d)", o.Stats.RatingAvg, o.Stats.RatingCount)
}

func (s *server) shownOffer(o client.Doc[offer], err error) error {
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(o.Raw)
	}
	s.fields("Listing", o.Value.ListingID, "Name", o.Value.Name, "Status", o.Value.Status, "Category", o.Value.Category,
		"Pricing", string(o.Value.Pricing), "Rating", o.Value.rating(), "Description", o.Value.Description)
	return nil
}

// offers prints listings.
func offers(s *server, path string, query url.Values, limit int, empty string) error {
	return list[offer]{
		path: path, query: query, limit: limit, empty: empty,
		heading: []string{"~NAME", "CATEGORY", "STATUS", "RATING", "PRICING", "LISTING"},
		row: func(o offer) []string {
			return []string{o.Name, o.Category, o.Status, o.rating(), string(o.Pricing), o.ListingID}
		},
	}.show(s)
}

type marketSearchCommand struct {
	listing
	Words    string `arg:"" optional:"" help:"Beginnings of words of the name, the tags or the description."`
	Category string `placeholder:"CATEGORY" help:"Only listings of this category."`
	Sort     string `default:"recency" enum:"recency,rating,popularity" help:"Order: ${enum}."`
}

// Run implements the command.
func (cmd *marketSearchCommand) Run(s *server) error {
	query := url.Values{"sort": {cmd.Sort}}
	if cmd.Words != "" {
		query.Set("q", cmd.Words)
	}
	if cmd.Category != "" {
		query.Set("category", cmd.Category)
	}
	return offers(s, marketPath+"/search", query, cmd.Limit, "Nothing is published that fits.")
}

type marketMineCommand struct{ listing }

// Run implements the command.
func (cmd *marketMineCommand) Run(s *server) error {
	return offers(s, marketPath+"/listings", nil, cmd.Limit,
		"You offer nothing. Offer an agent:  "+s.deps.Program+" marketplace list AGENT NAME --category CATEGORY")
}

type marketListCommand struct {
	remote
	Agent         string  `arg:"" help:"Agent that is offered, by its id or its exact name."`
	Name          string  `arg:"" help:"Name of the listing."`
	Category      string  `required:"" placeholder:"CATEGORY" help:"What it is for, as productivity or research."`
	Description   string  `placeholder:"TEXT" help:"What it does."`
	PricePerRun   float64 `xor:"price" placeholder:"USD" help:"Price of an invocation. Default: it is free."`
	PricePerMonth float64 `xor:"price" placeholder:"USD" help:"Price of a subscription for 30 days, in place of a price of each invocation."`
	Publish       bool    `help:"Publish it at once. Default: it is a draft."`
}

// Run implements the command.
func (cmd *marketListCommand) Run(s *server) error {
	agent, err := s.agentID(cmd.Agent)
	if err != nil {
		return err
	}
	body := map[string]any{
		"agent_id": agent, "name": cmd.Name, "category": cmd.Category, "description": cmd.Description, "publish": cmd.Publish,
	}
	switch {
	case cmd.PricePerRun > 0:
		body["pricing"] = map[string]any{"model": "per_run", "price_per_run_usd": cmd.PricePerRun}
	case cmd.PricePerMonth > 0:
		body["pricing"] = map[string]any{"model": "subscription", "price_per_month_usd": cmd.PricePerMonth}
	}
	made, err := call[offer](s, http.MethodPost, marketPath+"/listings", body)
	return s.shownOffer(made, err)
}

// listingArgument is what every command has that takes a listing.
type listingArgument struct {
	Listing string `arg:"" help:"Id of the listing, as marketplace search shows it."`
}

func (a listingArgument) path(below ...string) string {
	return client.Path(marketPath+"/listings", append([]string{a.Listing}, below...)...)
}

type marketShowCommand struct {
	remote
	listingArgument
}

// Run implements the command.
func (cmd *marketShowCommand) Run(s *server) error {
	o, err := get[offer](s, cmd.path())
	return s.shownOffer(o, err)
}

type marketPublishCommand struct {
	remote
	listingArgument
}

// Run implements the command.
func (cmd *marketPublishCommand) Run(s *server) error {
	return s.send(http.MethodPost, cmd.path("publish"), nil, "Published listing %s.", cmd.Listing)
}

type marketDeprecateCommand struct {
	remote
	listingArgument
}

// Run implements the command.
func (cmd *marketDeprecateCommand) Run(s *server) error {
	return s.send(http.MethodPost, cmd.path("deprecate"), nil, "Took listing %s back.", cmd.Listing)
}

type marketRateCommand struct {
	remote
	listingArgument
	Rating  int    `arg:"" help:"1 to 5."`
	Comment string `placeholder:"TEXT" help:"Why. It is public."`
}

// Run implements the command.
func (cmd *marketRateCommand) Run(s *server) error {
	body := map[string]any{"rating": cmd.Rating, "comment": cmd.Comment}
	return s.send(http.MethodPost, cmd.path("rate"), body, "Rated listing %s.", cmd.Listing)
}

type marketSubscribeCommand struct {
	remote
	listingArgument
	End bool `help:"End the subscription."`
}

// Run implements the command.
func (cmd *marketSubscribeCommand) Run(s *server) error {
	if cmd.End {
		return s.send(http.MethodDelete, cmd.path("subscribe"), nil, "Ended the subscription to listing %s.", cmd.Listing)
	}
	return s.send(http.MethodPost, cmd.path("subscribe"), map[string]any{}, "Subscribed to listing %s.", cmd.Listing)
}

type marketInvokeCommand struct {
	remote
	listingArgument
	Message string `arg:"" help:"What the agent is asked."`
	Detach  bool   `help:"Print the id of the invocation, and do not wait for it."`
}

// invocationPoll is how often invoke looks whether the answer is there.
const invocationPoll = 500 * time.Millisecond

// Run implements the command.
func (cmd *marketInvokeCommand) Run(s *server) error {
	type use struct {
		ID     string `json:"invocation_id"`
		Status string `json:"status"`
		Result struct {
			Text string `json:"text"`
		} `json:"result"`
	}
	made, err := call[use](s, http.MethodPost, cmd.path("invoke"), map[string]any{"input": map[string]string{"message": cmd.Message}})
	if err != nil {
		return err
	}
	if cmd.Detach {
		if cmd.JSON {
			return s.printJSON(made.Raw)
		}
		s.say("%s", made.Value.ID)
		return nil
	}
	for made.Value.Status == "pending" || made.Value.Status == "running" {
		select {
		case <-s.Done():
			return s.Err()
		case <-time.After(invocationPoll):
		}
		if made, err = get[use](s, client.Path(marketPath+"/invocations", made.Value.ID)); err != nil {
			return err
		}
	}
	if cmd.JSON {
		return s.printJSON(made.Raw)
	}
	if made.Value.Status != "completed" {
		return fmt.Errorf("invocation %s failed", made.Value.ID)
	}
	s.say("%s", made.Value.Result.Text)
	return nil
}

type marketRevenueCommand struct{ remote }

// Run implements the command.
func (cmd *marketRevenueCommand) Run(s *server) error {
	type sums struct {
		Earned float64 `json:"earned_usd"`
		Spent  float64 `json:"spent_usd"`
	}
	got, err := get[sums](s, marketPath+"/revenue")
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(got.Raw)
	}
	s.fields("Earned", fmt.Sprintf("$%.2f", got.Value.Earned), "Spent", fmt.Sprintf("$%.2f", got.Value.Spent))
	return nil
}
