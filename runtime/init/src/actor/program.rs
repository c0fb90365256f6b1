//! Finding the program, and the user's home directory.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use rustix::fd::OwnedFd;
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, accessat, fstat, openat, stat};
use rustix::io::Errno;

use crate::failure::Failure;

/// The size in bytes of the buffer for `HOME=`, a path and NUL.
pub(crate) const LONGEST_HOME: usize = 512;
/// The maximum number of bytes of /etc/passwd that are read.
const LONGEST_PASSWD: usize = 1 << 20;

/// Returns the index of the first executable candidate. A search through PATH passes over directories, as a shell does.
pub(crate) fn find(candidates: &[&CStr], searched: bool) -> Result<usize, Failure> {
    let mut why = Errno::NOENT;
    for (index, candidate) in candidates.iter().enumerate() {
        match executable(candidate) {
            Ok(()) => return Ok(index),
            // If one candidate exists but cannot be executed, its error (such as EACCES) is reported, not the ENOENT of
            // other candidates.
            Err(Errno::NOENT) => {}
            Err(Errno::NOTDIR | Errno::ISDIR) if searched => {}
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

/// The maximum number of bytes of a path that a failure to execute quotes.
const QUOTED: usize = 90;

/// The text by which a failure names a missing interpreter.
pub const NO_INTERPRETER: &str = ": its interpreter ";

/// Returns the failure of execve(2). ENOENT for a program that exists means that its interpreter is missing: the one of
/// a script's first line, or the dynamic linker of an ELF file.
#[cold]
#[inline(never)]
pub(crate) fn not_executed(program: &CStr, errno: Errno) -> Failure {
    let path = program.to_bytes();
    let mut buffer = [MaybeUninit::<u8>::uninit(); HEAD];
    match interpreter(program, &mut buffer).filter(|_| errno == Errno::NOENT) {
        Some(name) => Failure::described(
            format_args!(
                "exec {}{NO_INTERPRETER}{} is not in the container",
                quoted(path),
                quoted(name)
            ),
            errno,
        ),
        None => Failure::described(format_args!("exec {}", quoted(path)), errno),
    }
}

fn quoted(bytes: &[u8]) -> core::slice::EscapeAscii<'_> {
    bytes.get(..QUOTED).unwrap_or(bytes).escape_ascii()
}

/// The number of bytes at the beginning of a program that are read.
const HEAD: usize = 1024;

/// Returns the interpreter that a program names.
fn interpreter<'a>(program: &CStr, buffer: &'a mut [MaybeUninit<u8>; HEAD]) -> Option<&'a [u8]> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, program, flags, Mode::empty()).ok()?;
    let (head, _) = rustix::io::read(&file, buffer).ok()?;
    interpreter_in(head)
}

/// Returns the interpreter that the first bytes of a program name.
fn interpreter_in(head: &[u8]) -> Option<&[u8]> {
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next()?.trim_ascii_start();
        return line.split(|&byte| matches!(byte, b' ' | b'\t' | 0)).next();
    }
    // ELF, 64 bits, little-endian: elf(5).
    const PT_INTERP: u64 = 3;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let number = |at: usize, length: usize| {
        let bytes = head.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    };
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for index in 0..count {
        let entry = usize::try_from(table.checked_add(index * size)?).ok()?;
        if number(entry, 4)? == PT_INTERP {
            let start = usize::try_from(number(entry.checked_add(8)?, 8)?).ok()?;
            return head.get(start..)?.split(|&byte| byte == 0).next();
        }
    }
    None
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
    fn interpreters_are_found() {
        let of = |head: &'static [u8]| interpreter_in(head);
        assert_eq!(of(b"#!/bin/sh\n"), Some(&b"/bin/sh"[..]));
        assert_eq!(of(b"#! /usr/bin/env python\nx"), Some(&b"/usr/bin/env"[..]));
        assert_eq!(of(b"#!/bin/sh\r\n"), Some(&b"/bin/sh\r"[..]));
        assert_eq!(of(b"text"), None);
        let mut elf = [0; 200];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (elf[32], elf[54], elf[56]) = (64, 56, 1);
        (elf[64], elf[72]) = (3, 120);
        elf[120..129].copy_from_slice(b"/lib/ld.s");
        assert_eq!(interpreter_in(&elf), Some(&b"/lib/ld.s"[..]));
        elf[72] = 250;
        assert_eq!(interpreter_in(&elf), None);
        elf[32..40].fill(255);
        assert_eq!(interpreter_in(&elf), None);
        let missing = not_executed(c"/no/such", Errno::NOENT);
        assert_eq!(missing.text(), b"exec /no/such");
    }

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
