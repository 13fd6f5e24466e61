//! Security descriptor of a file: its owner and its access control list, and what they allow other users.

use std::fs::File;
use std::io;

use windows_sys::Win32::Foundation::{GENERIC_ALL, GENERIC_EXECUTE, GENERIC_READ, GENERIC_WRITE};
use windows_sys::Win32::Security::INHERIT_ONLY_ACE;
use windows_sys::Win32::Storage::FileSystem::{
    DELETE, FILE_APPEND_DATA, FILE_DELETE_CHILD, FILE_EXECUTE, FILE_READ_DATA, FILE_WRITE_DATA,
    FILE_WRITE_EA, WRITE_DAC, WRITE_OWNER,
};

use super::calls::{self, AccessEntry, DescriptorMemory};
use crate::file_access::{AccessFault, OwnerOnly};

/// Rights to change a file or folder, to replace it, or to give oneself such a right.
const WRITE_RIGHTS: u32 = FILE_WRITE_DATA
    | FILE_APPEND_DATA
    | FILE_WRITE_EA
    | FILE_DELETE_CHILD
    | DELETE
    | WRITE_DAC
    | WRITE_OWNER
    | GENERIC_WRITE
    | GENERIC_ALL;

/// Rights to read a file, to list a folder, or to reach what is in it.
const READ_RIGHTS: u32 = FILE_READ_DATA | FILE_EXECUTE | GENERIC_READ | GENERIC_EXECUTE;

/// SIDs that are no other user: SYSTEM, Administrators, TrustedInstaller, and the placeholders for the owner
/// (`CREATOR OWNER` matches nobody, `OWNER RIGHTS` the owner, who is checked).
const TRUSTED_SIDS: [&str; 5] = [
    "S-1-5-18",
    "S-1-5-32-544",
    "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
    "S-1-3-0",
    "S-1-3-4",
];

/// Types of entries. `ALLOW` and `ALLOW_CALLBACK` have the same layout.
const ALLOW: u8 = 0;
const ALLOW_CALLBACK: u8 = 9;
const ALLOW_COMPOUND: u8 = 4;
const ALLOW_OBJECT: u8 = 5;
const ALLOW_CALLBACK_OBJECT: u8 = 11;

/// The owner and the access control list of a file.
pub(super) struct SecurityDescriptor(pub(super) DescriptorMemory);

impl SecurityDescriptor {
    pub(super) fn of_file(file: &File) -> io::Result<Self> {
        calls::descriptor_of(file).map(Self)
    }

    /// Describes a file of this user that only the user, SYSTEM and Administrators can access. It inherits nothing from
    /// its folder; in a folder, new files inherit the same.
    pub(super) fn private() -> io::Result<Self> {
        let user = calls::current_user()?;
        let sddl = format!("O:{user}D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;{user})");
        Self::parse(&sddl)
    }

    pub(super) fn parse(sddl: &str) -> io::Result<Self> {
        calls::parse_descriptor(sddl).map(Self)
    }

    pub(super) fn has_trusted_owner(&self) -> io::Result<bool> {
        let user = calls::current_user()?;
        Ok(calls::owner(&self.0)?.is_some_and(|owner| is_trusted(&owner, user)))
    }

    /// Returns the first fault. Entries that deny access are not credited.
    pub(super) fn check(&self, owner_only: OwnerOnly) -> io::Result<Option<AccessFault>> {
        if !self.has_trusted_owner()? {
            return Ok(Some(AccessFault::OtherOwner));
        }
        let user = calls::current_user()?;
        let Some(entries) = calls::entries(&self.0)? else {
            // Without a list, everybody has all rights.
            return Ok(Some(AccessFault::Writable));
        };
        let mut rights = 0;
        for AccessEntry {
            kind,
            flags,
            mask,
            sid,
        } in entries
        {
            if u32::from(flags) & INHERIT_ONLY_ACE != 0 {
                continue;
            }
            rights |= match kind {
                ALLOW | ALLOW_CALLBACK
                    if sid.as_deref().is_some_and(|sid| is_trusted(sid, user)) =>
                {
                    0
                }
                ALLOW | ALLOW_CALLBACK => mask,
                // Not used for files; whom they allow is not read.
                ALLOW_COMPOUND | ALLOW_OBJECT | ALLOW_CALLBACK_OBJECT => GENERIC_ALL,
                _ => 0,
            };
        }
        Ok(if rights & WRITE_RIGHTS != 0 {
            Some(AccessFault::Writable)
        } else if owner_only == OwnerOnly::Reading && rights & READ_RIGHTS != 0 {
            Some(AccessFault::Readable)
        } else {
            None
        })
    }
}

fn is_trusted(sid: &str, user: &str) -> bool {
    sid == user || TRUSTED_SIDS.contains(&sid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_lists_are_judged_by_owner_and_entries() {
        let user = calls::current_user().unwrap();
        let everyone_writes = Some(AccessFault::Writable);
        let readable = Some(AccessFault::Readable);
        for (owner, list, writing, reading) in [
            (user, "D:P(A;;FA;;;SY)(A;;FA;;;BA)", None, None),
            ("BA", "D:(A;;FA;;;SY)", None, None),
            ("SY", "D:(A;ID;FA;;;BA)", None, None),
            // No entry at all: nobody but the owner.
            (user, "D:P", None, None),
            // No list: everybody.
            (user, "", everyone_writes, everyone_writes),
            (user, "D:(A;;FR;;;WD)", None, readable),
            (user, "D:(A;;FX;;;BU)", None, readable),
            (user, "D:(A;;GR;;;AU)", None, readable),
            (user, "D:(A;;GA;;;WD)", everyone_writes, everyone_writes),
            (user, "D:(A;;FW;;;AU)", everyone_writes, everyone_writes),
            (user, "D:(A;;WD;;;BU)", everyone_writes, everyone_writes),
            (user, "D:(A;;WO;;;BU)", everyone_writes, everyone_writes),
            (user, "D:(A;;SD;;;BU)", everyone_writes, everyone_writes),
            (user, "D:(A;;FA;;;AN)", everyone_writes, everyone_writes),
            (
                user,
                "D:(A;;FA;;;S-1-5-21-1-2-3-1001)",
                everyone_writes,
                everyone_writes,
            ),
            // A denial is not credited, an entry for children only does not count.
            (
                user,
                "D:(D;;FA;;;WD)(A;;FA;;;WD)",
                everyone_writes,
                everyone_writes,
            ),
            (user, "D:(A;OICIIO;FA;;;WD)(A;OICIIO;FA;;;CO)", None, None),
            (
                "WD",
                "D:P(A;;FA;;;SY)",
                Some(AccessFault::OtherOwner),
                Some(AccessFault::OtherOwner),
            ),
            (
                "S-1-5-21-1-2-3-1001",
                "D:P",
                Some(AccessFault::OtherOwner),
                Some(AccessFault::OtherOwner),
            ),
        ] {
            let descriptor = SecurityDescriptor::parse(&format!("O:{owner}{list}")).unwrap();
            let found = [OwnerOnly::Writing, OwnerOnly::Reading]
                .map(|owner_only| descriptor.check(owner_only).unwrap());
            assert_eq!(found, [writing, reading], "O:{owner}{list}");
        }
    }
}
