//! The images of memory that instances start from, made before the first one starts.
//!
//! Never here: what is in them.

use std::io;
use std::time::Duration;

use wasmtime::component::Component;

/// How often the kernel is asked, and how long it is left alone in between. By itself it waits for about a sixth of a
/// second; what it waits for takes microseconds, and is rare.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// The component with its images.
///
/// wasmtime has the kernel seal each image. Linux refuses that with `EBUSY` as long as somebody else holds one of the
/// pages, which its own mover of pages may do at any time; a call would fail that does it in passing.
pub(crate) fn imaged(component: Component) -> Component {
    for _ in 0..TRIES {
        match component.initialize_copy_on_write_image() {
            Err(error) if is_busy(&error) => std::thread::sleep(PAUSE),
            // Anything else is told to who makes an instance.
            _ => break,
        }
    }
    component
}

fn is_busy(error: &wasmtime::Error) -> bool {
    error.chain().any(|cause| {
        let system = cause.downcast_ref::<io::Error>();
        system.is_some_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_system_is_told_from_other_faults() {
        let from = |code| wasmtime::Error::from(io::Error::from_raw_os_error(code));
        let busy = if cfg!(windows) { 170 } else { 16 };
        assert!(is_busy(&from(busy)));
        assert!(is_busy(&from(busy).context("making an image")));
        assert!(!is_busy(&from(2)));
        assert!(!is_busy(&wasmtime::Error::msg("(os error 16)")));
    }
}
