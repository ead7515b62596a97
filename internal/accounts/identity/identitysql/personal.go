package identitysql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{
		Name: "users", By: personal.Member, Column: "user_id", People: []string{"user_id", "email", "email_verified"},
		Shown: []string{"user_id", "email", "name", "role", "status", "email_verified", "avatar_url", "created_at", "last_login_at"},
		Why: "The account is in use. DELETE /users/{userId} removes name, address, keys and signed-in browsers; the id stays, " +
			"as the company's work refers to it.",
	},
	{
		Name: "api_keys", By: personal.Member, Column: "user_id", People: []string{"user_id", "key_id"}, Order: []string{"key_id"},
		Shown: []string{"key_id", "name", "prefix", "scopes", "status", "created_at", "last_used_at", "expires_at", "revoked_at"},
		Why:   "Keys belong to the account and end with it; the audit log refers to their ids.",
	},
	{
		Name: "browser_sessions", By: personal.Member, Column: "user_id", People: []string{"user_id", "address", "of_key_id"},
		Shown: []string{"session_id", "label", "address", "method", "created_at", "last_used_at", "ended_at"},
		Why:   "Signed-in browsers belong to the account: they end with it, and are deleted some time after they ended.",
	},
	{
		Name: "invites", By: personal.Email, Column: "email",
		People: []string{"email", "invited_by", "mailed"}, Order: []string{"invite_id"},
		Shown: []string{"invite_id", "email", "role", "status", "created_at", "sent_at", "expires_at"}, Erased: personal.Deleted,
	},
}
