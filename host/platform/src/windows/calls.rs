//! The system calls of [`super`]. All unsafe code of the crate is here.

#![expect(
    unsafe_code,
    reason = "the standard library has no access to security descriptors and file indexes"
)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::windows::ffi::OsStrExt as _;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use windows_sys::Win32::Foundation::{
    ERROR_SUCCESS, GENERIC_READ, GENERIC_WRITE, HANDLE, INVALID_HANDLE_VALUE, LocalFree,
    WAIT_OBJECT_0,
};
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW, GetSecurityInfo,
    SDDL_REVISION_1, SE_FILE_OBJECT, SetSecurityInfo,
};
use windows_sys::Win32::Security::{
    ACCESS_ALLOWED_ACE, ACE_HEADER, ACL, DACL_SECURITY_INFORMATION, GetAce,
    GetSecurityDescriptorControl, GetSecurityDescriptorDacl, GetSecurityDescriptorOwner,
    GetTokenInformation, IsValidSid, OWNER_SECURITY_INFORMATION,
    PROTECTED_DACL_SECURITY_INFORMATION, PSID, SE_DACL_PROTECTED, SECURITY_ATTRIBUTES, TOKEN_QUERY,
    TOKEN_USER, TokenUser, UNPROTECTED_DACL_SECURITY_INFORMATION,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, CREATE_NEW, CreateDirectoryW, CreateFileW, FILE_ATTRIBUTE_NORMAL,
    FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, GetDiskFreeSpaceExW,
    GetFileInformationByHandle,
};
use windows_sys::Win32::System::Console::{
    FlushConsoleInputBuffer, GetStdHandle, STD_INPUT_HANDLE,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION,
    JOB_OBJECT_LIMIT_PROCESS_MEMORY, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectExtendedLimitInformation, SetInformationJobObject,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, OpenProcess, OpenProcessToken, PROCESS_SYNCHRONIZE, WaitForSingleObject,
};

use super::descriptor::SecurityDescriptor;

/// Memory that the system has allocated for a security descriptor.
pub(super) struct DescriptorMemory(*mut c_void);

impl Drop for DescriptorMemory {
    fn drop(&mut self) {
        // SAFETY: the system has allocated the memory for the caller to free, and nothing else refers to it.
        unsafe { LocalFree(self.0) };
    }
}

/// An entry of an access control list.
pub(super) struct AccessEntry {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) mask: u32,
    /// The user or group, if the entry has the usual layout.
    pub(super) sid: Option<String>,
}

