//! Preparation of memory images, the initial memory of instances, before the first instance is created.

use std::io;
use std::time::Duration;

use wasmtime::component::Component;

/// Number of attempts, and the pause between them. The condition is rare and usually lasts microseconds; the kernel
/// itself waits for about a sixth of a second.
const MAX_ATTEMPTS: u32 = 10;
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// Prepares the memory images of a component.
///
/// wasmtime has the kernel seal each image. Linux fails with `EBUSY` while another user holds one of the pages, which
/// its own page migration may do at any time. Without this step, images would be sealed during the first call, which
/// would fail.
pub(crate) fn prepare_images(component: Component) -> Component {
    for _ in 0..MAX_ATTEMPTS {
        match component.initialize_copy_on_write_image() {
            Err(error) if is_busy(&error) => std::thread::sleep(RETRY_DELAY),
            // Any other error is reported when an instance is created.
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
    fn images_distinguish_a_busy_system_from_other_faults() {
        let from = |code| wasmtime::Error::from(io::Error::from_raw_os_error(code));
        let busy = if cfg!(windows) { 170 } else { 16 };
        assert!(is_busy(&from(busy)));
        assert!(is_busy(&from(busy).context("making an image")));
        assert!(!is_busy(&from(2)));
        assert!(!is_busy(&wasmtime::Error::msg("(os error 16)")));
    }
}
