package skill

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/agents/agent"
	"agentd/internal/kernel/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const minimal = "---\nname: invoices\ndescription: Writes invoices.\n---\nDo it.\n"

// entry is an entry of an archive; mode 0 is a file.
type entry struct {
	name, data string
	mode       fs.FileMode
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write([]byte(e.data))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestParse reads folders as they are shared: with a folder around them, line ends of
// Windows, and every form of allowed-tools.
func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entries []entry
		want    Parsed
	}{
		"minimal": {[]entry{{"SKILL.md", minimal, 0}}, Parsed{Name: "invoices", Description: "Writes invoices.", Instructions: "Do it."}},
		"folder": {
			[]entry{{"in/", "", fs.ModeDir | 0o755}, {"in/scripts/a.py", "print(1)", 0}, {"in/SKILL.md", minimal, 0}, {"__MACOSX/in/._x", "", 0}},
			Parsed{
				Name: "invoices", Description: "Writes invoices.", Instructions: "Do it.",
				Files: []File{{"scripts/a.py", []byte("print(1)")}},
			},
		},
		"tools in a line": {
			[]entry{{"SKILL.md", "\uFEFF---\r\nname: a\r\ndescription: b\r\nallowed-tools: read_file, Bash(git:*)\r\nlicense: MIT\r\n---\r\n\r\n# A\r\n", 0}},
			Parsed{Name: "a", Description: "b", Instructions: "# A", AllowedTools: []string{"read_file", "Bash(git:*)"}},
		},
		"tools in a list": {
			[]entry{{"SKILL.md", "---\nname: a\ndescription: >\n  b\n  c\nallowed-tools:\n  - write_file\n  - 7\n---\ntext\n---\nmore", 0}},
			Parsed{Name: "a", Description: "b c", Instructions: "text\n---\nmore", AllowedTools: []string{"write_file"}},
		},
	} {
		got, err := Parse(archive(t, c.entries...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, *got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestHostileArchives refuses what would write elsewhere, be too much, or mean nothing,
// each with what is wrong.
func TestHostileArchives(t *testing.T) {
	t.Parallel()
	skill := entry{"SKILL.md", minimal, 0}
	many := []entry{skill}
	for i := range 150 {
		many = append(many, entry{fmt.Sprintf("f%d", i), "x", 0})
	}
	crowd := make([]entry, 10_000)
	for i := range crowd {
		crowd[i] = entry{fmt.Sprintf("d%d/", i), "", fs.ModeDir | 0o755}
	}
	big := strings.Repeat("\x00", maxFile+1)
	var bombs []entry
	for i := range 5 {
		bombs = append(bombs, entry{fmt.Sprintf("b%d", i), big[1:], 0})
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"no zip":            {[]byte("PK\x03\x04 nothing"), "not a zip"},
		"nothing":           {nil, "not a zip"},
		"cut off":           {archive(t, skill)[:60], "not a zip"},
		"up":                {archive(t, skill, entry{"../../etc/passwd", "x", 0}), "leads out"},
		"up inside":         {archive(t, skill, entry{"a/../../b", "x", 0}), "leads out"},
		"absolute":          {archive(t, skill, entry{"/etc/passwd", "x", 0}), "leads out"},
		"a drive":           {archive(t, skill, entry{"C:/x", "x", 0}), "leads out"},
		"backslashes":       {archive(t, skill, entry{`..\x`, "x", 0}), "cannot be used"},
		"zero":              {archive(t, skill, entry{"a\x00b", "x", 0}), "cannot be used"},
		"symlink":           {archive(t, skill, entry{"link", "/etc/passwd", fs.ModeSymlink | 0o777}), "link or a device"},
		"device":            {archive(t, skill, entry{"dev", "", fs.ModeDevice | 0o666}), "link or a device"},
		"twice":             {archive(t, skill, entry{"skill.MD", "x", 0}), "twice"},
		"many files":        {archive(t, many...), "more than 100 files"},
		"10,000 entries":    {archive(t, crowd...), "10000 entries"},
		"one bomb":          {archive(t, skill, entry{"bomb", big, 0}), "too large"},
		"bombs":             {archive(t, append(bombs, skill)...), "too large"},
		"no manifest":       {archive(t, entry{"README.md", "x", 0}), "no SKILL.md"},
		"beside the folder": {archive(t, entry{"a/SKILL.md", minimal, 0}, entry{"b/x", "x", 0}), "not in the folder"},
		"no front matter":   {archive(t, entry{"SKILL.md", "# Hello", 0}), "no front matter"},
		"endless":           {archive(t, entry{"SKILL.md", "---\nname: a\n", 0}), "no front matter"},
		"no YAML":           {archive(t, entry{"SKILL.md", "---\n\t{\n---\nx", 0}), "not YAML"},
		"aliases": {
			archive(t, entry{"SKILL.md", "---\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n" +
				"d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\nallowed-tools: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n---\nx", 0}), "not YAML",
		},
		"no name":         {archive(t, entry{"SKILL.md", "---\ndescription: x\n---\nx", 0}), "name and a description"},
		"long name":       {archive(t, entry{"SKILL.md", "---\nname: " + strings.Repeat("n", 201) + "\ndescription: x\n---\nx", 0}), "more than 200"},
		"no instructions": {archive(t, entry{"SKILL.md", "---\nname: a\ndescription: x\n---\n", 0}), "no instructions"},
		"not UTF-8":       {archive(t, entry{"SKILL.md", "---\nname: \xff\n---\n", 0}), "not UTF-8"},
	} {
		got, err := Parse(c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", name, got, err, c.want)
		}
	}
}

// TestDefinition compiles the tool, which brings the tools that its skills name.
func TestDefinition(t *testing.T) {
	t.Parallel()
	registry, err := tool.NewRegistry(tool.Limits{}, tool.Builtins(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{Tools: registry}
	set := s.Set([]agent.Skill{{Name: "a", Instructions: "x", AllowedTools: []string{"calculator", "Bash"}}, {Name: "b", AllowedTools: []string{"get_time"}}})
	var names []string
	for _, o := range set.Specs() {
		names = append(names, o.Name)
	}
	if diff := cmp.Diff([]string{ToolName, "calculator"}, names); diff != "" {
		t.Error(diff)
	}
	if got := s.Set([]agent.Skill{{Name: "b"}}).Specs(); len(got) != 0 {
		t.Errorf("a skill without instructions brings %v", got)
	}
	for name, want := range map[string]string{"PDF Tools": "skills/pdf-tools", "../..": "skills/", "a/b": "skills/a-b"} {
		if got := Folder(name); got != want {
			t.Errorf("%q is kept in %q", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(archive(f, entry{"in/SKILL.md", minimal, 0}, entry{"in/a", "b", 0}))
	f.Add([]byte("PK"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data)
		if err != nil {
			return
		}
		if p.Name == "" || p.Instructions == "" {
			t.Errorf("%v", p)
		}
		for _, file := range p.Files {
			if strings.HasPrefix(file.Path, "/") || strings.Contains("/"+file.Path+"/", "/../") {
				t.Errorf("the path %q leads out", file.Path)
			}
		}
	})
}
