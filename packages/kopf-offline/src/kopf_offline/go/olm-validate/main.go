// validate prints what the validators of operator-framework/api find in a bundle, a line each: the
// validator and its sentence. It prints nothing where they find nothing.
//
// They are those of `operator-sdk bundle validate`. The one that inspects the images runs where a
// container tool, such as docker, is named: it pulls them.
package main

import (
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/api/pkg/validation/errors"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
)

const (
	inspectsImages = "multiarch"
	// The name of its option; the api has it in an internal package.
	containerTool = "container-tools"
)

var validators = []struct {
	name string
	validator.Validator
}{
	{"packagemanifest", validation.PackageManifestValidator},
	{"clusterserviceversion", validation.ClusterServiceVersionValidator},
	{"customresourcedefinition", validation.CustomResourceDefinitionValidator},
	{"bundle", validation.BundleValidator},
	{"operatorhubv2", validation.OperatorHubV2Validator},
	{"categories", validation.StandardCategoriesValidator},
	{"capabilities", validation.StandardCapabilitiesValidator},
	{"object", validation.ObjectValidator},
	{"operatorgroup", validation.OperatorGroupValidator},
	{"community", validation.CommunityOperatorValidator},
	{"alpha-deprecated-apis", validation.AlphaDeprecatedAPIsValidator},
	{"good-practices", validation.GoodPracticesValidator},
	{inspectsImages, validation.MultipleArchitecturesValidator},
}

func main() {
	log.SetFlags(0)
	if len(validators) != len(validation.AllValidators) {
		log.Fatalf("the api knows %d validators, this program %d: put the others in",
			len(validation.AllValidators), len(validators))
	}
	if len(os.Args) < 2 || len(os.Args) > 3 {
		log.Fatal("usage: validate BUNDLE [CONTAINER-TOOL]")
	}
	bundle, err := manifests.GetBundleFromDir(os.Args[1])
	if err != nil {
		report("bundle", err)
		return
	}
	objects := bundle.ObjectsToValidate()
	if len(os.Args) == 3 {
		objects = append(objects, map[string]string{containerTool: os.Args[2]})
	}
	for _, each := range validators {
		if each.name == inspectsImages && len(os.Args) < 3 {
			continue
		}
		for _, result := range each.Validate(objects...) {
			for _, found := range append([]errors.Error(result.Errors), result.Warnings...) {
				report(each.name, found)
			}
		}
	}
}

// report prints a finding on one line, whatever line breaks it has.
func report(validator string, found error) {
	fmt.Printf("%s: %s\n", validator, strings.Join(strings.Fields(found.Error()), " "))
}
