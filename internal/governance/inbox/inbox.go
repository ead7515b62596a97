// Package inbox is the port to the people who govern: what waits for them is sent to
// their notifications.
package inbox

import "agentd/internal/base/txn"

// Item is something that waits for an admin of a company.
type Item struct {
	Type    string // domain.governance.case_filed
	Title   string
	Message string
	Path    string // of the API, where it is read
	AgentID string // the agent that it is about; "": none
	// Key makes the item unique in its company: a second one with the same key is dropped.
	Key string
}

// Sender sends items.
type Sender interface {
	// SendTx sends an item in the transaction that makes it wait.
	SendTx(tx txn.Tx, tenant string, item Item) error
}
