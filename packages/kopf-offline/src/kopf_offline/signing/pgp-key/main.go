// pgp-key makes the OpenPGP key that charts are signed with: `pgp-key NAME EMAIL FOLDER`. Of a key
// that is there it prints the fingerprint: `pgp-key --fingerprint FILE`.
//
// Helm reads keyrings in the binary form that GnuPG 1 had, and makes no keys. The passphrase is
// that of the variable COSIGN_PASSWORD, for a release has one passphrase.
package main

import (
	"crypto"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

func main() {
	var err error
	if os.Args[1] == "--fingerprint" {
		err = tell(os.Args[2])
	} else {
		err = create(os.Args[1], os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func create(name, email, folder string) error {
	config := &packet.Config{Algorithm: packet.PubKeyAlgoRSA, RSABits: 3072, DefaultHash: crypto.SHA512}
	key, err := openpgp.NewEntity(name, "", email, config)
	if err != nil {
		return err
	}
	if passphrase := os.Getenv("COSIGN_PASSWORD"); passphrase != "" {
		if err := key.EncryptPrivateKeys([]byte(passphrase), config); err != nil {
			return err
		}
	}
	public, err := os.Create(filepath.Join(folder, "charts.gpg"))
	if err != nil {
		return err
	}
	defer public.Close()
	if err := key.Serialize(public); err != nil {
		return err
	}
	secret, err := os.OpenFile(filepath.Join(folder, "charts.key"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer secret.Close()
	return key.SerializePrivateWithoutSigning(secret, config)
}

func tell(file string) error {
	keyring, err := os.Open(file)
	if err != nil {
		return err
	}
	defer keyring.Close()
	keys, err := openpgp.ReadKeyRing(keyring)
	if err != nil {
		return err
	}
	fmt.Printf("%X\n", keys[0].PrimaryKey.Fingerprint)
	return nil
}