/// Converts the result of a call that returns zero on error.
fn check(result: i32) -> io::Result<()> {
    if result == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Converts the result of a call that returns an error code.
fn check_code(code: u32) -> io::Result<()> {
    if code == ERROR_SUCCESS {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(code.cast_signed()))
}

/// Converts a path or a text to the form that the system takes. Fails for one that contains a zero.
fn wide(path: impl AsRef<std::ffi::OsStr>) -> io::Result<Vec<u16>> {
    let mut wide: Vec<u16> = path.as_ref().encode_wide().collect();
    if wide.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    wide.push(0);
    Ok(wide)
}

/// Converts a path of any length. Beyond 260 characters, these calls take only the verbatim form.
fn wide_path(path: &Path) -> io::Result<Vec<u16>> {
    let full = std::path::absolute(path)?;
    let text = full.as_os_str();
    if text.len() < 240 || text.as_encoded_bytes().starts_with(br"\\") {
        return wide(text);
    }
    let mut verbatim = std::ffi::OsString::from(r"\\?\");
    verbatim.push(text);
    wide(verbatim)
}

/// Returns the SID of the user who runs this process.
pub(super) fn current_user() -> io::Result<&'static str> {
    static USER: OnceLock<String> = OnceLock::new();
    if let Some(user) = USER.get() {
        return Ok(user);
    }
    let user = read_current_user()?;
    Ok(USER.get_or_init(|| user))
}

fn read_current_user() -> io::Result<String> {
    // Eight bytes each, for the alignment of TOKEN_USER. A SID has at most 68 bytes.
    let mut buffer = [0u64; 32];
    let mut length = 0;
    // SAFETY: the buffer is as long as stated and aligned for TOKEN_USER, whose SID points into it.
    unsafe {
        let mut token: HANDLE = null_mut();
        check(OpenProcessToken(
            GetCurrentProcess(),
            TOKEN_QUERY,
            &raw mut token,
        ))?;
        let token = OwnedHandle::from_raw_handle(token);
        check(GetTokenInformation(
            token.as_raw_handle(),
            TokenUser,
            buffer.as_mut_ptr().cast(),
            size_of_val(&buffer) as u32,
            &raw mut length,
        ))?;
        let user = buffer.as_ptr().cast::<TOKEN_USER>();
        sid_text((*user).User.Sid)
    }
}

/// Returns a SID in its text form, such as `S-1-5-18`.
///
/// # Safety
///
/// `sid` points to a valid SID.
unsafe fn sid_text(sid: PSID) -> io::Result<String> {
    let mut text: *mut u16 = null_mut();
    // SAFETY: by the contract of this function, and the system returns a text that ends with a zero.
    unsafe {
        check(ConvertSidToStringSidW(sid, &raw mut text))?;
        let length = (0..).take_while(|at| *text.add(*at) != 0).count();
        let copied = String::from_utf16_lossy(std::slice::from_raw_parts(text, length));
        LocalFree(text.cast());
        Ok(copied)
    }
}

/// Reads the owner and the access control list of an open file. The handle needs the right `READ_CONTROL`, which reading
/// includes.
pub(super) fn descriptor_of(file: &File) -> io::Result<DescriptorMemory> {
    let mut descriptor = null_mut();
    // SAFETY: an open handle; the parts that are not asked for are null, and the descriptor is ours to free.
    check_code(unsafe {
        GetSecurityInfo(
            file.as_raw_handle(),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
            &raw mut descriptor,
        )
    })?;
    Ok(DescriptorMemory(descriptor))
}

/// Parses a descriptor in the security descriptor definition language.
pub(super) fn parse_descriptor(sddl: &str) -> io::Result<DescriptorMemory> {
    let sddl = wide(sddl)?;
    let mut descriptor = null_mut();
    // SAFETY: the text ends with a zero, and the descriptor is ours to free.
    check(unsafe {
        ConvertStringSecurityDescriptorToSecurityDescriptorW(
            sddl.as_ptr(),
            SDDL_REVISION_1,
            &raw mut descriptor,
            null_mut(),
        )
    })?;
    Ok(DescriptorMemory(descriptor))
}

/// Returns the SID of the owner.
pub(super) fn owner(descriptor: &DescriptorMemory) -> io::Result<Option<String>> {
    let mut owner: PSID = null_mut();
    let mut defaulted = 0;
    // SAFETY: a valid descriptor; the SID points into it.
    unsafe {
        check(GetSecurityDescriptorOwner(
            descriptor.0,
            &raw mut owner,
            &raw mut defaulted,
        ))?;
        (!owner.is_null()).then(|| sid_text(owner)).transpose()
    }
}

/// Returns the access control list inside a descriptor; `None` without one.
fn list(descriptor: &DescriptorMemory) -> io::Result<Option<*mut ACL>> {
    let (mut present, mut defaulted) = (0, 0);
    let mut list: *mut ACL = null_mut();
    // SAFETY: a valid descriptor; the list points into it.
    check(unsafe {
        GetSecurityDescriptorDacl(
            descriptor.0,
            &raw mut present,
            &raw mut list,
            &raw mut defaulted,
        )
    })?;
    Ok((present != 0 && !list.is_null()).then_some(list))
}

/// Returns the entries of the access control list; `None` without a list.
pub(super) fn entries(descriptor: &DescriptorMemory) -> io::Result<Option<Vec<AccessEntry>>> {
    let Some(list) = list(descriptor)? else {
        return Ok(None);
    };
    // SAFETY: the list is valid as long as the descriptor, and each entry lies within it. An entry for a SID ends with
    // the SID, whose length the system checks against its own count of parts; entries of other layouts are not read
    // beyond their header and mask.
    unsafe {
        let count = (*list).AceCount;
        let mut entries = Vec::with_capacity(count.into());
        for index in 0..count {
            let mut entry: *mut c_void = null_mut();
            check(GetAce(list, index.into(), &raw mut entry))?;
            let ACE_HEADER {
                AceType,
                AceFlags,
                AceSize,
            } = *entry.cast::<ACE_HEADER>();
            let allowed = entry.cast::<ACCESS_ALLOWED_ACE>();
            let has_sid = matches!(AceType, 0 | 9)
                && usize::from(AceSize) >= size_of::<ACCESS_ALLOWED_ACE>() + 4;
            let sid: PSID = (&raw mut (*allowed).SidStart).cast();
            let sid = (has_sid && IsValidSid(sid) != 0).then(|| sid_text(sid));
            entries.push(AccessEntry {
                kind: AceType,
                flags: AceFlags,
                mask: (*allowed).Mask,
                sid: sid.transpose()?,
            });
        }
        Ok(Some(entries))
    }
}

/// Replaces the access control list of a file, and with it whether the file inherits entries of its folder.
pub(super) fn set_list(file: &File, from: &SecurityDescriptor) -> io::Result<()> {
    let descriptor = &from.0;
    let list = list(descriptor)?;
    let (mut control, mut revision) = (0, 0);
    // SAFETY: a valid descriptor.
    check(unsafe {
        GetSecurityDescriptorControl(descriptor.0, &raw mut control, &raw mut revision)
    })?;
    let inheritance = if control & SE_DACL_PROTECTED == 0 {
        UNPROTECTED_DACL_SECURITY_INFORMATION
    } else {
        PROTECTED_DACL_SECURITY_INFORMATION
    };
    // SAFETY: an open handle, and a list that is valid as long as the descriptor, or null.
    check_code(unsafe {
        SetSecurityInfo(
            file.as_raw_handle(),
            SE_FILE_OBJECT,
            DACL_SECURITY_INFORMATION | inheritance,
            null_mut(),
            null_mut(),
            list.map_or(null(), |list| list.cast_const()),
            null(),
        )
    })
}

fn attributes(descriptor: &SecurityDescriptor) -> SECURITY_ATTRIBUTES {
    SECURITY_ATTRIBUTES {
        nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
        lpSecurityDescriptor: descriptor.0.0,
        bInheritHandle: 0,
    }
}

/// Creates a file with this descriptor, for reading and writing.
pub(super) fn create_file(path: &Path, descriptor: &SecurityDescriptor) -> io::Result<File> {
    let path = wide_path(path)?;
    let attributes = attributes(descriptor);
    // SAFETY: the path ends with a zero, the attributes point to a valid descriptor, and the handle has no other owner.
    unsafe {
        let handle = CreateFileW(
            path.as_ptr(),
            GENERIC_READ | GENERIC_WRITE,
            FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
            &raw const attributes,
            CREATE_NEW,
            FILE_ATTRIBUTE_NORMAL,
            null_mut(),
        );
        if handle == INVALID_HANDLE_VALUE {
            return Err(io::Error::last_os_error());
        }
        Ok(File::from_raw_handle(handle))
    }
}

/// Creates a folder with this descriptor.
pub(super) fn create_folder(path: &Path, descriptor: &SecurityDescriptor) -> io::Result<()> {
    let path = wide_path(path)?;
    let attributes = attributes(descriptor);
    // SAFETY: the path ends with a zero, and the attributes point to a valid descriptor.
    check(unsafe { CreateDirectoryW(path.as_ptr(), &raw const attributes) })
}

/// Returns the serial number of the volume of an open file, and the index of the file there.
pub(super) fn volume_and_index(file: &File) -> io::Result<(u32, u64)> {
    let mut facts = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: an open handle and a structure to fill.
    check(unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut facts) })?;
    let index = u64::from(facts.nFileIndexHigh) << 32 | u64::from(facts.nFileIndexLow);
    Ok((facts.dwVolumeSerialNumber, index))
}

