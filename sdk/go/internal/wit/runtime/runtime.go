// Package runtime is called by the generated bindings: handles of resources, and memory for values that cross the border
// of the component.
package runtime

import (
	"runtime"
	"unsafe"
)

// Handle is a handle of a resource. It is empty after it was given away.
type Handle struct{ value int32 }

// MakeHandle wraps a handle from the host.
func MakeHandle(value int32) *Handle {
	handle := new(Handle)
	handle.Set(value)
	return handle
}

// Set fills an empty handle.
func (h *Handle) Set(value int32) {
	if value == 0 || h.value != 0 {
		panic("the handle is not valid")
	}
	h.value = value
}

// Use lends the handle.
func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("the resource was given away or dropped")
	}
	return h.value
}

// Take gives the handle away.
func (h *Handle) Take() int32 {
	value := h.Use()
	h.value = 0
	return value
}

// TakeOrNil gives the handle away, or returns 0 if that has happened before.
func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}

// Allocate returns memory that the collector neither moves nor frees before the pinner says so.
func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}
	// Words have the largest alignment that WIT asks for.
	words := make([]uint64, (size+7)/8)
	pointer := unsafe.Pointer(unsafe.SliceData(words))
	pinner.Pin(pointer)
	return pointer
}

// Unpin is called after a call has returned. Values from the host are not in Go's heap: nothing is pinned.
func Unpin() {}
