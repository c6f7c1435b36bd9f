package loop

import "reflect"

// copied is a copy of s that shares nothing with it that a step may change. The work of a
// step is done on such a copy, so that a step that fails has changed nothing.
func (s State) copied() State {
	return deepCopy(reflect.ValueOf(s)).Interface().(State) //nolint:forcetypeassert // it is a copy of one
}

// deepCopy copies what v consists of. Fields that are not exported are shared: those of times
// and of parsed documents are never changed.
func deepCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() { //nolint:exhaustive // the others are values
	case reflect.Struct:
		for i := range v.NumField() {
			if out.Field(i).CanSet() {
				out.Field(i).Set(deepCopy(v.Field(i)))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(deepCopy(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(deepCopy(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for it := v.MapRange(); it.Next(); {
				out.SetMapIndex(deepCopy(it.Key()), deepCopy(it.Value()))
			}
		}
	}
	return out
}

// textSize is how many bytes of text are in v, in what is stored of it.
func textSize(v reflect.Value) (size int) {
	switch v.Kind() { //nolint:exhaustive // the others hold no text
	case reflect.String:
		return v.Len()
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				size += textSize(v.Field(i))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return textSize(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			size += textSize(v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			size += textSize(it.Key()) + textSize(it.Value())
		}
	}
	return size
}