/// Returns true if a process runs. Fails if no process has the id, or if it is not accessible.
pub(super) fn process_runs(process: u32) -> io::Result<bool> {
    // SAFETY: numbers; the handle has no other owner.
    unsafe {
        let handle = OpenProcess(PROCESS_SYNCHRONIZE, 0, process);
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        let handle = OwnedHandle::from_raw_handle(handle);
        // An ended process keeps its id as long as somebody has a handle to it.
        Ok(WaitForSingleObject(handle.as_raw_handle(), 0) != WAIT_OBJECT_0)
    }
}

/// Discards the input that the console has buffered. Fails for an input that is no console, which has none.
pub(super) fn flush_console_input() {
    // SAFETY: the handle belongs to the process; the call fails for one that is no console.
    unsafe { FlushConsoleInputBuffer(GetStdHandle(STD_INPUT_HANDLE)) };
}

/// Returns the number of bytes that this user may write to the disk of a folder.
pub(super) fn free_space(folder: &Path) -> io::Result<u64> {
    let folder = wide_path(folder)?;
    let mut free = 0;
    // SAFETY: the path ends with a zero; the other results are not asked for.
    check(unsafe { GetDiskFreeSpaceExW(folder.as_ptr(), &raw mut free, null_mut(), null_mut()) })?;
    Ok(free)
}

/// Puts this process into a job with a limit of memory, until it ends.
pub(super) fn limit_own_memory(bytes: u64) -> io::Result<()> {
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION {
        ProcessMemoryLimit: usize::try_from(bytes).unwrap_or(usize::MAX),
        ..Default::default()
    };
    limits.BasicLimitInformation.LimitFlags =
        JOB_OBJECT_LIMIT_PROCESS_MEMORY | JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
    // SAFETY: no attributes and no name; the limits have the type of their class, with its size; the handle has no other
    // owner, and the job remains as long as the process.
    unsafe {
        let job = CreateJobObjectW(null(), null());
        if job.is_null() {
            return Err(io::Error::last_os_error());
        }
        let job = OwnedHandle::from_raw_handle(job);
        check(SetInformationJobObject(
            job.as_raw_handle(),
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            size_of_val(&limits) as u32,
        ))?;
        check(AssignProcessToJobObject(
            job.as_raw_handle(),
            GetCurrentProcess(),
        ))
    }
}
