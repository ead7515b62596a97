package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

func TestBill(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := run([]string{self, "v1.2.3"}, out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two bills of one program differ")
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(&first, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Version != "v1.2.3" || len(*bom.Components) < 2 {
		t.Errorf("the bill is %+v", bom)
	}
	for _, c := range *bom.Components {
		switch {
		case !strings.HasPrefix(c.PackageURL, "pkg:golang/"):
			t.Errorf("the component %+v", c)
		case c.Name == "github.com/CycloneDX/cyclonedx-go" && (c.Hashes == nil || len((*c.Hashes)[0].Value) != 64):
			t.Errorf("no hash: %+v", c)
		}
	}
	if err := run([]string{"/etc/passwd", "v1"}, &first); err == nil {
		t.Error("a text has a bill")
	}
}
