package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"agentd/internal/base/secret"
)

const backupKeyVariable = "AGENTD_BACKUP_KEY"

// BackupKeys is which keys open backups, for the commands that make and read them.
type BackupKeys struct {
	Key            secret.String `env:"AGENTD_BACKUP_KEY" name:"backup-key" placeholder:"BASE64" help:"Key that seals backups, 32 bytes in base64. Empty: the secret key does."`
	KeyFile        string        `name:"key-file" placeholder:"FILE" help:"File with the key that seals backups, in place of AGENTD_BACKUP_KEY."`
	PassphraseFile string        `name:"passphrase-file" placeholder:"FILE" help:"File with a passphrase, of 12 characters or more, under which the keys travel in the backup."`
}

// maxKeyFile bounds what is read of a file with a key or a passphrase.
const maxKeyFile = 4096

// Load returns the keys that are configured, the sealing one first; none is no error.
func (b *BackupKeys) Load() ([][]byte, error) {
	name, text := backupKeyVariable, b.Key.Reveal()
	if b.KeyFile != "" {
		read, err := readSmall(b.KeyFile)
		if err != nil {
			return nil, err
		}
		name, text = b.KeyFile, read
	} else if text == "" {
		return nil, nil
	}
	keys, err := decodeKeys(text)
	if err != nil {
		return nil, fmt.Errorf("the key in %s %w", name, err)
	}
	return keys, nil
}

// Passphrase returns the passphrase; empty where no file is named. One that is shorter
// than least is refused.
func (b *BackupKeys) Passphrase(least int) (secret.String, error) {
	if b.PassphraseFile == "" {
		return secret.String{}, nil
	}
	text, err := readSmall(b.PassphraseFile)
	if err != nil {
		return secret.String{}, err
	}
	text = strings.TrimRight(text, "\r\n")
	if n := utf8.RuneCountInString(text); n < least {
		return secret.String{}, fmt.Errorf("the passphrase in %s has %d characters and must have %d: whoever gets the backup can try "+
			"as many as they like", b.PassphraseFile, n, least)
	}
	return secret.New(text), nil
}

func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(text) > maxKeyFile {
		err = errors.New(path + " is too long for a key or a passphrase")
	}
	return string(text), err
}
