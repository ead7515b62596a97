package resource

import (
	"bytes"
	"context"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

// versionTypes are the published types of a kind's versions. They are made at
// start because the id has another name in each kind.
type versionTypes struct {
	version, list, create, rollback, diff reflect.Type
}

func (v *Versioned[T]) publishVersions() versionTypes {
	str, number, object := reflect.TypeFor[string](), reflect.TypeFor[int64](), reflect.TypeFor[schema.Object]()
	field := func(name string, t reflect.Type, tag string) reflect.StructField {
		return reflect.StructField{Name: name, Type: t, Tag: reflect.StructTag(tag)}
	}
	owner := field("ResourceID", str, `json:"`+v.IDField+`" required:"true" format:"uuid"`)
	var types versionTypes
	types.version = named(v.Noun+"Version",
		field("ID", str, `json:"version_id" required:"true" format:"uuid"`),
		owner,
		field("TenantID", str, `json:"tenant_id" required:"true"`),
		field("Number", number, `json:"version" required:"true" doc:"1 for the first, one more with every change of the configuration."`),
		field("Changelog", str, `json:"changelog" required:"true"`),
		field("CreatedAt", reflect.TypeFor[time.Time](), `json:"created_at" required:"true"`),
		field("CreatedBy", str, `json:"created_by" required:"true" doc:"Whose key made it: a user id."`),
		field("Config", object, `json:"config,omitzero" doc:"The `+v.what+`'s configuration as it was. Left out of a summary."`),
	)
	all := reflect.SliceOf(types.version)
	list := []reflect.StructField{field("Items", all, `json:"items" required:"true"`)}
	for _, key := range v.Versions.Keys {
		list = append(list, field(camel(key), all,
			`json:"`+key+`" required:"true" deprecated:"true" doc:"The same as items, under its older name."`))
	}
	types.list = named(v.Noun+"VersionList", append(list,
		field("Total", reflect.TypeFor[int](), `json:"total" required:"true" doc:"How many there are on all pages."`),
		field("HasMore", reflect.TypeFor[*bool](), `json:"has_more,omitzero"`),
		field("Cursor", str, `json:"cursor,omitzero"`))...)
	types.create = named(v.Noun+"VersionCreate",
		field("Changelog", str, `json:"changelog" maxLength:"2000" doc:"What has changed, for people."`))
	types.rollback = named(v.Noun+"Rollback",
		field("Version", number, `json:"version" required:"true" minimum:"1" doc:"Number of the version to go back to."`))
	types.diff = named(v.Noun+"VersionDiff",
		owner,
		field("VersionFrom", number, `json:"version_from" required:"true"`),
		field("VersionTo", number, `json:"version_to" required:"true"`),
		field("Diff", reflect.TypeFor[map[string]fieldDiff](), `json:"diff" required:"true" doc:"The changed fields by name."`),
		field("ChangedFields", reflect.TypeFor[[]string](), `json:"changed_fields" required:"true"`))
	return types
}

type fieldDiff struct {
	From schema.Any `json:"from" required:"true"`
	To   schema.Any `json:"to" required:"true"`
}

// VersionRoutes lists the operations on the versions of a kind: list, create
// (record the configuration as it is), compare two, and roll back to one. The
// number of a version is the path parameter versionNum.
func VersionRoutes[T any](v *Versioned[T]) []route.Route {
	item := v.Path + "/{" + v.Param + "}"
	return []route.Route{
		v.listVersionsRoute(item), v.createVersionRoute(item), v.diffRoute(item), v.rollbackRoute(item),
	}
}

func (v *Versioned[T]) versionRow(method, path, id, summary string, access Access, out reflect.Type) route.Row {
	row := v.row(method, path, "", summary, access, out)
	row.ID = id
	return row
}

// inputOf returns the input type of an operation: the resource's id and fields.
func (v *Versioned[T]) inputOf(fields ...reflect.StructField) reflect.Type {
	id := reflect.StructField{Name: "ID", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(`path:"` + v.Param + `"`)}
	return reflect.StructOf(append([]reflect.StructField{id}, fields...))
}

func textField(name, tag string) reflect.StructField {
	return reflect.StructField{Name: name, Type: reflect.TypeFor[string](), Tag: reflect.StructTag(tag)}
}

func intField(name, tag string) reflect.StructField {
	return reflect.StructField{Name: name, Type: reflect.TypeFor[int](), Tag: reflect.StructTag(tag)}
}

func (v *Versioned[T]) listVersionsRoute(item string) route.Route {
	row := v.versionRow("GET", item+"/versions", "list"+v.Noun+"Versions", "List "+v.one()+"'s versions, newest first.", v.Readers, nil)
	in := v.inputOf(
		textField("Limit", `query:"limit" doc:"Page size, up to `+strconv.Itoa(v.Keep)+`. Left out: all versions at once, without paging."`),
		textField("Cursor", `query:"cursor"`),
		textField("Fields", `query:"fields" doc:"summary leaves the configurations out."`))
	return route.Route{
		Row: row, In: in, Out: v.types.list,
		Call: func(ctx context.Context, who authz.Caller, in any) (any, error) {
			f := reflect.ValueOf(in).Elem()
			return v.versionPage(ctx, who, f.Field(0).String(), f.Field(1).String(), f.Field(2).String(), f.Field(3).String() == "summary")
		},
	}
}

// versionPage answers a list of versions. It sets the paging fields only if the
// request asks for a page.
func (v *Versioned[T]) versionPage(ctx context.Context, who authz.Caller, id, limit, cursor string, summary bool) (any, error) {
	all, err := v.ListVersions(ctx, who.TenantID, id)
	if err != nil {
		return nil, err
	}
	list := reflect.New(v.types.list).Elem()
	list.FieldByName("Total").SetInt(int64(len(all)))
	if limit != "" || cursor != "" {
		scope := page.Scope{Tenant: who.TenantID, List: v.docs.Name + "s", Filter: []string{id}}
		after, err := v.deps.Cursors.Open(scope, cursor)
		if err != nil {
			return nil, err
		}
		for len(all) > 0 && after != "" && !olderThan(all[0], after) {
			all = all[1:]
		}
		size := page.Limit(limit, v.Keep, v.Keep)
		more := len(all) > size
		list.FieldByName("HasMore").Set(reflect.ValueOf(&more))
		if more {
			all = all[:size]
			list.FieldByName("Cursor").SetString(v.deps.Cursors.Seal(scope, strconv.FormatInt(all[size-1].Number, 10)))
		}
	}
	items := reflect.MakeSlice(reflect.SliceOf(v.types.version), 0, len(all))
	for _, version := range all {
		if summary {
			version.Config = nil
		}
		items = reflect.Append(items, v.shown(version))
	}
	list.FieldByName("Items").Set(items)
	for _, key := range v.Versions.Keys {
		list.FieldByName(camel(key)).Set(items)
	}
	return list.Interface(), nil
}

func olderThan(v Version, number string) bool {
	n, err := strconv.ParseInt(number, 10, 64)
	return err == nil && v.Number < n
}

// shown returns a version as clients see it.
func (v *Versioned[T]) shown(version Version) reflect.Value {
	from, to := reflect.ValueOf(version), reflect.New(v.types.version).Elem()
	for i := range from.NumField() {
		to.FieldByName(from.Type().Field(i).Name).Set(from.Field(i))
	}
	return to
}

func (v *Versioned[T]) createVersionRoute(item string) route.Route {
	row := v.versionRow("POST", item+"/versions", "create"+v.Noun+"Version",
		"Record "+v.one()+"'s configuration as a version.", v.Writers, nil)
	row.Status, row.Optional, row.Example = 201, true, `{"changelog":"Before the launch"}`
	return route.Route{
		Row: row, In: v.inputOf(reflect.StructField{Name: "Body", Type: v.types.create}), Out: v.types.version,
		Call: func(ctx context.Context, who authz.Caller, in any) (any, error) {
			f := reflect.ValueOf(in).Elem()
			return v.snapshot(ctx, who, f.Field(0).String(), f.Field(1).FieldByName("Changelog").String())
		},
	}
}

func (v *Versioned[T]) rollbackRoute(item string) route.Route {
	row := v.versionRow("POST", item+"/rollback", "rollback"+v.Noun,
		"Go back to the configuration of a version, as a new version.", v.Writers, nil)
	row.Errors, row.Example = []int{409}, `{"version":1}`
	return route.Route{
		Row: row, In: v.inputOf(reflect.StructField{Name: "Body", Type: v.types.rollback}), Out: v.types.version,
		Call: func(ctx context.Context, who authz.Caller, in any) (any, error) {
			f := reflect.ValueOf(in).Elem()
			return v.rollback(ctx, who, f.Field(0).String(), f.Field(1).FieldByName("Version").Int())
		},
	}
}

func (v *Versioned[T]) diffRoute(item string) route.Route {
	row := v.versionRow("GET", item+"/versions/{versionNum}/diff", "get"+v.Noun+"VersionDiff",
		"Compare two versions of "+v.one()+".", v.Readers, nil)
	in := v.inputOf(
		intField("VersionNum", `path:"versionNum"`),
		intField("CompareTo", `query:"compare_to" doc:"The version to compare with. Left out: the one before."`))
	return route.Route{
		Row: row, In: in, Out: v.types.diff,
		Call: func(ctx context.Context, who authz.Caller, in any) (any, error) {
			f := reflect.ValueOf(in).Elem()
			return v.diff(ctx, who.TenantID, f.Field(0).String(), f.Field(1).Int(), f.Field(2).Int())
		},
	}
}

// diff compares the top-level fields of two versions; from 0 selects the one
// before to. The order of members does not count as a difference; a field that
// one version does not have is null there.
func (v *Versioned[T]) diff(ctx context.Context, tenant, id string, to, from int64) (any, error) {
	if _, err := v.Read(ctx, tenant, id); err != nil {
		return nil, err
	}
	newer, err := v.GetVersion(ctx, tenant, id, to)
	if err != nil {
		return nil, err
	}
	if from == 0 {
		from = newer.Number - 1
	}
	older, err := v.GetVersion(ctx, tenant, id, from)
	if err != nil {
		return nil, err
	}
	fields, err := compare(older.Config, newer.Config)
	if err != nil {
		return nil, err
	}
	d := reflect.New(v.types.diff).Elem()
	d.FieldByName("ResourceID").SetString(id)
	d.FieldByName("VersionFrom").SetInt(from)
	d.FieldByName("VersionTo").SetInt(newer.Number)
	d.FieldByName("Diff").Set(reflect.ValueOf(fields))
	d.FieldByName("ChangedFields").Set(reflect.ValueOf(slices.Sorted(maps.Keys(fields))))
	return d.Interface(), nil
}

func compare(from, to schema.Object) (map[string]fieldDiff, error) {
	older, err := orderedMembers(from)
	if err != nil {
		return nil, err
	}
	newer, err := orderedMembers(to)
	if err != nil {
		return nil, err
	}
	names := maps.Clone(older)
	maps.Copy(names, newer)
	fields := map[string]fieldDiff{}
	for name := range names {
		if !bytes.Equal(older[name], newer[name]) {
			fields[name] = fieldDiff{schema.Any(older[name]), schema.Any(newer[name])}
		}
	}
	return fields, nil
}

// orderedMembers splits a configuration into its members, each with its own
// members in order.
func orderedMembers(config schema.Object) (map[string]jsontext.Value, error) {
	ordered := jsontext.Value(bytes.Clone(config))
	if err := ordered.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return nil, err
	}
	var members map[string]jsontext.Value
	err := json.Unmarshal(ordered, &members)
	return members, err
}
