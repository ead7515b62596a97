package reviewsql

import "agentd/internal/kernel/personal"

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{
		Name: "run_feedback", By: personal.Member, Column: "user_id",
		People: []string{"user_id"}, Order: []string{"run_id", "message_id"},
		Shown: []string{"run_id", "message_id", "reaction", "reason", "updated_at"}, Erased: personal.Deleted,
	},
	{
		Name: "run_feedback", By: personal.Run, Column: "run_id", Erased: personal.Deleted,
		Why: "What others think of the person's runs is theirs.",
	},
	{
		Name: "run_checkpoints", By: personal.Run, Column: "run_id", People: []string{"created_by"}, Erased: personal.Deleted,
		Shown: []string{"run_id", "checkpoint_id", "step_seq", "created_at", "created_by"},
	},
}
