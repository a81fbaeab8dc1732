package peers

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestEachFieldIsNews: what is new on the stream reaches whoever follows it.
func TestEachFieldIsNews(t *testing.T) {
	assert.False(t, new(Change).HasNews())
	for i := range reflect.TypeFor[Change]().NumField() {
		var c Change
		field := reflect.ValueOf(&c).Elem().Field(i)
		switch field.Kind() {
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		}
		assert.True(t, c.HasNews(), reflect.TypeFor[Change]().Field(i).Name)
	}
}
