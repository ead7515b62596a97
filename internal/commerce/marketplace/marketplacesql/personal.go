package marketplacesql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people.
var Personal = []personal.Table{{
	Name: "marketplace_favourites", By: personal.Member, Column: "user_id", People: []string{"user_id"}, Order: []string{"listing_id"},
	Shown: []string{"listing_id"}, Erased: personal.Deleted,
}}
