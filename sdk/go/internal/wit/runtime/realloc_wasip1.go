package runtime

import "unsafe"

// Memory for values from the host is taken from the system, not from Go's heap. An allocation there can start a
// collection, which reads the clocks, and a component that calls an import while the host allocates in it is ended. It also
// works before Go's runtime has started. The memory is never freed: each call has an instance of its own.
var next, end uintptr

// The least that is taken at once: a page of WebAssembly.
const page = 1 << 16

//go:linkname sbrk runtime.sbrk
func sbrk(size uintptr) unsafe.Pointer

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	at := (next + align - 1) &^ (align - 1)
	if next == 0 || at+size > end {
		taken := (size + page - 1) &^ (page - 1)
		if taken == 0 {
			taken = page
		}
		begin := uintptr(sbrk(taken))
		if begin == 0 {
			panic("out of memory")
		}
		at, end = begin, begin+taken
	}
	next = at + size
	pointer := unsafe.Pointer(at)
	if oldSize > 0 {
		copy(unsafe.Slice((*byte)(pointer), size), unsafe.Slice((*byte)(old), min(oldSize, size)))
	}
	return pointer
}
