//! Path arguments that are not UTF-8.
//!
//! wasmtime traps a guest that passes text that is not UTF-8. But programs in C and Python can pass such a path, and
//! expect an error. So the methods with path arguments are linked again here, and fail for such a path with
//! `illegal-byte-sequence`.

use super::FsView;
use wasmtime::component::{Linker, Resource, WasmStr};
use wasmtime::{AsContext as _, StoreContextMut};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, ErrorCode, HostDescriptor as _, MetadataHashValue,
    NewTimestamp, OpenFlags, PathFlags,
};

/// The interface, as named in the engine's bindings.
const TYPES: &str = "wasi:filesystem/types@0.2.12";

/// An argument of a method.
trait MethodArgument {
    type Value;

    /// Returns the value for the method.
    fn value<T: 'static>(self, store: &StoreContextMut<'_, T>) -> Result<Self::Value, ErrorCode>;
}

impl MethodArgument for WasmStr {
    type Value = String;

    fn value<T: 'static>(self, store: &StoreContextMut<'_, T>) -> Result<String, ErrorCode> {
        match self.to_str(store.as_context()) {
            Ok(path) => Ok(path.into_owned()),
            Err(_) => Err(ErrorCode::IllegalByteSequence),
        }
    }
}

/// Implements arguments that need no conversion.
macro_rules! plain {
    ($($kind:ty),*) => {$(
        impl MethodArgument for $kind {
            type Value = Self;

            fn value<T: 'static>(self, _: &StoreContextMut<'_, T>) -> Result<Self, ErrorCode> {
                Ok(self)
            }
        }
    )*};
}

plain!(
    Resource<Descriptor>,
    PathFlags,
    OpenFlags,
    DescriptorFlags,
    NewTimestamp
);

/// Links methods of `descriptor`, each with its arguments and its result.
macro_rules! methods {
    ($types:ident: $($name:literal $method:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*) => {$(
        $types.func_wrap_async(
            concat!("[method]descriptor.", $name),
            |mut store: StoreContextMut<'_, T>, ($($arg,)*): ($($kind,)*)| {
                Box::new(async move {
                    $(
                        let $arg = match $arg.value(&store) {
                            Ok(value) => value,
                            Err(code) => return Ok((Err(code),)),
                        };
                    )*
                    let done: FsResult<$answer> = store.data_mut().fs().$method($($arg),*).await;
                    Ok((match done {
                        Ok(answer) => Ok(answer),
                        Err(error) => Err(error.downcast()?),
                    },))
                })
            },
        )?;
    )*};
}

/// Links the methods with path arguments, replacing wasmtime's.
pub(super) fn add_to_linker<T: FsView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(TYPES)?;
    methods! { types:
        "create-directory-at" create_directory_at(fd: Resource<Descriptor>, path: WasmStr) -> ();
        "stat-at" stat_at(fd: Resource<Descriptor>, flags: PathFlags, path: WasmStr) -> DescriptorStat;
        "set-times-at" set_times_at(
            fd: Resource<Descriptor>,
            flags: PathFlags,
            path: WasmStr,
            accessed: NewTimestamp,
            modified: NewTimestamp
        ) -> ();
        "link-at" link_at(
            fd: Resource<Descriptor>,
            flags: PathFlags,
            path: WasmStr,
            new_fd: Resource<Descriptor>,
            new_path: WasmStr
        ) -> ();
        "open-at" open_at(
            fd: Resource<Descriptor>,
            flags: PathFlags,
            path: WasmStr,
            open_flags: OpenFlags,
            mode: DescriptorFlags
        ) -> Resource<Descriptor>;
        "readlink-at" readlink_at(fd: Resource<Descriptor>, path: WasmStr) -> String;
        "remove-directory-at" remove_directory_at(fd: Resource<Descriptor>, path: WasmStr) -> ();
        "rename-at" rename_at(
            fd: Resource<Descriptor>,
            path: WasmStr,
            new_fd: Resource<Descriptor>,
            new_path: WasmStr
        ) -> ();
        "symlink-at" symlink_at(fd: Resource<Descriptor>, link_text: WasmStr, path: WasmStr) -> ();
        "unlink-file-at" unlink_file_at(fd: Resource<Descriptor>, path: WasmStr) -> ();
        "metadata-hash-at" metadata_hash_at(
            fd: Resource<Descriptor>,
            flags: PathFlags,
            path: WasmStr
        ) -> MetadataHashValue;
    }
    linker.allow_shadowing(false);
    Ok(())
}
