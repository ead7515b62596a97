package agent

import "agentd/internal/kernel/resource"

// Versioned returns the store of agents with their versions.
func (a *Agents) Versioned() *resource.Versioned[Agent] { return a.store }
