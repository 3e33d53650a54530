package docs_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// schema is the part of OpenAPI that the schema of JobSet uses for shapes.
type schema struct {
	Type        string             `json:"type"`
	Properties  map[string]*schema `json:"properties"`
	Additional  *schema            `json:"additionalProperties"`
	Items       *schema            `json:"items"`
	Required    []string           `json:"required"`
	Enum        []any              `json:"enum"`
	Minimum     *float64           `json:"minimum"`
	MaxItems    *int               `json:"maxItems"`
	IntOrString bool               `json:"x-kubernetes-int-or-string"`
}

// check returns the errors of v, each with its place. A field that the schema does
// not have is an error: the server would drop it.
func (s *schema) check(at string, v any) []string {
	var bad []string
	say := func(format string, args ...any) { bad = append(bad, at+": "+fmt.Sprintf(format, args...)) }
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		say("%v is none of %v", v, s.Enum)
	}
	switch v := v.(type) {
	case map[string]any:
		if s.Type != "object" {
			say("an object, want %s", s.Type)
			break
		}
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				say("%s is missing", name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch p := s.Properties[name]; {
			case p != nil:
				bad = append(bad, p.check(at+"."+name, v[name])...)
			case s.Additional != nil:
				bad = append(bad, s.Additional.check(at+"."+name, v[name])...)
			case at != "jobset.metadata": // the schema does not describe it
				say("no field is called %s", name)
			}
		}
	case []any:
		if s.Type != "array" || s.MaxItems != nil && len(v) > *s.MaxItems {
			say("a list of %d, want %s", len(v), s.Type)
			break
		}
		for i, item := range v {
			bad = append(bad, s.Items.check(fmt.Sprintf("%s[%d]", at, i), item)...)
		}
	case string:
		if s.Type != "string" && !s.IntOrString {
			say("a string, want %s", s.Type)
		}
	case int:
		if s.Type != "integer" && !s.IntOrString || s.Minimum != nil && float64(v) < *s.Minimum {
			say("%d, want %s", v, s.Type)
		}
	case bool:
		if s.Type != "boolean" {
			say("%v, want %s", v, s.Type)
		}
	default:
		say("%T", v)
	}
	return bad
}

func load(t *testing.T, name string) (*schema, map[string]any) {
	t.Helper()
	text, err := os.ReadFile("../examples/jobset/testdata/jobset-v1alpha2.json")
	if err != nil {
		t.Fatal(err)
	}
	s := new(schema)
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile("../examples/jobset/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var manifest map[string]any
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	return s, manifest
}

func TestManifest(t *testing.T) {
	for _, name := range []string{"jobset.yaml", "continues.yaml"} {
		s, manifest := load(t, name)
		if manifest["apiVersion"] != "jobset.x-k8s.io/v1alpha2" || manifest["kind"] != "JobSet" {
			t.Errorf("%s: %v %v, want the JobSet of the schema", name, manifest["apiVersion"], manifest["kind"])
		}
		if bad := s.check("jobset", manifest); len(bad) > 0 {
			t.Errorf("%s: %s", name, strings.Join(bad, "\n"))
		}
	}
}

// The check finds common errors of users.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(job map[string]any)
		want   string
	}{
		{func(j map[string]any) { j["replica"] = 1 }, "replicatedJobs[0]: no field is called replica"},
		{func(j map[string]any) { j["replicas"] = "1" }, "replicatedJobs[0].replicas: a string, want integer"},
		{func(j map[string]any) { delete(j, "name") }, "replicatedJobs[0]: name is missing"},
		{func(j map[string]any) { j["template"] = []any{} }, "replicatedJobs[0].template: a list of 0, want object"},
		{func(j map[string]any) {
			j["dependsOn"] = []any{map[string]any{"name": "x", "status": "Done"}}
		}, "status: Done is none of [Ready Complete]"},
	} {
		s, manifest := load(t, "jobset.yaml")
		c.change(manifest["spec"].(map[string]any)["replicatedJobs"].([]any)[0].(map[string]any))
		if got := strings.Join(s.check("jobset", manifest), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
