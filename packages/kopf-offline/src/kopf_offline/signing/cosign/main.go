// Command cosign is cosign without the key services of clouds: releases are signed with a key in a
// file, or without one. Those services' client libraries take longer to compile than all the rest.
package main

import (
	"errors"
	"log"
	"os"

	"github.com/sigstore/cosign/v3/cmd/cosign/cli"
	cosignError "github.com/sigstore/cosign/v3/cmd/cosign/errors"
)

func main() {
	if err := cli.New().Execute(); err != nil {
		log.Printf("error during command execution: %v", err)
		var known *cosignError.CosignError
		if errors.As(err, &known) {
			os.Exit(known.ExitCode())
		}
		os.Exit(1)
	}
}
