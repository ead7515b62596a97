package ratelimit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentd/internal/base/route"
)

// Limits are the limits that the operator sets. The zero Limit means none.
type Limits struct {
	Tenant   Limit // all requests of a tenant
	Key      Limit // all requests of an API key or a browser session
	Endpoint Limit // all requests of a tenant to limit operation
	// Operations are limits of single operations, by their ids, in place of Endpoint.
	Operations map[string]Limit
}

// Limit is a route.Limit that may be unset.
type Limit route.Limit

func (l Limit) rule() *Rule {
	if l == (Limit{}) {
		return nil
	}
	r := NewRule(route.Limit(l))
	return &r
}

// maxPerSecond bounds limits; no node serves more requests than that.
const maxPerSecond = 1_000_000

var periods = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// Parse parses the setting AGENTD_RATE_LIMITS: "off" or "" for no limits, or a
// list such as "tenant=6000/m,key=3000/m" with the names tenant, key and endpoint
// and the periods s, m and h. The error names the invalid part and the reason.
func Parse(text string) (Limits, error) {
	var all Limits
	text = strings.TrimSpace(text)
	if text == "" || text == "off" {
		return all, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		name, rate, found := strings.Cut(part, "=")
		if !found {
			return Limits{}, fmt.Errorf("%q is not a limit; write a list such as tenant=6000/m,key=3000/m, or off", part)
		}
		var into *Limit
		switch name {
		case "tenant":
			into = &all.Tenant
		case "key":
			into = &all.Key
		case "endpoint":
			into = &all.Endpoint
		default:
			return Limits{}, fmt.Errorf("there is no limit for %q; use tenant, key or endpoint", name)
		}
		if *into != (Limit{}) {
			return Limits{}, fmt.Errorf("%s is set twice", name)
		}
		l, err := parseLimit(rate)
		if err != nil {
			return Limits{}, fmt.Errorf("%s: %w", name, err)
		}
		*into = l
	}
	return all, nil
}

// ParseLimit parses one limit, such as 3000/m. "" is none.
func ParseLimit(text string) (Limit, error) {
	if text == "" {
		return Limit{}, nil
	}
	return parseLimit(text)
}

func parseLimit(rate string) (Limit, error) {
	number, unit, _ := strings.Cut(rate, "/")
	per, known := periods[unit]
	if !known {
		return Limit{}, fmt.Errorf("%q has no period; write a number and /s, /m or /h, as in 3000/m", rate)
	}
	n, err := strconv.ParseUint(number, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange):
		n = maxPerSecond * 3601 // too many, whatever the period
	case err != nil:
		return Limit{}, fmt.Errorf("%q is not a whole number of requests", number)
	case n == 0:
		return Limit{}, errors.New("0 would admit nothing; leave the limit out, or write off for no limits")
	}
	if highest := maxPerSecond * uint64(per/time.Second); n > highest {
		return Limit{}, fmt.Errorf("%s is more than the maximum of %d in that period", number, highest)
	}
	return Limit{N: int(n), Per: per}, nil
}

// String returns the limit in the syntax of ParseLimit.
func (l Limit) String() string {
	for unit, per := range periods {
		if per == l.Per {
			return strconv.Itoa(l.N) + "/" + unit
		}
	}
	return ""
}

// String returns the limits in the syntax of Parse, without those of operations.
func (l Limits) String() string {
	var parts []string
	for _, limit := range []struct {
		name string
		Limit
	}{{"tenant", l.Tenant}, {"key", l.Key}, {"endpoint", l.Endpoint}} {
		if text := limit.String(); text != "" {
			parts = append(parts, limit.name+"="+text)
		}
	}
	if parts == nil {
		return "off"
	}
	return strings.Join(parts, ",")
}
