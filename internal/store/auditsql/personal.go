package auditsql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people.
var Personal = []personal.Table{{
	Name: "audit_log", By: personal.Member, Column: "actor_user_id", Where: "actor_user_id <> ''", Order: []string{"at", "entry_id"},
	People: []string{"actor_user_id", "actor_key_id", "actor_session_id", "ip_address"},
	Shown:  []string{"entry_id", "at", "action", "method", "target_type", "target_id", "details", "ip_address", "request_id"},
	Why: "The record of who did what, without content of runs or files, does not change. Once the account is removed the ids " +
		"in it name nobody.",
}}
