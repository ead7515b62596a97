package secret_test

import (
	"fmt"

	"agentd/internal/base/secret"
)

func ExampleBox() {
	box, err := secret.NewBox(make([]byte, 32)) // in production: the key of AGENTD_SECRET_KEY
	if err != nil {
		panic(err)
	}
	sealed := box.Seal([]byte("token"), "acme/server-1")

	plain, err := box.Open(sealed, "acme/server-1")
	fmt.Println(string(plain), err)
	_, err = box.Open(sealed, "acme/server-2") // moved to another row
	fmt.Println(err != nil)
	// Output:
	// token <nil>
	// true
}

func ExampleString() {
	key := secret.New("sk-123")
	fmt.Println(key)
	fmt.Println(key.Reveal())
	// Output:
	// [redacted]
	// sk-123
}
