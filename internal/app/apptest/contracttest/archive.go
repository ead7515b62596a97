package contracttest

// skillArchive is a skill as an import takes it: a zip of SKILL.md with a greeting, in
// base64.
const skillArchive = "UEsDBBQAAAAAAAAAIlyFOglTOwAAADsAAAAIAAAAU0tJTEwubWQtLS0KbmFtZTogZ3JlZXRpbmcKZGVzY3JpcHRpb246IFNheXMg" +
	"aGVsbG8uCi0tLQpTYXkgaGVsbG8uClBLAQIUAxQAAAAAAAAAIlyFOglTOwAAADsAAAAIAAAAAAAAAAAAAACAAQAAAABTS0lMTC5t" +
	"ZFBLBQYAAAAAAQABADYAAABhAAAAAAA="
