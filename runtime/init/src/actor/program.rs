//! Finding the program, and the user's home directory.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use rustix::fd::OwnedFd;
use rustix::fs::{Access, AtFlags, CWD, FileType, OFlags, accessat, fstat, stat};
use rustix::io::Errno;

use crate::failure::Failure;

/// The size in bytes of the buffer for `HOME=`, a path and NUL.
pub(crate) const LONGEST_HOME: usize = 512;
/// The maximum number of bytes of /etc/passwd that are read.
const LONGEST_PASSWD: usize = 1 << 20;

/// Returns the index of the first executable candidate.
pub(crate) fn find(candidates: &[&CStr]) -> Result<usize, Failure> {
    let mut why = Errno::NOENT;
    for (index, candidate) in candidates.iter().enumerate() {
        match executable(candidate) {
            Ok(()) => return Ok(index),
            // If one candidate exists but cannot be executed, its error (such as EACCES) is reported, not the ENOENT of
            // other candidates.
            Err(Errno::NOENT) => {}
            Err(Errno::NOTDIR) if candidates.len() > 1 => {}
            Err(errno) => why = errno,
        }
    }
    Err(Failure::new("find program", why))
}

fn executable(path: &CStr) -> Result<(), Errno> {
    match FileType::from_raw_mode(stat(path)?.st_mode) {
        FileType::Directory => Err(Errno::ISDIR),
        _ => accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS),
    }
}

/// Writes `HOME=` and the home directory of `uid` to `buffer`. The directory is taken from the container's /etc/passwd,
/// a file that the container controls; if it has no entry for `uid`, the directory is `/`.
pub(crate) fn home(uid: u32, buffer: &mut [u8; LONGEST_HOME]) {
    if open_passwd().and_then(|file| find_home(&file, uid, buffer)).is_none() {
        write_home(b"/", buffer);
    }
}

/// Returns the environment entry that [`home`] wrote, or `None` if it has not been called.
pub(crate) fn found_home(buffer: &[u8; LONGEST_HOME]) -> Option<&CStr> {
    CStr::from_bytes_until_nul(buffer).ok().filter(|home| !home.is_empty())
}

/// Opens /etc/passwd if it is a regular file, following no magic link of procfs. Never blocks on a FIFO, and never
/// makes a terminal the controlling terminal.
fn open_passwd() -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = sys::inside::open_absolute(c"/etc/passwd", flags).ok()?;
    let kind = FileType::from_raw_mode(fstat(&file).ok()?.st_mode);
    (kind == FileType::RegularFile).then_some(file)
}

/// Parses passwd(5) line by line in a stack buffer. Skips lines that are longer than the buffer, and everything beyond
/// the maximum size.
// Not inlined, because of its buffer: otherwise every init would touch the pages of a larger frame.
#[inline(never)]
fn find_home(file: &OwnedFd, uid: u32, home: &mut [u8; LONGEST_HOME]) -> Option<usize> {
    let mut line = [0u8; 1024];
    let mut length = 0;
    let mut piece = [MaybeUninit::<u8>::uninit(); 4096];
    let mut seen = 0;
    while seen < LONGEST_PASSWD {
        let (bytes, _) = rustix::io::read(file, &mut piece).ok()?;
        seen += bytes.len();
        if bytes.is_empty() {
            // The last line may lack a newline.
            let path = line.get(..length).and_then(|line| home_in(line, uid))?;
            return write_home(path, home);
        }
        for &byte in bytes.iter() {
            if byte != b'\n' {
                if let Some(place) = line.get_mut(length) {
                    *place = byte;
                }
                length += 1;
                continue;
            }
            if let Some(path) = line.get(..length).and_then(|line| home_in(line, uid)) {
                return write_home(path, home);
            }
            length = 0;
        }
    }
    None
}

/// Returns the sixth field of a line whose third is `uid`.
fn home_in(line: &[u8], uid: u32) -> Option<&[u8]> {
    let mut fields = line.split(|&byte| byte == b':');
    let third = core::str::from_utf8(fields.nth(2)?).ok()?;
    if third.parse::<u32>() != Ok(uid) {
        return None;
    }
    fields.nth(2).filter(|home| !home.is_empty())
}

fn write_home(path: &[u8], home: &mut [u8; LONGEST_HOME]) -> Option<usize> {
    let text = b"HOME=".iter().chain(path).chain(&[0]);
    let length = 5 + path.len() + 1;
    let room = home.get_mut(..length)?;
    for (to, from) in room.iter_mut().zip(text) {
        *to = *from;
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_comes_from_the_line_of_the_user() {
        assert_eq!(home_in(b"www:x:33:33:www:/var/www:/bin/sh", 33), Some(&b"/var/www"[..]));
        assert_eq!(home_in(b"www:x:33:33:www:/var/www:/bin/sh", 3), None);
        assert_eq!(home_in(b"x:x:33:33:g::/bin/sh", 33), None);
        assert_eq!(home_in(b"", 0), None);
        let mut buffer = [0; LONGEST_HOME];
        assert_eq!(write_home(b"/root", &mut buffer), Some(11));
        assert_eq!(write_home(&[b'a'; 600], &mut buffer), None);
    }
}
