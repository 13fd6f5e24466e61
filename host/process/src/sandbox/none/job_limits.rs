//! Limits of a command on Windows: a job object of its own around the process and all its descendants.
//!
//! The job has no restrictions of the user interface: with them, Windows would refuse the second job, which ends the
//! command.
//!
//! Wine accepts the limits of memory and processes but enforces neither, and rejects one of processor time, so a test
//! under wine shows only that the calls are well formed.

#![expect(
    unsafe_code,
    reason = "the standard library has no access to job objects"
)]

use std::ffi::c_void;
use std::io;
use std::num::NonZero;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle, RawHandle};
use std::ptr::null;

use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_CPU_RATE_CONTROL_ENABLE,
    JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP, JOB_OBJECT_LIMIT_ACTIVE_PROCESS,
    JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION, JOB_OBJECT_LIMIT_JOB_MEMORY,
    JOBOBJECT_CPU_RATE_CONTROL_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JOBOBJECTINFOCLASS, JobObjectCpuRateControlInformation, JobObjectExtendedLimitInformation,
    SetInformationJobObject,
};

/// Limits of a command and all its descendants.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobLimits {
    /// Committed memory in bytes.
    pub(super) memory: u64,
    /// Number of processes at the same time. Threads are not counted.
    pub(super) processes: u64,
    /// Processor time in percent of one processor.
    pub(super) cpu: Option<u32>,
}

impl JobLimits {
    /// Applies the limits to a process, which must not have started others yet. They hold as long as one of its
    /// descendants runs: none can leave the job.
    pub(super) fn apply(self, process: RawHandle) -> io::Result<()> {
        // SAFETY: no attributes and no name; the handle has no other owner.
        let job = unsafe {
            let job = CreateJobObjectW(null(), null());
            if job.is_null() {
                return Err(io::Error::last_os_error());
            }
            OwnedHandle::from_raw_handle(job)
        };
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION {
            JobMemoryLimit: usize::try_from(self.memory).unwrap_or(usize::MAX),
            ..Default::default()
        };
        // A command that has crashed ends instead of waiting in a dialog.
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_JOB_MEMORY
            | JOB_OBJECT_LIMIT_ACTIVE_PROCESS
            | JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
        limits.BasicLimitInformation.ActiveProcessLimit =
            u32::try_from(self.processes).unwrap_or(u32::MAX);
        set(&job, JobObjectExtendedLimitInformation, &limits)?;
        if let Some(percent) = self.cpu {
            let mut rate = JOBOBJECT_CPU_RATE_CONTROL_INFORMATION {
                ControlFlags: JOB_OBJECT_CPU_RATE_CONTROL_ENABLE
                    | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP,
                ..Default::default()
            };
            rate.Anonymous.CpuRate = cpu_rate(percent, processors());
            set(&job, JobObjectCpuRateControlInformation, &rate)?;
        }
        // SAFETY: two open handles. The job remains as long as a process is in it.
        let assigned = unsafe { AssignProcessToJobObject(job.as_raw_handle(), process) };
        if assigned == 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

fn set<T>(job: &OwnedHandle, class: JOBOBJECTINFOCLASS, value: &T) -> io::Result<()> {
    // SAFETY: an open handle, and a value of the type that belongs to the class, with its size.
    let done = unsafe {
        SetInformationJobObject(
            job.as_raw_handle(),
            class,
            (&raw const *value).cast::<c_void>(),
            size_of::<T>() as u32,
        )
    };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn processors() -> u32 {
    let count = std::thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(count).unwrap_or(1)
}

/// Converts percent of one processor to the share of all processors, in hundredths of a percent.
fn cpu_rate(percent: u32, processors: u32) -> u32 {
    (percent.saturating_mul(100) / processors).clamp(1, 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_rate_is_a_share_of_all_processors() {
        let rates = [
            (100, 1),
            (100, 4),
            (50, 8),
            (1, 200),
            (400, 2),
            (u32::MAX, 3),
        ];
        let rates = rates.map(|(percent, processors)| cpu_rate(percent, processors));
        assert_eq!(rates, [10_000, 2_500, 625, 1, 10_000, 10_000]);
    }

    #[test]
    fn job_limits_apply_to_a_new_process() {
        let mut command = std::process::Command::new("cmd");
        let mut child = command.args(["/c", "exit 3"]).spawn().unwrap();
        let limits = JobLimits {
            memory: 1 << 30,
            processes: 8,
            cpu: None,
        };
        limits.apply(child.as_raw_handle()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
}
