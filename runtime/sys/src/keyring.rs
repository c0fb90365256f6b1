//! Session keyrings, keyctl(2).

use core::ffi::CStr;
use rustix::io::Errno;

const KEYCTL_JOIN_SESSION_KEYRING: usize = 1;
const KEYCTL_DESCRIBE: usize = 6;
const KEYCTL_SETPERM: usize = 5;

/// Joins the session keyring `name`, and returns the keyring's id. The kernel creates the keyring if no keyring of this
/// name exists.
///
/// # Errors
/// ENOSYS without CONFIG_KEYS, EPERM in some sandboxes, EDQUOT.
pub fn join_session(name: &CStr) -> Result<usize, Errno> {
    // SAFETY: a NUL-terminated name.
    unsafe {
        crate::raw::call(
            crate::raw::nr::KEYCTL,
            crate::raw::args![KEYCTL_JOIN_SESSION_KEYRING, name.as_ptr()],
        )
    }
}

/// Adds search permission for the key's owner to the key's permissions, as runc does. A process that changes its user
/// can then still use its session keyring.
///
/// # Errors
/// Those of keyctl(2).
pub fn allow_owner_search(key: usize) -> Result<(), Errno> {
    const OWNER_SEARCH: u32 = 0x0008_0000;
    let mut text = [0u8; 256];
    // SAFETY: the buffer is writable for the length given.
    let len = unsafe {
        crate::raw::call(
            crate::raw::nr::KEYCTL,
            crate::raw::args![KEYCTL_DESCRIBE, key, text.as_mut_ptr(), text.len()],
        )
    }?;
    // "type;uid;gid;perm;description", perm in hexadecimal.
    let described = text.get(..len.min(text.len())).unwrap_or_default();
    let field = described.split(|&b| b == b';').nth(3).ok_or(Errno::INVAL)?;
    let field = core::str::from_utf8(field).map_err(|_| Errno::INVAL)?;
    let mode = u32::from_str_radix(field, 16).map_err(|_| Errno::INVAL)?;
    // SAFETY: no pointers.
    unsafe {
        crate::raw::call(
            crate::raw::nr::KEYCTL,
            crate::raw::args![KEYCTL_SETPERM, key, mode | OWNER_SEARCH],
        )
    }
    .map(drop)
}
