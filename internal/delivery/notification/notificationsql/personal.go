package notificationsql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{
		Name: "notifications", By: personal.Member, Column: "user_id", People: []string{"user_id"}, Order: []string{"seq"},
		Shown:  []string{"notification_id", "type", "priority", "title", "message", "data", "created_at", "read_at"},
		Erased: personal.Deleted,
	},
	{
		Name: "notification_prefs", By: personal.Member, Column: "user_id", People: []string{"user_id"},
		Shown: []string{"body", "updated_at"}, Erased: personal.Deleted,
	},
	{
		Name: "notification_targets", By: personal.Member, Column: "user_id", People: []string{"user_id", "kind"},
		Shown:  []string{"target_id", "label", "kind", "created_at", "last_at", "last_error"},
		Erased: personal.Deleted,
	},
	{
		Name: "notification_optouts", People: []string{"address_hash"},
		Why: "The hash of an address that wants no mail: without it mail would be sent again.",
	},
	{Name: "notification_mail", People: []string{"subject"}, Why: "It counts the mail of a day by a hash of the address."},
}
