// Package wit_types has the types of WIT that Go does not have. The generated bindings import it.
package wit_types

// Unit is the payload of a result without one.
type Unit struct{}

// Tuple2 is a tuple with two members.
type Tuple2[A, B any] struct {
	F0 A
	F1 B
}

// Tags of an option.
const (
	OptionNone = iota
	OptionSome
)

// Option is a value that can be absent.
type Option[T any] struct {
	isSome bool
	value  T
}

// Some returns an option with a value.
func Some[T any](value T) Option[T] { return Option[T]{true, value} }

// None returns an option without a value.
func None[T any]() Option[T] { return Option[T]{} }

// Tag returns OptionSome or OptionNone.
func (o Option[T]) Tag() uint8 {
	if o.isSome {
		return OptionSome
	}
	return OptionNone
}

// IsSome is true if there is a value.
func (o Option[T]) IsSome() bool { return o.isSome }

// IsNone is true if there is no value.
func (o Option[T]) IsNone() bool { return !o.isSome }

// Some returns the value. It panics without one.
func (o Option[T]) Some() T {
	if !o.isSome {
		panic("the option has no value")
	}
	return o.value
}

// SomeOr returns the value, or the given one if there is none.
func (o Option[T]) SomeOr(otherwise T) T {
	if o.isSome {
		return o.value
	}
	return otherwise
}

// Tags of a result.
const (
	ResultOk = iota
	ResultErr
)

// Result is a value or an error.
type Result[T, E any] struct {
	isErr bool
	value T
	err   E
}

// Ok returns a result with a value.
func Ok[T, E any](value T) Result[T, E] { return Result[T, E]{value: value} }

// Err returns a result with an error.
func Err[T, E any](err E) Result[T, E] { return Result[T, E]{isErr: true, err: err} }

// Tag returns ResultOk or ResultErr.
func (r Result[T, E]) Tag() uint8 {
	if r.isErr {
		return ResultErr
	}
	return ResultOk
}

// IsOk is true for a value.
func (r Result[T, E]) IsOk() bool { return !r.isErr }

// IsErr is true for an error.
func (r Result[T, E]) IsErr() bool { return r.isErr }

// Ok returns the value. It panics for an error.
func (r Result[T, E]) Ok() T {
	if r.isErr {
		panic("the result is an error")
	}
	return r.value
}

// Err returns the error. It panics for a value.
func (r Result[T, E]) Err() E {
	if !r.isErr {
		panic("the result is not an error")
	}
	return r.err
}
