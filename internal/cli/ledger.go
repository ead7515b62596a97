package cli

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"agentd/internal/base/hashchain"
)

type ledgerVerifyCommand struct {
	File string `arg:"" help:"File with an export of the ledger (GET /api/v1/governance/ledger/export)."`
	Head string `placeholder:"HASH" help:"Hash that the head must have, as you noted it before. It also finds an end that was cut off together with its head."`
	Key  string `placeholder:"KEY" help:"Public key, in base64, that must have signed the head (GET /api/v1/governance/ledger/keys)."`
}

// unreadable is the error of a file that is not what the command checks.
type unreadable struct{ error }

// Run implements the command.
func (cmd *ledgerVerifyCommand) Run(inv *invocation) error {
	if key, err := base64.StdEncoding.DecodeString(cmd.Key); cmd.Key != "" && (err != nil || len(key) != ed25519.PublicKeySize) {
		return usageError("--key is no public key of a ledger; they are listed by:  agentd api GET /api/v1/governance/ledger/keys")
	}
	file, err := os.Open(cmd.File)
	if err != nil {
		return unreadable{err}
	}
	defer file.Close()
	head, err := hashchain.Verify(file, hashchain.Expect{Head: cmd.Head, Key: cmd.Key})
	if broken, ok := errors.AsType[*hashchain.BrokenError](err); ok {
		return fmt.Errorf("the ledger is broken: %w", broken)
	}
	if err != nil {
		return unreadable{fmt.Errorf("%s cannot be read as a ledger: %w", cmd.File, err)}
	}
	inv.say("The ledger is whole: %d entries, head %s", head.Seq, head.Hash)
	return nil
}
