package charts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// openAPI is what Kubernetes says of its objects, made strict: a field that is
// not known is a fault, as with `kubectl --validate=strict`.
type openAPI struct {
	compiler *jsonschema.Compiler
	kinds    map[string]string // "apps/v1/Deployment" to a schema's URL
}

const definitionsURL = "file:///definitions.json"

// readSwagger reads api/openapi-spec/swagger.json of k8s.io/kubernetes.
func readSwagger(data []byte) (*openAPI, error) {
	var doc struct {
		Definitions map[string]node `json:"definitions"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("cannot read Kubernetes' swagger.json: %w", err)
	}
	o := &openAPI{compiler: jsonschema.NewCompiler(), kinds: map[string]string{}}
	all := node{}
	for name, d := range doc.Definitions {
		all[name] = strict(d)
		gvks, _ := d["x-kubernetes-group-version-kind"].([]any)
		for _, gvk := range gvks {
			g := gvk.(node)
			version := strings.TrimPrefix(fmt.Sprintf("%s/%s", g["group"], g["version"]), "/")
			o.kinds[version+"/"+g["kind"].(string)] = definitionsURL + "#/definitions/" + name
		}
	}
	return o, o.add(definitionsURL, node{"definitions": all})
}

// addCRD adds the kind of a CustomResourceDefinition.
func (o *openAPI) addCRD(crd node) error {
	spec := crd["spec"].(node)
	kind := spec["names"].(node)["kind"].(string)
	for _, version := range spec["versions"].([]any) {
		v := version.(node)
		schema := strict(v["schema"].(node)["openAPIV3Schema"].(node))
		// Of metadata a CRD says nothing.
		schema["properties"].(node)["metadata"] = node{"type": "object"}
		name := fmt.Sprintf("%s/%s/%s", spec["group"], v["name"], kind)
		o.kinds[name] = "file:///" + name + ".json"
		if err := o.add(o.kinds[name], schema); err != nil {
			return err
		}
	}
	return nil
}

func (o *openAPI) add(url string, schema node) error {
	if err := o.compiler.AddResource(url, schema); err != nil {
		return fmt.Errorf("cannot use the schema %s: %w", url, err)
	}
	return nil
}

// validate reports what is wrong with an object.
func (o *openAPI) validate(object node) error {
	name := fmt.Sprintf("%v/%v", object["apiVersion"], object["kind"])
	url, ok := o.kinds[name]
	if !ok {
		return fmt.Errorf("there is no kind %s", name)
	}
	schema, err := o.compiler.Compile(url)
	if err != nil {
		return fmt.Errorf("cannot use the schema of %s: %w", name, err)
	}
	return schema.Validate(object)
}

// strict closes a schema's objects, and translates what OpenAPI says otherwise
// than JSON Schema. Patterns are left out: not all of them are Go's.
func strict(schema node) node {
	out := node{}
	for key, v := range schema {
		if !slices.Contains([]string{"format", "default", "pattern", "nullable"}, key) && !strings.HasPrefix(key, "x-") {
			out[key] = strictValue(v, key)
		}
	}
	description, _ := schema["description"].(string)
	switch {
	case schema["format"] == "int-or-string", schema["x-kubernetes-int-or-string"] == true:
		return node{"type": []any{"string", "integer"}}
	case strings.HasPrefix(description, "Quantity is "):
		return node{"type": []any{"string", "number"}}
	case schema["x-kubernetes-preserve-unknown-fields"] == true:
		return out
	case out["properties"] != nil && out["additionalProperties"] == nil:
		out["additionalProperties"] = false
	}
	return out
}

// strictValue goes on in the keys that hold schemas.
func strictValue(v any, key string) any {
	switch v := v.(type) {
	case node:
		if key != "properties" {
			return strict(v)
		}
		out := node{}
		for name, property := range v {
			out[name] = strict(property.(node))
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			if inner, ok := item.(node); ok {
				item = strict(inner)
			}
			out = append(out, item)
		}
		return out
	}
	return v
}
