// Command sbom writes the software bill of materials of a Go program to standard
// output: CycloneDX in JSON, from what the linker has recorded in the program.
// Equal programs have equal bills.
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: sbom PROGRAM VERSION")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	encoder := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON)
	return encoder.SetPretty(true).EncodeVersion(billOf(info, args[1]), cyclonedx.SpecVersion1_6)
}

// billOf lists the program, Go's standard library and every module.
func billOf(info *buildinfo.BuildInfo, version string) *cyclonedx.BOM {
	program := cyclonedx.Component{
		BOMRef: "agentd@" + version, Type: cyclonedx.ComponentTypeApplication, Name: "agentd", Version: version,
		Properties: &[]cyclonedx.Property{},
	}
	for _, s := range info.Settings {
		// A revision and how it was built, not where.
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" || s.Key == "vcs.revision" {
			*program.Properties = append(*program.Properties, cyclonedx.Property{Name: "go:build:" + s.Key, Value: s.Value})
		}
	}
	parts := []cyclonedx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		m = cmp.Or(m.Replace, m)
		parts = append(parts, component(m.Path, m.Version, m.Sum))
	}
	slices.SortFunc(parts, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	refs := make([]string, 0, len(parts))
	for _, p := range parts {
		refs = append(refs, p.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &program}
	bom.Components = &parts
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return bom
}

// component describes a module; sum is its hash in go.sum, "" if it has none.
func component(path, version, sum string) cyclonedx.Component {
	ref := "pkg:golang/" + path + "@" + version
	c := cyclonedx.Component{BOMRef: ref, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: ref}
	if text, ok := strings.CutPrefix(sum, "h1:"); ok {
		if hash, err := base64.StdEncoding.DecodeString(text); err == nil {
			c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}
		}
	}
	return c
}
