package main

import (
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// module begins the import paths of this repository.
const module = "github.com/slurmlet/slurmlet/"

// meanings finds the names that a package gives to different things, and where it declares each.
func meanings(room string, set *token.FileSet, pkg *types.Package, info *types.Info) []place {
	found, own := map[string]map[string][]string{}, ownFields(pkg)
	for _, object := range info.Defs {
		if object == nil || object.Name() == "_" || !declared(pkg, object) {
			continue
		}
		name := strings.ToLower(object.Name())
		if found[name] == nil {
			found[name] = map[string][]string{}
		}
		if m := meaning(object, name); m != "" && !isGiven(object) && !own[object] {
			at := set.Position(object.Pos())
			found[name][m] = append(found[name][m], fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line))
		}
	}
	for name, all := range found { // a function that returns what a value of its name is
		for m, at := range all {
			if value, is := strings.CutPrefix(m, returns); is {
				delete(all, m)
				m = "a function"
				if all[value] != nil {
					m = value
				}
				all[m] = append(all[m], at...)
			}
		}
		found[name] = all
	}
	var several []place
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if all := found[name]; len(all) > 1 {
			one := place{at: room, text: name + " is " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")}
			for _, m := range slices.Sorted(maps.Keys(all)) {
				slices.Sort(all[m])
				one.more = append(one.more, m+": "+strings.Join(all[m], ", "))
			}
			several = append(several, one)
		}
	}
	return several
}

// meaning is what kind of thing an object is. A value or a function that has its
// type's name means that type, and a function that returns what a value of its name
// is means that value. A value of another module's type, or of a basic one, has no
// meaning of its own: a number may be called what it counts.
func meaning(object types.Object, name string) string {
	switch object := object.(type) {
	case *types.TypeName:
		return "a type"
	case *types.Func:
		return meaningOf(object.Signature(), name)
	case *types.Const:
		return "a constant"
	}
	if of(object.Type(), name) {
		return "a type"
	}
	if function, is := object.Type().Underlying().(*types.Signature); is {
		return meaningOf(function, name)
	}
	return valueOf(object.Type())
}

func meaningOf(function *types.Signature, name string) string {
	results := function.Results()
	if results.Len() > 0 && of(results.At(0).Type(), name) {
		return "a type"
	}
	if results.Len() > 0 {
		if value := valueOf(results.At(0).Type()); value != "" {
			return returns + value
		}
	}
	return "a function"
}

// returns begins the meaning of a function that returns a value of this repository.
const returns = "returns "

// ownFields are the fields that their struct and their type name: Job's State is a JobState, and Node's a NodeState.
func ownFields(pkg *types.Package) map[types.Object]bool {
	own := map[types.Object]bool{}
	for _, name := range pkg.Scope().Names() {
		if s, is := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct); is {
			for field := range s.Fields() {
				named, is := field.Type().(*types.Named)
				own[field] = is && named.Obj().Pkg() == pkg && named.Obj().Name() == name+field.Name()
			}
		}
	}
	return own
}

// isGiven says whether the language names a method: Error and String are what fmt calls.
func isGiven(object types.Object) bool {
	function, is := object.(*types.Func)
	return is && function.Signature().Recv() != nil && (object.Name() == "Error" || object.Name() == "String")
}

// valueOf is the meaning of a value of a type of this repository, empty for another one.
func valueOf(t types.Type) string {
	named, ok := element(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil || !strings.HasPrefix(named.Obj().Pkg().Path(), module) {
		return ""
	}
	return "a value of type " + types.TypeString(element(t), func(p *types.Package) string { return p.Name() })
}

// of says whether a type, or what it holds, has this name, in the singular or the
// plural; MainStatus is what the status says of main.
func of(t types.Type, name string) bool {
	named, ok := element(t).(interface{ Obj() *types.TypeName })
	if !ok {
		return false
	}
	whole := strings.ToLower(named.Obj().Name())
	called := strings.TrimSuffix(whole, "status")
	return name == whole || name == called || name == called+"s"
}

// element is what a pointer, slice, map, channel, or an iterator or an atomic pointer of them leads to.
func element(t types.Type) types.Type {
	for {
		switch u := t.(type) {
		case *types.Pointer:
			t = u.Elem()
		case *types.Slice:
			t = u.Elem()
		case *types.Map:
			t = u.Elem()
		case *types.Chan:
			t = u.Elem()
		case *types.Named:
			of, pkg := u.TypeArgs(), u.Obj().Pkg()
			if of.Len() == 1 && pkg != nil && (pkg.Path() == "iter" || pkg.Path() == "sync/atomic") {
				t = of.At(0)
				continue
			}
			return t
		default:
			return t
		}
	}
}
